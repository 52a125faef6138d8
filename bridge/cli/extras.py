"""The parts of Waybill that a small installation leaves out, and which extra brings each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, NoReturn

EXTRAS: Final = {
    "relayer": (
        *("fastapi", "jinja2", "limits", "numpy", "prometheus_client", "psycopg", "pyarrow"),
        *("starlette", "uvicorn"),
    ),
    "index": ("deltalake", "duckdb", "pyspark"),
    "kafka": ("confluent_kafka",),
}
"""By extra, the modules that it brings. The extra `devnet` is the first two, and Spark's Java."""


def require_devnet() -> None:
    """Ends the process before a command that runs all of Waybill has started any of it, where a part is not installed."""
    for module in (*EXTRAS["relayer"], *EXTRAS["index"]):
        if not is_installed(module):
            _end(f"this command needs {module}, which a small installation leaves out", "pip install 'waybill[devnet]'")


def is_installed(module: str) -> bool:
    """Whether a module is here; an installation without its extra lacks it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def explained() -> Iterator[None]:
    """Ends the process with one line where a command needs a package that only an extra brings."""
    try:
        yield
    except ModuleNotFoundError as error:
        first = _first(error)
        if isinstance(first, ModuleNotFoundError):
            extra = extra_of(first)
            if extra is None:
                raise
            _end(
                f"this command needs {first.name}, which a small installation leaves out",
                f"pip install 'waybill[{extra}]'",
            )
        _end(f"{first}", "add --help to see what the command takes")


def _first(error: BaseException) -> BaseException:
    """What failed at first: where an error's own explanation needs a package, the package is not the news."""
    while error.__context__ is not None and isinstance(error, ModuleNotFoundError):
        error = error.__context__
    return error


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra that brings the module that is missing, or None where none does."""
    module = (error.name or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if module in modules), None)


def _end(message: str, next_step: str) -> NoReturn:
    """Ends as `bridge.cli.output.fail` does, which needs a package itself."""
    sys.stderr.write(f"error {message}\nnext  {next_step}\n")
    raise SystemExit(1)
