"""What every Python suite relies on."""

import logging
import signal
from collections.abc import Iterator

import pytest
import structlog

# A shell without job control starts background jobs with SIGINT ignored, and every process below inherits that. The suites
# send Ctrl-C to what they start, and are themselves stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process decides what is logged, for itself alone."""
    configuration, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.configure(**configuration)
    root.handlers[:] = handlers
    root.setLevel(level)
