"""Quotes untrusted text, such as revert reasons and nodes' responses.

Quoted text can't be mistaken for Waybill's own text.
"""

from __future__ import annotations

from typing import Final

MOST_QUOTED: Final = 200
"""The maximum length of a quotation in characters."""

_INSIDE: Final = {"`": r"\x60", '"': r"\"", "\\": r"\\"}
"""Characters that would end a quotation or start markup."""

_PARTED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str, keep: str = "") -> str:
    r"""Escapes control and bidirectional characters: `\x1b` moves a cursor, `\u202e` reverses the line.

    Args:
        text: the untrusted text.
        keep: control characters that may stay, such as a line feed.
    """
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def shortened(text: str, most: int) -> str:
    """Truncates text and appends the number of characters left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def quoted(text: str, most: int = MOST_QUOTED) -> str:
    """Returns untrusted text in double quotes on one line, truncated to about `most` characters.

    Backticks are escaped, since they mark Waybill's own commands.
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
