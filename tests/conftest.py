"""What every Python suite relies on."""

import faulthandler
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests import seeds

TESTS = Path(__file__).resolve().parent

# A shell without job control starts background jobs with SIGINT ignored, and every process below inherits that. The suites
# send Ctrl-C to what they start, and are themselves stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in each run of `make test`, on a machine of any speed.
hypothesis_settings.register_profile(
    "waybill",
    deadline=None,
    max_examples=100 if seeds.SEED else 25,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not seeds.SEED,
    database=None,
)
hypothesis_settings.load_profile("waybill")

ORDER = ("spark", "kafka", "anvil", "simulation", "unit")
"""The folders of tests/ with the longest files first, so that no worker is left alone with one of them at the end."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test the group of its file, unless its folder or the test names one."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(GROUPS.get(_folder(item), str(item.path.relative_to(TESTS)))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first."""
    items.sort(key=lambda item: ORDER.index(_folder(item)))


GROUPS = {"spark": "spark", "kafka": "kafka"}
"""The folders whose tests share one JVM."""


def _folder(item: pytest.Item) -> str:
    """Return the folder of tests/ that a test is in."""
    return item.path.relative_to(TESTS).parts[0]


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
