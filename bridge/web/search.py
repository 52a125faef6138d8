"""What somebody typed into the search box, and where it leads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from bridge.protocol.addresses import AddressError, to_bytes32
from bridge.web.sources import Sources

_WORD: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")
_ADDRESS: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{40})")


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a search leads: one place, several messages to choose from, or nowhere, for a reason."""

    path: str | None = None
    several: tuple[bytes, ...] = ()
    problem: str = ""


def search(sources: Sources, typed: str) -> Goal:
    """Leads from a message id, a transaction hash of either chain, or the address of a sender or recipient."""
    text = typed.strip()
    word = _WORD.fullmatch(text)
    if word:
        return _by_word(sources, bytes.fromhex(word.group(1)))
    if _ADDRESS.fullmatch(text):
        address = text if text.startswith("0x") else f"0x{text}"
        try:
            to_bytes32(address)
        except AddressError as error:
            return Goal(problem=f"{error}; type it in lower case if the checksum does not matter to you")
        return Goal(path=f"/messages?{urlencode({'account': address})}")
    return Goal(problem=f"{text[:80]!r} is no message id, transaction hash (0x and 64 hex digits) or address (40)")


def _by_word(sources: Sources, word: bytes) -> Goal:
    index, store = sources.index(), sources.store()
    if (index and index.message(word)) or (store and store.observations.message(word)):
        return Goal(path=f"/message/0x{word.hex()}")
    found = index.of_transaction(word) if index else []
    if len(found) == 1:
        return Goal(path=f"/message/0x{found[0].hex()}")
    if found:
        return Goal(several=tuple(found))
    return Goal(problem=f"neither a message nor a transaction 0x{word.hex()} is known here")
