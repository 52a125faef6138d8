"""Filters for the messages that a worker delivers.

Other messages are observed and kept, and delivered once a filter accepts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.protocol.message import Kind, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPolicy:
    """Allow and deny lists. The deny list takes precedence.

    Attributes:
        withheld_sources: EIP-155 ids of source chains whose messages wait.
        senders: Message senders as 32 bytes; None allows all.
        withheld_senders: Senders whose messages wait.
        kinds: Message kinds; None allows all.
    """

    withheld_sources: frozenset[int] = frozenset()
    senders: frozenset[bytes] | None = None
    withheld_senders: frozenset[bytes] = frozenset()
    kinds: frozenset[Kind] | None = None

    def allows(self, message: Message) -> bool:
        """Whether a message is accepted."""
        return (
            message.source_chain not in self.withheld_sources
            and (self.senders is None or message.sender in self.senders)
            and message.sender not in self.withheld_senders
            and (self.kinds is None or message.kind in self.kinds)
        )


EVERYTHING: Final = RelayPolicy()
"""A filter that accepts every message."""
