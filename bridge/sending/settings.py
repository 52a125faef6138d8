"""How patiently transactions are sent."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.message import MOST_GAS
from bridge.records.spending import UNBOUNDED, SpendBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingSettings:
    """Times are in seconds."""

    poll: float = 1.0  # between two looks at the chain
    reservation: float = 10.0  # after it, a nonce that was reserved but not signed for is closed by a no-op
    rebroadcast: float = 20.0  # after it, a transaction that no block includes is sent again
    replace: float = 60.0  # after it, the first transaction in line offers higher fees
    foreign: float = 15.0  # after it, a nonce that is used but not by us counts as taken by another signer
    inclusion: float = 180.0  # how long one send waits for a block
    gas_margin: float = 1.2  # on top of an estimate
    max_gas: int = MOST_GAS  # gas that no transaction exceeds
    max_fee: int | None = None  # wei per gas that no transaction exceeds
    batch: int = 100  # calls signed and stored at once
    bounds: SpendBounds = UNBOUNDED  # what transactions may cost, by message, sender, lane and chain
    share: int = 1  # calls that share a transaction at most, where the chain has a contract for that; 1: none does
