"""Whose messages a worker delivers. The others are observed and kept, and are delivered once they are accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.protocol.message import Kind, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPolicy:
    """Lists of what is accepted and what is not; withholding is the stronger.

    Attributes:
        sources: source chains, by EIP-155 id; None is every one.
        withheld_sources: source chains whose messages wait.
        senders: message senders as 32 bytes; None is every one.
        withheld_senders: senders whose messages wait.
        kinds: kinds of message; None is every one.
    """

    sources: frozenset[int] | None = None
    withheld_sources: frozenset[int] = frozenset()
    senders: frozenset[bytes] | None = None
    withheld_senders: frozenset[bytes] = frozenset()
    kinds: frozenset[Kind] | None = None

    def allows(self, message: Message) -> bool:
        """Whether a message is accepted."""
        return (
            (self.sources is None or message.source_chain in self.sources)
            and message.source_chain not in self.withheld_sources
            and (self.senders is None or message.sender in self.senders)
            and message.sender not in self.withheld_senders
            and (self.kinds is None or message.kind in self.kinds)
        )


EVERYTHING: Final = RelayPolicy()
"""Nobody's messages wait."""
