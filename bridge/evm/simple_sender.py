"""Sends single transactions of an account that sends nothing else meanwhile, for deployments and operators' commands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bridge.evm.account import higher_than
from bridge.evm.signing import Signer, UnsignedTransaction
from bridge.protocol.ports import Call, Chain, Receipt, TerminalError, TransientError

_POLL_INTERVAL: Final = 0.1  # seconds
_RETRY_INTERVAL: Final = 0.1  # seconds until a rejected transaction is sent again


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
    """Sends an idempotent transaction, raising its fees with each block that does not include it.

    Args:
        chain: Chain to send to.
        signer: Account that sends nothing else meanwhile.
        call: Call with a gas limit.
        nonce: Next nonce of the account.
        patience: Timeout in seconds.

    Returns:
        Number of the including block, and the transaction hash.

    Raises:
        RevertedError: the transaction reverted.
        TransientError: the transaction was not included in time, or another one used its nonce.
    """
    assert call.gas is not None
    loop, sent = asyncio.get_running_loop(), list[bytes]()
    deadline, problem = loop.time() + patience, "nothing was sent"
    at, fees = -1, None  # head and fees of the last broadcast
    while loop.time() < deadline:
        try:
            number = (await chain.head()).number
            if number > at:
                current = await chain.fees()
                fees = current if fees is None else higher_than(fees, current)
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
        await asyncio.sleep(_RETRY_INTERVAL if at < 0 else _POLL_INTERVAL)
    raise TransientError(f"the transaction was not included on chain {chain.chain_id} within {patience:g} s: {problem}")


async def _included(chain: Chain, sent: Sequence[bytes]) -> Receipt | None:
    """Returns the receipt of the included version, or None.

    Raises:
        RevertedError: the transaction reverted.
        TransientError: the chain did not answer.
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
