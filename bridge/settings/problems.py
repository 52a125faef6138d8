"""Formats all problems with settings, each with its source, value and fix. Secrets are never quoted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo

_LONGEST_VALUE: Final = 60  # characters


class SettingsError(ValueError):
    """The settings are invalid. The message lists every problem."""


def explain(
    error: ValidationError,
    fields: Mapping[str, FieldInfo],
    origin_of: Callable[[str], str],
    secret: frozenset[str],
) -> list[str]:
    """Returns a line for each invalid value or unknown setting.

    Args:
        error: the validation error.
        fields: the known settings.
        origin_of: returns the source of a setting's value.
        secret: settings whose values are never quoted.
    """
    lines = []
    for item in error.errors(include_url=False):
        name = ".".join(str(part) for part in item["loc"] if part != "[key]")
        top, problem = str(item["loc"][0]), item["msg"].removeprefix("Value error, ")
        if top not in fields:
            lines.append(f"{name} ({origin_of(top)}): unknown setting ({problem})")
            continue
        shown = "" if top in secret else f" is {_short(item['input'])}"
        meaning = fields[top].description
        lines.append(f"{name}{shown} ({origin_of(top)}): {problem}" + (f" [{meaning}]" if meaning else ""))
    return lines


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
