"""Sends one transaction of an account that sends nothing else meanwhile: for what an operator decides by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bridge.evm.account import higher_than
from bridge.evm.signing import Signer, UnsignedTransaction
from bridge.protocol.ports import Call, Chain, Receipt, TerminalError, TransientError

_AGAIN: Final = 0.5  # seconds between two looks for the transaction
_SOON: Final = 0.1  # seconds until one that was not taken is sent again


class RevertedError(Exception):
    """The transaction was included and reverted."""


async def send(
    chain: Chain,
    signer: Signer,
    call: Call,
    *,
    nonce: int,
    patience: float = 60.0,
) -> tuple[int, bytes]:
    """Sends a transaction that does no harm if it is sent twice; offers more with each block that leaves it out.

    Args:
        chain: where.
        signer: an account from which nothing else is sent meanwhile.
        call: with its gas.
        nonce: the account's next one.
        patience: seconds until it gives up.

    Returns:
        The block that includes it, and its hash.

    Raises:
        RevertedError: it was included and reverted.
        TransientError: no block includes it in time, or another transaction has used its nonce.
    """
    assert call.gas is not None
    loop, sent = asyncio.get_running_loop(), list[bytes]()
    deadline, problem = loop.time() + patience, "nothing was sent"
    at, fees = -1, None  # the newest block when it was last sent, and what it offered
    while loop.time() < deadline:
        try:
            number = (await chain.head()).number
            if number > at:
                offered = await chain.fees()
                fees = offered if fees is None else higher_than(fees, offered)
                unsigned = UnsignedTransaction(
                    chain_id=chain.chain_id,
                    nonce=nonce,
                    to=call.to,
                    data=call.data,
                    value=call.value,
                    gas=call.gas,
                    fees=fees,
                )
                signed = await signer.sign(unsigned)
                if signed.hash not in sent:
                    sent.append(signed.hash)
                at = -1
                await chain.broadcast(signed.raw)
                at = number
        except (TransientError, TerminalError) as error:
            problem = str(error)
        with suppress(TransientError):
            if (receipt := await _included(chain, sent)) is not None:
                return receipt.block_number, receipt.transaction_hash
        if at < 0 and await _is_used(chain, signer.address, nonce):
            raise TransientError(f"another transaction has used nonce {nonce} on chain {chain.chain_id}: {problem}")
        await asyncio.sleep(_SOON if at < 0 else _AGAIN)
    raise TransientError(f"no block of chain {chain.chain_id} includes the transaction after {patience:g} s: {problem}")


async def _included(chain: Chain, sent: Sequence[bytes]) -> Receipt | None:
    """The receipt of the one that a block includes.

    Raises:
        RevertedError: it reverted.
        TransientError: the chain does not answer.
    """
    for transaction in reversed(sent):
        receipt = await chain.receipt(transaction)
        if receipt is not None and not receipt.succeeded:
            raise RevertedError(f"transaction 0x{transaction.hex()} was included and reverted")
        if receipt is not None:
            return receipt
    return None


async def _is_used(chain: Chain, account: str, nonce: int) -> bool:
    with suppress(TransientError):
        return await chain.transaction_count(account) > nonce
    return False
