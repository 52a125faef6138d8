"""Pauses a GMP on one chain, and stays at it until the chain says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from bridge.domain.ports import Call, CallRevertedError, Chain, Fees, TerminalError, TransientError, read_view
from bridge.evm.account import higher_than
from bridge.evm.signing import Signer, UnsignedTransaction
from bridge.protocol.contracts import ROUTER, explain_revert

_log = structlog.get_logger(__name__)

_GAS: Final = 600_000  # sixteen adapters need less than half
_LEAST: Final = 60  # seconds: an allowance for less is none
_AGAIN: Final = 0.1  # seconds between two looks for the transaction


class RefusedPauseError(Exception):
    """The router will not take the pause; the text says why."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A GMP is paused.

    Attributes:
        until: Unix seconds of the chain.
        block: that includes the transaction; None if it was paused before.
        transaction: its hash; None likewise.
    """

    until: int
    block: int | None = None
    transaction: bytes | None = None


class Pauser:
    """The tripwire's account on one chain. Nothing else may send from it: the chain alone knows its nonce."""

    def __init__(self, chain: Chain, router: str, signer: Signer, *, max_fee: int | None = None) -> None:
        """Sends nothing yet."""
        self.chain = chain
        self._router = router
        self._signer = signer
        self._max_fee = max_fee
        self._next_nonce = 0

    async def pause(self, gmp: int, seconds: int) -> Pause:
        """Has the GMP paused for so long, or as long as the allowance lasts. One that is paused for half as long stays so.

        Raises:
            RefusedPauseError: the router refuses, or there is no allowance left.
            TransientError: the chain does not answer, or no block includes it yet: to be called again.
        """
        adapter, paused_until, allowance, head = await asyncio.gather(
            read_view(self.chain, ROUTER, self._router, "adapterOf", gmp),
            read_view(self.chain, ROUTER, self._router, "gmpPausedUntil", gmp),
            read_view(self.chain, ROUTER, self._router, "tripwireAllowance", gmp),
            self.chain.head(),
        )
        if int(adapter, 16) == 0:
            raise RefusedPauseError("the router has no adapter of the GMP any more: there is nothing to pause")
        if paused_until >= head.timestamp + seconds // 2:
            return Pause(paused_until)
        length = min(seconds, allowance)
        if length < _LEAST:
            raise RefusedPauseError(
                f"the tripwire may pause it for {allowance} s only, since it has spent its allowance;"
                " the guardian or the owner can"
            )
        until = head.timestamp + length
        call = Call(to=self._router, data=ROUTER.encode("pauseGmp", gmp, until), gas=_GAS)
        try:
            await self.chain.call(call, sender=self._signer.address)
        except CallRevertedError as error:
            raise RefusedPauseError(f"the router refuses: {explain_revert(error.data)}") from error
        nonce = max(await self.chain.transaction_count(self._signer.address), self._next_nonce)
        self._next_nonce = nonce + 1  # two GMPs may lie at once
        try:
            block, transaction = await send(self.chain, self._signer, call, nonce=nonce, max_fee=self._max_fee)
        except BaseException:
            self._next_nonce = 0
            raise
        return Pause(until, block, transaction)


async def send(
    chain: Chain, signer: Signer, call: Call, *, nonce: int, max_fee: int | None = None, patience: float = 60.0
) -> tuple[int, bytes]:
    """Sends a transaction that does no harm if it is sent twice; offers more with each block that leaves it out.

    Args:
        chain: where.
        signer: an account from which nothing else is sent meanwhile.
        call: with its gas.
        nonce: the account's next one.
        max_fee: wei per gas that are not exceeded.
        patience: seconds until it gives up.

    Returns:
        The block that includes it, and its hash.

    Raises:
        RefusedPauseError: it was included and reverted.
        TransientError: no block includes it in time.
    """
    assert call.gas is not None
    loop, fees, sent = asyncio.get_running_loop(), None, list[bytes]()
    deadline, problem = loop.time() + patience, "nothing was sent"
    at = -1
    while loop.time() < deadline:
        try:
            head = await chain.head()
            if head.number > at:
                offered = await chain.fees(max_fee)
                fees = offered if fees is None else _within(higher_than(fees, offered), max_fee, fees)
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
                await chain.broadcast(signed.raw)
                at = head.number
        except (TransientError, TerminalError) as error:
            problem = str(error)
        for transaction in reversed(sent):
            try:
                receipt = await chain.receipt(transaction)
            except TransientError as error:
                problem = str(error)
                continue
            if receipt is None:
                continue
            if not receipt.succeeded:
                raise RefusedPauseError(f"transaction 0x{transaction.hex()} was included and reverted")
            return receipt.block_number, transaction
        await asyncio.sleep(_AGAIN)
    raise TransientError(f"no block of chain {chain.chain_id} includes the transaction after {patience:g} s: {problem}")


def _within(fees: Fees, limit: int | None, before: Fees) -> Fees:
    """The higher fees, or those before if the limit does not allow them."""
    return before if limit is not None and fees.max_fee > limit else fees
