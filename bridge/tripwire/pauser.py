"""Pauses a GMP on one chain, and stays at it until the chain says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from bridge.domain.ports import Call, CallRevertedError, Chain, Fees, Receipt, TerminalError, TransientError, read_view
from bridge.evm.account import higher_than
from bridge.evm.signing import Signer, UnsignedTransaction
from bridge.protocol.contracts import ROUTER, explain_revert

_log = structlog.get_logger(__name__)

_GAS: Final = 600_000  # sixteen adapters need less than half
_LEAST: Final = 60  # seconds: an allowance for less is none
_AGAIN: Final = 0.5  # seconds between two looks for the transaction
_SOON: Final = 0.1  # seconds until one that was not taken is sent again
_FRESH: Final = 10.0  # seconds for which what was prepared holds


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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All that a pause takes but its signature, or the pause that is there already.

    Attributes:
        at: when it was asked for, seconds of the event loop's clock.
        number: the chain's newest block then.
    """

    at: float
    number: int
    nonce: int
    fees: Fees
    pause: Pause
    call: Call | None


class Pauser:
    """The tripwire's account on one chain. Nothing else may send from it: the chain alone knows its nonce."""

    def __init__(self, chain: Chain, router: str, signer: Signer, *, max_fee: int | None = None) -> None:
        """Sends nothing yet."""
        self.chain = chain
        self._router = router
        self._signer = signer
        self._max_fee = max_fee
        self._next_nonce = 0
        self._under_way = 0  # pauses that no block includes yet
        self._prepared: dict[int, _Prepared] = {}  # by GMP

    async def prepare(self, gmp: int, seconds: int) -> None:
        """Asks for all that a pause takes, so that one that is made soon after has nothing to ask.

        Raises:
            RefusedPauseError: the router refuses, or there is no allowance left.
            TransientError: the chain does not answer.
        """
        self._prepared[gmp] = await self._ask(gmp, seconds)

    async def pause(self, gmp: int, seconds: int) -> Pause:
        """Has the GMP paused for so long, or as long as the allowance lasts. One that is paused for half as long stays so.

        Raises:
            RefusedPauseError: the router refuses, or there is no allowance left.
            TransientError: the chain does not answer, or no block includes it yet: to be called again.
        """
        ready = self._prepared.pop(gmp, None)
        if ready is None or ready.call is None or asyncio.get_running_loop().time() - ready.at > _FRESH:
            ready = await self._ask(gmp, seconds)
        if ready.call is None:
            return ready.pause
        nonce = max(ready.nonce, self._next_nonce)
        self._next_nonce = nonce + 1  # two GMPs may lie at once
        self._under_way += 1
        try:
            block, transaction = await send(
                self.chain,
                self._signer,
                ready.call,
                nonce=nonce,
                max_fee=self._max_fee,
                offer=(ready.number, ready.fees),
            )
        except BaseException:
            self._next_nonce = 0
            raise
        finally:
            self._under_way -= 1
        return replace(ready.pause, block=block, transaction=transaction)

    async def _ask(self, gmp: int, seconds: int) -> _Prepared:
        at, is_idle = asyncio.get_running_loop().time(), not self._under_way
        adapter, paused_until, allowance, head, nonce, fees = await asyncio.gather(
            read_view(self.chain, ROUTER, self._router, "adapterOf", gmp),
            read_view(self.chain, ROUTER, self._router, "gmpPausedUntil", gmp),
            read_view(self.chain, ROUTER, self._router, "tripwireAllowance", gmp),
            self.chain.head(),
            self.chain.transaction_count(self._signer.address),
            self.chain.fees(self._max_fee),
        )
        if is_idle and not self._under_way:
            self._next_nonce = nonce  # the block of an earlier pause may have fallen
        if int(adapter, 16) == 0:
            raise RefusedPauseError("the router has no adapter of the GMP any more: there is nothing to pause")
        if paused_until >= head.timestamp + seconds // 2:
            return _Prepared(at, head.number, nonce, fees, Pause(paused_until), None)
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
        return _Prepared(at, head.number, nonce, fees, Pause(until), call)


async def send(
    chain: Chain,
    signer: Signer,
    call: Call,
    *,
    nonce: int,
    max_fee: int | None = None,
    offer: tuple[int, Fees] | None = None,
    patience: float = 60.0,
) -> tuple[int, bytes]:
    """Sends a transaction that does no harm if it is sent twice; offers more with each block that leaves it out.

    Args:
        chain: where.
        signer: an account from which nothing else is sent meanwhile.
        call: with its gas.
        nonce: the account's next one.
        max_fee: wei per gas that are not exceeded.
        offer: fees to begin with, and the newest block when they were asked for; None asks.
        patience: seconds until it gives up.

    Returns:
        The block that includes it, and its hash.

    Raises:
        RefusedPauseError: it was included and reverted.
        TransientError: no block includes it in time, or another transaction has used its nonce.
    """
    assert call.gas is not None
    loop, sent = asyncio.get_running_loop(), list[bytes]()
    deadline, problem = loop.time() + patience, "nothing was sent"
    number, fees = offer or (-1, None)
    at, is_offered = -1, offer is not None  # whether a pause is ready to be sent
    while loop.time() < deadline:
        try:
            if not is_offered:
                number = (await chain.head()).number
            if number > at:
                if not is_offered:
                    offered = await chain.fees(max_fee)
                    fees = offered if fees is None else _within(higher_than(fees, offered), max_fee, fees)
                assert fees is not None
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
                is_offered, at = False, -1
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
        RefusedPauseError: it reverted.
        TransientError: the chain does not answer.
    """
    for transaction in reversed(sent):
        receipt = await chain.receipt(transaction)
        if receipt is not None and not receipt.succeeded:
            raise RefusedPauseError(f"transaction 0x{transaction.hex()} was included and reverted")
        if receipt is not None:
            return receipt
    return None


async def _is_used(chain: Chain, account: str, nonce: int) -> bool:
    with suppress(TransientError):
        return await chain.transaction_count(account) > nonce
    return False


def _within(fees: Fees, limit: int | None, before: Fees) -> Fees:
    """The higher fees, or those before if the limit does not allow them."""
    return before if limit is not None and fees.max_fee > limit else fees
