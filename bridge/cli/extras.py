"""The optional dependencies of Waybill, and the extra that installs each."""

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
"""The modules that each extra installs. The extra `devnet` installs the first two, and Java for Spark."""


def require_devnet() -> None:
    """Exits if the demo's dependencies are not all installed, before it starts any process."""
    for module in (*EXTRAS["relayer"], *EXTRAS["index"]):
        if find_spec(module) is None:
            _end(f"this command needs {module}, which is not installed", "pip install 'waybill[devnet]'")


@contextmanager
def explained() -> Iterator[None]:
    """Exits with a one-line message if a command needs a package that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        first = _first(error)
        if isinstance(first, ModuleNotFoundError):
            extra = extra_of(first)
            if extra is None:
                raise
            _end(
                f"this command needs {first.name}, which is not installed",
                f"pip install 'waybill[{extra}]'",
            )
        _end(f"{first}", "--help shows the command's options")


def _first(error: BaseException) -> BaseException:
    """Returns the original error. Formatting that error may itself have failed because of the missing package."""
    while error.__context__ is not None and isinstance(error, ModuleNotFoundError):
        error = error.__context__
    return error


def extra_of(error: ModuleNotFoundError) -> str | None:
    """Returns the extra that installs the missing module, or None."""
    module = (error.name or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if module in modules), None)


def _end(message: str, next_step: str) -> NoReturn:
    """Prints an error in the same way as `bridge.cli.output.fail`, which itself needs an optional package."""
    sys.stderr.write(f"error {message}\nnext  {next_step}\n")
    raise SystemExit(1)
