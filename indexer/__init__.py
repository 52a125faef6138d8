"""Waybill's index: Spark reads the chains' events to find what was sent, what arrived, and what has stalled."""

import os

# Arrow's own allocator retains more freed memory the longer a process runs: in the running index 50 MB after a quarter of an
# hour, all of it unused. Arrow reads this variable once, when it is first imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
