"""Whether a receipt is honest: a pure function of what both chains say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Judgement(StrEnum):
    """What a receipt is."""

    WAIT = "WAIT"  # the source's finality does not cover it yet
    HONEST = "HONEST"  # its source handed the GMP this message, for good
    ORPHANED = "ORPHANED"  # its source did, in a block that fell: the GMP did not wait, and did not lie
    UNKNOWN = "UNKNOWN"  # nobody can say: people are told
    RECEIPT_WITHOUT_CREATION = "RECEIPT_WITHOUT_CREATION"
    RECEIPT_OVER_UNUSED_GMP = "RECEIPT_OVER_UNUSED_GMP"
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"

    @property
    def is_forgery(self) -> bool:
        """Whether the GMP lied."""
        return self in (
            Judgement.RECEIPT_WITHOUT_CREATION,
            Judgement.RECEIPT_OVER_UNUSED_GMP,
            Judgement.PAYLOAD_DIFFERS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenReceipt:
    """A GMP's receipt on a destination.

    Attributes:
        row: its number in the store.
        payload_hash: None for a delivery that came too late: its event does not say.
        block_time: of the destination's block, Unix seconds.
        source_height: the source's newest block after the receipt was seen: the creation can't be above it. None until the
            source was asked.
    """

    row: int
    chain_id: int
    message_id: bytes
    gmp: int
    source_chain: int
    payload_hash: bytes | None
    block_number: int
    block_hash: bytes
    block_time: int
    transaction: bytes
    source_height: int | None

    def __hash__(self) -> int:
        """All else follows from these, and it is asked for often."""
        return hash((self.row, self.block_hash, self.source_height))


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A message as a router created it, in a block that may have fallen since."""

    router: str
    destination: int
    payload_hash: bytes
    block_number: int
    is_orphaned: bool


@dataclass(frozen=True, slots=True)
class HandOver:
    """A router handed a message to GMPs (bits), in a block that may have fallen since."""

    gmps: int
    block_number: int
    is_orphaned: bool


def judge(
    receipt: SeenReceipt,
    creations: Sequence[Creation],
    hand_overs: Sequence[HandOver],
    final: int,
    *,
    is_covered: bool,
) -> Judgement:
    """Judges a receipt by what is known of its source.

    Args:
        receipt: whose honesty is in doubt.
        creations: of its message.
        hand_overs: of its message.
        final: height of the newest final block of the source; −1 without one.
        is_covered: whether the source is final past the moment at which the receipt was seen. What an honest receipt rests on
            was there before it: nothing can come any more.
    """
    handed = [one for one in hand_overs if one.gmps >> (receipt.gmp - 1) & 1]
    standing = next((one for one in creations if not one.is_orphaned), None)
    if standing is not None:
        blocks = [one.block_number for one in handed if not one.is_orphaned]
        if receipt.payload_hash not in (None, standing.payload_hash) or standing.destination != receipt.chain_id:
            # No reorg explains it once the source's block is final.
            return Judgement.PAYLOAD_DIFFERS if standing.block_number <= final else Judgement.WAIT
        if blocks:
            return Judgement.HONEST if max(standing.block_number, min(blocks)) <= final else Judgement.WAIT
    if not is_covered:
        return Judgement.WAIT
    if handed or (creations and standing is None):
        return Judgement.ORPHANED
    return Judgement.RECEIPT_OVER_UNUSED_GMP if standing is not None else Judgement.RECEIPT_WITHOUT_CREATION
