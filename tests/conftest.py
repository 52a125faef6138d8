"""What every Python suite relies on."""

import signal

# A shell without job control starts background jobs with SIGINT ignored, and every process below inherits that. The suites
# send Ctrl-C to what they start, and are themselves stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)
