"""One test for many cases: it runs all of them and reports every miss."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each_case(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls a test once for each case, with the same fixtures.

    Args:
        names: the test's arguments that a case gives, separated by commas.
        cases: a tuple of values for each call, or the value alone where there is one argument.
    """
    arguments = [name.strip() for name in names.split(",")]
    calls = [dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True)) for case in cases]
    assert calls, "a test without cases proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            misses = []
            for case in calls:
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  every miss is reported
                    miss = error if isinstance(error, Exception) else AssertionError(str(error))
                    miss.add_note(f"case: {case!r}")
                    misses.append(miss)
            if misses:
                raise ExceptionGroup(f"{len(misses)} of {len(calls)} cases failed", misses)

        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]  # pytest asks for it
        return run

    return decorate
