"""Brings a nonce ledger that was restored from a backup in line with its chain."""

from __future__ import annotations

from bridge.ports import Chain, Clock
from bridge.records.transactions import SlotState, TransactionLedger


async def reconcile_nonces(chain: Chain, account: str, ledger: TransactionLedger, clock: Clock) -> int:
    """Notes as taken every nonce that the chain knows and the ledger does not; returns how many there were.

    Blocks include those, or nodes still hold them: the relayer signed them after the backup. None of them is given out
    again; one that never gets into a block is closed by a no-op, as every gap is.

    Raises:
        TransientError: the chain did not answer; what was noted stays, and the rest is noted the next time.
    """
    known = {slot.nonce for slot in ledger.slots(chain.chain_id, account)}
    first = max(known, default=-1) + 1 if known else await chain.transaction_count(account)
    noted = 0
    for nonce in range(first, await chain.pending_count(account)):
        slot = ledger.fill(chain.chain_id, account, nonce, clock.now())
        if slot.state is SlotState.RESERVED:
            ledger.take(slot.slot_id)
            noted += 1
    return noted
