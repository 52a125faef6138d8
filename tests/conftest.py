"""What every Python suite relies on."""

import faulthandler
import logging
import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# A shell without job control starts background jobs with SIGINT ignored, and every process below inherits that. The suites
# send Ctrl-C to what they start, and are themselves stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How quickly inputs are made, and one of them is tried, tells something of the machine and of what else it does.
hypothesis_settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("any machine")


class TimedOut(BaseException):
    """No failure for Hypothesis, which would look for smaller examples of it, each of which may take as long again."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Ends a test whose time is over, whatever repeats it."""

    def end(*_: object) -> NoReturn:
        faulthandler.dump_traceback()
        raise TimedOut(f"{item.nodeid} took longer than {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> bool:
    """What `pytest_timeout_set_timer` began."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process decides what is logged, for itself alone."""
    configuration, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.configure(**configuration)
    root.handlers[:] = handlers
    root.setLevel(level)
