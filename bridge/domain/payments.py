"""What senders and others have paid for deliveries, as the vault on a message's source says (`contracts/relaying/RelayerVault.sol`).

A payment belongs to a message and a GMP. It is worth so much of the destination's currency as the vault's rate said when it was
made, for all time. It counts once the block that holds it is final, and it stops counting a day before its payer may fetch it.
Amounts are kept in gwei, rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.domain.lanes import Lane
from bridge.domain.spending import GWEI

RATE_UNIT: Final = 10**12
"""Wei of a destination that a vault's rate is said of."""

MARGIN: Final = 86_400.0
"""Seconds before its payer may fetch it in which a payment is not spent any more: enough to charge what was spent."""


class VaultAct(StrEnum):
    """What a vault's event says of a payment."""

    PAID = "PAID"
    EARNED = "EARNED"
    REFUNDED = "REFUNDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultEvent:
    """One event.

    Attributes:
        gmp: the number that the payment names, which this version may not know.
        payer: an address.
        wei: of the source's currency.
        destination_chain: that a payment names; 0 for other events.
        rate: wei of the source that `RATE_UNIT` wei of the destination are worth; 0 for other events.
        refundable_at: Unix seconds, from which on the payer may fetch what is left; 0: at once.
    """

    act: VaultAct
    message_id: bytes
    gmp: int
    payer: str
    wei: int
    destination_chain: int = 0
    rate: int = 0
    refundable_at: int = 0
    source_chain: int
    block_number: int
    transaction_hash: bytes
    log_index: int

    @property
    def covers(self) -> int:
        """Gwei of the destination that it pays for."""
        return min(self.wei * RATE_UNIT // self.rate // GWEI, _MOST) if self.rate else 0


_MOST: Final = 2**53  # gwei: more than any chain has; sums of such fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one payer has paid for a message and a GMP, in gwei of the source, and what became of it.

    Attributes:
        covers: gwei of the destination that count now.
        spent: gwei of the destination that all payers' deliveries of this message and GMP have cost.
    """

    message_id: bytes
    gmp: int
    payer: str
    source_chain: int
    destination_chain: int
    paid: int
    earned: int
    refunded: int
    covers: int
    spent: int


@dataclass(frozen=True, slots=True)
class Economy:
    """What a lane's deliveries over one GMP have brought and cost; the GMP is 0 for executions, None for retries.

    Attributes:
        paid: wei of the source that were paid into the vault.
        earned: those that the operator has charged.
        refunded: those that payers have fetched.
        spent: wei by the chain where they were spent, and by who paid: "vault", "executor", "sponsor NAME", or "" for the operator.
    """

    lane: Lane
    gmp: int | None
    paid: int
    earned: int
    refunded: int
    spent: Mapping[tuple[int, str], int]


@dataclass(frozen=True, slots=True)
class Charge:
    """What the operator has spent of one payment, in gwei of the source; `ended` gives the rest back to the payer."""

    account: Account
    gwei: int
    ended: bool


def charges_of(accounts: Sequence[Account], spent_on_message: int, *, ended: bool) -> list[Charge]:
    """What of a message's payments is to be charged, beyond what was.

    Each GMP's deliveries are charged to those who paid for that GMP; what executions cost, to those who have something left.

    Args:
        accounts: all of the message, in the order in which they are charged.
        spent_on_message: gwei of the destination that its deliveries and executions have cost.
        ended: whether nothing more will be spent on it.
    """
    left = {account: account.covers for account in accounts}
    executions = spent_on_message - sum({account.gmp: account.spent for account in accounts}.values())
    for gmp in {account.gmp for account in accounts}:
        owed = next(account.spent for account in accounts if account.gmp == gmp)
        for account in (account for account in accounts if account.gmp == gmp):
            taken = min(owed, left[account])
            left[account] -= taken
            owed -= taken
    for account in accounts:
        taken = min(max(0, executions), left[account])
        left[account] -= taken
        executions -= taken
    found = []
    for account in accounts:
        used = account.covers - left[account]
        due = account.paid * used // account.covers - account.earned if account.covers else 0
        due = min(due, account.paid - account.earned - account.refunded)
        if due > 0 or (ended and account.earned + account.refunded < account.paid):
            found.append(Charge(account, max(0, due), ended))
    return found
