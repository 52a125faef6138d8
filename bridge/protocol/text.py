"""Text that strangers wrote: reasons of reverts, answers of nodes. Shown so that it can't pass for anything else."""

from __future__ import annotations

from typing import Final

MOST_QUOTED: Final = 200
"""Characters of a quotation."""

_INSIDE: Final = {"`": r"\x60", '"': r"\"", "\\": r"\\"}
"""What would end a quotation, or begin something else in it."""

_PARTED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str, keep: str = "") -> str:
    r"""The text with its control and direction characters as escapes: `\x1b` moves a cursor, `\u202e` turns the line around.

    Args:
        text: what somebody wrote.
        keep: control characters that may stay, such as a line feed.
    """
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def shortened(text: str, most: int) -> str:
    """The beginning of a text, and how much of it was left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def quoted(text: str, most: int = MOST_QUOTED) -> str:
    r"""A stranger's text in double quotes, on one line, never longer than `most` and a few characters.

    Backticks are escaped: between them stand Waybill's own commands.
    """
    safe = "".join(_INSIDE.get(one) or visible(one) for one in text[:most])
    cut = len(text) - most
    return f'"{safe}"' if cut <= 0 else f'"{safe}…" ({cut} more characters)'


def _escape(character: str) -> str:
    number = ord(character)
    if character in _PARTED:
        return _PARTED[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
