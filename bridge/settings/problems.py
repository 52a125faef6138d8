"""Formats all problems with settings, each with its source, value and fix. Secrets are never quoted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

_LONGEST_VALUE: Final = 60  # characters


class SettingsError(ValueError):
    """The settings are invalid. The message lists every problem."""


def refusal(
    title: str, errors: Sequence[ErrorDetails], conflicts: Sequence[str], values: Mapping[str, Any]
) -> ValidationError:
    """Combines validation errors and contradictions into one error."""
    found = [
        InitErrorDetails(type=item["type"], loc=item["loc"], input=item["input"], ctx=item.get("ctx", {}))
        for item in errors
    ]
    if conflicts:
        text = PydanticCustomError("conflict", "{problems}", {"problems": "\n  ".join(conflicts)})
        found.append(InitErrorDetails(type=text, loc=(), input=values))
    return ValidationError.from_exception_data(title, found)


def explain(
    error: ValidationError,
    fields: Mapping[str, FieldInfo],
    origin_of: Callable[[str], str],
    secret: frozenset[str],
) -> SettingsError:
    """Returns an error with one line per problem.

    Args:
        error: the validation error.
        fields: the known settings.
        origin_of: returns the source of a setting's value.
        secret: settings whose values are never quoted.
    """
    lines = []
    for item in error.errors(include_url=False):
        name = ".".join(str(part) for part in item["loc"] if part != "[key]")
        top = str(item["loc"][0]) if item["loc"] else ""
        problem = item["msg"].removeprefix("Value error, ")
        if top not in fields:
            if top:
                problem = f"unknown setting ({problem})"
            lines.append(f"  {name or 'settings'} ({origin_of(top)}): {problem}" if top else f"  {problem}")
            continue
        shown = "" if top in secret else f" is {_short(item['input'])}"
        meaning = fields[top].description
        lines.append(f"  {name}{shown} ({origin_of(top)}): {problem}" + (f" [{meaning}]" if meaning else ""))
    return SettingsError("invalid settings:\n" + "\n".join(lines))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
