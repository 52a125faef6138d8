"""Formats validation errors in a hand-written file, one line each, with the place, the value, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from bridge.protocol.text import quoted

_LONGEST: Final = 60  # characters of a value
_PLAIN: Final = {
    "missing": "it is missing: add it",
    "extra_forbidden": "unknown key: remove it, or correct its name",
}
"""Waybill's wording for the library's error types."""

_SECRET: Final = frozenset({"rpcUrls", "rpc_urls"})  # may hold a key


def file_problems(error: ValidationError, prefix: str = "") -> Iterator[str]:
    """Yields the problems that validation found, one line each, with `prefix` before the place."""
    for item in error.errors(include_url=False):
        place = prefix + ".".join(map(str, item["loc"]))
        text = _PLAIN.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        is_of_file = item["type"] in (*_PLAIN, "value_error")  # whose text is complete
        shown = "" if is_of_file or _SECRET & set(item["loc"]) else f" (it is {quoted(str(item['input']), _LONGEST)})"
        yield f"{place}: {text}{shown}"
