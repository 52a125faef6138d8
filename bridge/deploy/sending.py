"""Sends a chain's transactions with the owner's key, one after the other."""

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
"""Gas that a chain takes for one transaction (EIP-7825)."""

_INCLUSION_SECONDS: Final = 600.0
_AGAIN_AFTER: Final = 15.0  # seconds; then the same transaction is offered with a higher fee
_LOOK_EVERY: Final = 0.05  # seconds
_FEE_RISE: Final = 1.125  # nodes want a tenth more


async def send_all(
    name: str,
    chain: EvmChain,
    signer: Signer,
    transactions: Sequence[Transaction],
    included: Callable[[Transaction], None] = lambda _: None,
) -> None:
    """Sends transactions and waits for the block of each before the next.

    Args:
        name: the chain's, for errors.
        chain: where.
        signer: the owner's.
        transactions: in their order.
        included: is told of each that a block includes.

    Raises:
        DeployError: a transaction is refused, failed, or is in no block after ten minutes. Those before it are done, and the
            next run goes on from there.
        TransientError: no endpoint answers.
    """
    if not transactions:
        return
    nonce, pending = await chain.transaction_count(signer.address), await chain.pending_count(signer.address)
    if pending > nonce:
        raise DeployError(
            f"chain {name!r}: {pending - nonce} transactions of {signer.address} wait for a block, perhaps of a run that was"
            " interrupted; wait until they are included or replace them, then deploy again"
        )
    for transaction in transactions:
        await _send(name, chain, signer, transaction, nonce)
        included(transaction)
        nonce += 1


def gas_limit(needed: int) -> int:
    """What a transaction is given that used so much when it was tried: a fifth more, if a chain takes that."""
    return max(needed, min(needed * 6 // 5, MOST_GAS))


async def _send(name: str, chain: EvmChain, signer: Signer, transaction: Transaction, nonce: int) -> None:
    try:
        needed = await chain.estimate_gas(Call(to=transaction.to, data=transaction.data), signer.address)
    except CallRevertedError as error:
        raise DeployError(
            f"chain {name!r} refuses {transaction.name!r} ({transaction.to}): {explain_revert(error.data)}"
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
            f"chain {name!r}: {transaction.name!r} failed in transaction 0x{receipt.transaction_hash.hex()}; look at it, then"
            " deploy again"
        )


async def _included(
    name: str, chain: EvmChain, signer: Signer, transaction: Transaction, unsigned: UnsignedTransaction
) -> Receipt:
    """Offers a transaction until a block has it, each time for more."""
    now = asyncio.get_running_loop().time
    deadline, again_at, offered, refusal = now() + _INCLUSION_SECONDS, now(), list[bytes](), ""
    while True:
        if now() >= again_at:
            again_at = now() + _AGAIN_AFTER
            signed = await signer.sign(_raised(unsigned, len(offered)))
            try:
                await chain.broadcast(signed.raw)
            except TransientError as error:
                # One that was offered before may be in a block by now.
                if not offered:
                    raise
                refusal = f": {error}"
            else:
                offered.append(signed.hash)
        if (receipt := await _receipt_of_any(chain, offered)) is not None:
            return receipt
        if now() > deadline:
            raise DeployError(
                f"chain {name!r}: {transaction.name!r} is in no block after {_INCLUSION_SECONDS:.0f} s{refusal}; deploy again"
                " once the chain takes transactions"
            )
        await asyncio.sleep(_LOOK_EVERY)


async def _receipt_of_any(chain: EvmChain, offered: Sequence[bytes]) -> Receipt | None:
    """The receipt of the newest one that a block includes; None if there is none, or the chain gives no usable answer now."""
    with suppress(TransientError):  # such as of endpoints that must agree, and of which some have the block already
        for transaction_hash in reversed(offered):
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
