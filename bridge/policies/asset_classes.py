"""Classes of assets, and how long messages about them live at least. Who belongs to one is said by address: a message names none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.policies.guarantee import resolve_ttl
from bridge.protocol.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetClass:
    """One class."""

    name: str
    min_ttl: int  # seconds
    members: frozenset[tuple[int, bytes]]  # contracts by chain and address (32 bytes): as sender or as recipient

    def holds(self, sender: tuple[int, bytes], recipient: tuple[int, bytes]) -> bool:
        """Whether messages from one to the other are about its assets."""
        return sender in self.members or recipient in self.members


def strictest(
    classes: Iterable[AssetClass], sender: tuple[int, bytes], recipient: tuple[int, bytes]
) -> AssetClass | None:
    """The class with the longest minimum among those that hold for a message; None if none does."""
    holding = [one for one in classes if one.holds(sender, recipient)]
    return max(holding, key=lambda one: one.min_ttl, default=None)


def class_of(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """See `strictest`."""
    return strictest(classes, (message.source_chain, message.sender), (message.destination_chain, message.recipient))


def undercut(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """The class whose minimum a message was routed below; it can't be raised any more, since the id binds it."""
    found = class_of(message, classes)
    return found if found is not None and resolve_ttl(message.ttl, found.min_ttl) != message.ttl else None
