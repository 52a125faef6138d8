"""Sends a chain's transactions with the owner's key, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bridge.deploy.transactions import DeployError, Transaction
from bridge.evm.chain import EvmChain
from bridge.evm.signing import Signer, UnsignedTransaction
from bridge.protocol.contracts import explain_revert
from bridge.protocol.ports import Call, CallRevertedError, Fees, Receipt, TransientError

MOST_GAS: Final = 2**24
"""Gas limit of a transaction (EIP-7825)."""

_INCLUSION_SECONDS: Final = 600.0
_REPLACE_AFTER: Final = 15.0  # seconds until the transaction is replaced with a higher fee
_POLL_INTERVAL: Final = 0.05  # seconds
_FEE_RISE: Final = 1.125  # nodes require at least 10% more for a replacement


async def send_all(
    name: str,
    chain: EvmChain,
    signer: Signer,
    transactions: Sequence[Transaction],
    included: Callable[[Transaction], None] = lambda _: None,
) -> None:
    """Sends transactions, waiting for each to be included before sending the next.

    Args:
        name: Name of the chain, for errors.
        chain: Connection to the chain.
        signer: The owner's signer.
        transactions: Transactions in order.
        included: Called with each included transaction.

    Raises:
        DeployError: a transaction reverted or was not included within ten minutes. Earlier transactions stand, and the
            next run
            continues from there.
        TransientError: no endpoint answered.
    """
    if not transactions:
        return
    nonce, pending = await chain.transaction_count(signer.address), await chain.pending_count(signer.address)
    if pending > nonce:
        raise DeployError(
            f"chain {name!r}: {pending - nonce} transactions of {signer.address} are pending, perhaps from an interrupted run;"
            " wait until they are included or replace them, then deploy again"
        )
    for transaction in transactions:
        await _send(name, chain, signer, transaction, nonce)
        included(transaction)
        nonce += 1


def gas_limit(needed: int) -> int:
    """Returns the gas limit for an estimate: a fifth more, up to the limit of a transaction."""
    return max(needed, min(needed * 6 // 5, MOST_GAS))


async def _send(name: str, chain: EvmChain, signer: Signer, transaction: Transaction, nonce: int) -> None:
    try:
        needed = await chain.estimate_gas(Call(to=transaction.to, data=transaction.data), signer.address)
    except CallRevertedError as error:
        raise DeployError(
            f"chain {name!r}: {transaction.name!r} ({transaction.to}) would revert: {explain_revert(error.data)}"
        ) from error
    unsigned = UnsignedTransaction(
        chain_id=chain.chain_id,
        nonce=nonce,
        to=transaction.to,
        data=transaction.data,
        value=0,
        gas=gas_limit(needed),
        fees=await chain.fees(),
    )
    receipt = await _included(name, chain, signer, transaction, unsigned)
    if not receipt.succeeded:
        raise DeployError(
            f"chain {name!r}: {transaction.name!r} reverted in transaction 0x{receipt.transaction_hash.hex()}; inspect it, then"
            " deploy again"
        )


async def _included(
    name: str, chain: EvmChain, signer: Signer, transaction: Transaction, unsigned: UnsignedTransaction
) -> Receipt:
    """Broadcasts a transaction until it is included, raising the fee each time, and returns its receipt."""
    now = asyncio.get_running_loop().time
    deadline, replace_at, broadcast, problem = now() + _INCLUSION_SECONDS, now(), list[bytes](), ""
    while True:
        if now() >= replace_at:
            replace_at = now() + _REPLACE_AFTER
            signed = await signer.sign(_raised(unsigned, len(broadcast)))
            try:
                await chain.broadcast(signed.raw)
            except TransientError as error:
                # An earlier broadcast may already be included.
                if not broadcast:
                    raise
                problem = f": {error}"
            else:
                broadcast.append(signed.hash)
        if (receipt := await _receipt_of_any(chain, broadcast)) is not None:
            return receipt
        if now() > deadline:
            raise DeployError(
                f"chain {name!r}: {transaction.name!r} was not included within {_INCLUSION_SECONDS:.0f} s{problem}; deploy again"
                " once the chain includes transactions"
            )
        await asyncio.sleep(_POLL_INTERVAL)


async def _receipt_of_any(chain: EvmChain, hashes: Sequence[bytes]) -> Receipt | None:
    """Returns the receipt of the newest included transaction, or None if there is none or the chain gives no usable answer."""
    with suppress(TransientError):  # for example, endpoints that must agree while only some have the block
        for transaction_hash in reversed(hashes):
            if (receipt := await chain.receipt(transaction_hash)) is not None:
                return receipt
    return None


def _raised(unsigned: UnsignedTransaction, times: int) -> UnsignedTransaction:
    rise = _FEE_RISE**times
    fees = Fees(int(unsigned.fees.max_fee * rise), int(unsigned.fees.priority_fee * rise))
    return UnsignedTransaction(
        chain_id=unsigned.chain_id,
        nonce=unsigned.nonce,
        to=unsigned.to,
        data=unsigned.data,
        value=unsigned.value,
        gas=unsigned.gas,
        fees=fees,
    )
