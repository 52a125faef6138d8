"""One account on one chain: signs for its nonce slots, broadcasts, classifies rejections, and reconciles nonces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from bridge.evm.settings import SendingSettings
from bridge.evm.signing import SignatureRefusedError, Signer, UnsignedTransaction, noop_of
from bridge.protocol.ports import (
    Chain,
    Clock,
    Fees,
    FeesTooHighError,
    InsufficientFundsError,
    NotTakenError,
    Receipt,
    TerminalError,
    TransientError,
    UnansweredError,
)
from bridge.records.spending import SpendBlockedError, SpendBounds
from bridge.records.transactions import SignedVersion, Slot, SlotState
from bridge.store.transactions import TransactionLedger

_log = structlog.get_logger(__name__)

_FUNDS_WARNING_EVERY: Final = 60.0  # seconds


class NonceLostError(TransientError):
    """Another transaction used the call's nonce, so the call was not sent and needs a new nonce."""


class Account:
    """The operations that sending and monitoring transactions share.

    Signed bytes are always stored before they are broadcast, so they can be broadcast again after a crash.
    """

    def __init__(
        self,
        chain: Chain,
        signer: Signer,
        ledger: TransactionLedger,
        clock: Clock,
        *,
        settings: SendingSettings,
        bounds: SpendBounds,
    ) -> None:
        self.chain = chain
        self.ledger = ledger
        self.clock = clock
        self.settings = settings
        self.bounds = bounds
        self._signer = signer
        self._waiting: dict[int, asyncio.Future[Receipt]] = {}
        self._problems: dict[int, str] = {}
        self._refusals: dict[bytes, int] = {}  # counts of unexplained rejections by every node, by transaction hash
        self.unshared: set[str] = set()
        """Keys whose shared transaction was rejected. Each is sent alone from now on, which shows which one is at fault."""

        self._being_sent: set[bytes] = set()  # hashes of broadcasts in progress
        self._needs: int | None = None  # wei that the last transaction needs, if the balance did not cover it
        self._next_funds_warning = 0.0  # Unix seconds
        self._fees_exceed_limit = False  # as of the last check
        self.last_sent: dict[int, float] = {}  # by slot: time of the last broadcast, successful or not

    @property
    def address(self) -> str:
        """Returns the account's address."""
        return self._signer.address

    @property
    def key(self) -> tuple[int, str]:
        """Returns the chain id and the address, which are the ledger's key."""
        return self.chain.chain_id, self.address

    # --- waiting

    def settlement(self, slot: Slot) -> asyncio.Future[Receipt]:
        """Returns a future that resolves once the slot's nonce is used."""
        if slot.slot_id not in self._waiting:
            self._waiting[slot.slot_id] = asyncio.get_running_loop().create_future()
        return self._waiting[slot.slot_id]

    @property
    def awaited(self) -> set[int]:
        """Returns the ids of the slots that callers wait for."""
        return set(self._waiting)

    def settle(self, slot: Slot, outcome: Receipt | Exception) -> None:
        """Resolves a slot's waiter."""
        self._problems.pop(slot.slot_id, None)
        self.last_sent.pop(slot.slot_id, None)
        future = self._waiting.pop(slot.slot_id, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            future.exception()  # marks the exception as retrieved, since the waiter may have given up
        else:
            future.set_result(outcome)

    def problem(self, slot: Slot) -> str:
        """Returns the known reason why a slot's transaction is not included."""
        return self._problems.get(slot.slot_id, "it is pending")

    # --- signing

    async def signed(self, slot: Slot, fees: Fees, *, is_noop: bool = False) -> SignedVersion:
        """Signs a transaction with the slot's nonce: the slot's call, or a no-op."""
        call = noop_of(self.address) if is_noop or slot.call is None else slot.call
        assert call.gas is not None
        unsigned = UnsignedTransaction(
            chain_id=slot.chain_id,
            nonce=slot.nonce,
            to=call.to,
            data=call.data,
            value=call.value,
            gas=call.gas,
            fees=fees,
        )
        signed = await self._signer.sign(unsigned)
        return SignedVersion(
            hash=signed.hash,
            raw=signed.raw,
            fees=fees,
            signed_at=self.clock.now(),
            is_noop=is_noop or slot.call is None,
        )

    async def fees(self) -> Fees:
        """Returns the fees for a transaction to be sent now.

        Raises:
            FeesTooHighError: the fee limit is too low for inclusion. `can_pay` returns true once that changes.
        """
        try:
            return await self.chain.fees(self.settings.max_fee)
        except FeesTooHighError as error:
            if not self._fees_exceed_limit:
                _log.warning("fees above limit, sending paused", account=self.address, reason=str(error))
            self._fees_exceed_limit = True
            raise

    async def replace(self, slot: Slot, *, is_noop: bool) -> bool:
        """Stores and sends a replacement for the slot's transaction, with fees high enough for nodes to accept it."""
        try:
            fees = await self.fees()
        except FeesTooHighError as error:
            self._problems[slot.slot_id] = str(error)
            return False
        if slot.latest is not None:
            fees = higher_than(slot.latest.fees, fees)
        limit = self.settings.max_fee
        if limit is not None and fees.max_fee > limit:
            self._problems[slot.slot_id] = f"the next fee of {fees.max_fee} wei per gas exceeds the limit of {limit}"
            return False
        try:
            version = await self.signed(slot, fees, is_noop=is_noop)
        except SignatureRefusedError as error:
            if self._problems.get(slot.slot_id) != str(error):
                _log.warning(
                    "signature rejected", chain=slot.chain_id, nonce=slot.nonce, is_noop=is_noop, reason=str(error)
                )
            self._problems[slot.slot_id] = str(error)
            return False
        replaced = slot.latest.hash if slot.latest is not None else None
        try:
            if not self.ledger.sign(slot.slot_id, version, replaces=replaced, bounds=self.bounds):
                return False
        except SpendBlockedError as error:
            _log.warning(
                "no budget for a higher fee, closing nonce",
                chain=slot.chain_id,
                transaction_key=slot.named_keys,
                nonce=slot.nonce,
                reason=str(error),
            )
            return await self.replace(slot, is_noop=True)  # the call is requested again and waits
        await self.broadcast([self.ledger.slot(slot.slot_id)])
        return True

    # --- sending

    async def broadcast(self, slots: Sequence[Slot]) -> None:
        """Broadcasts the latest version of each slot. Rejected versions are broadcast again later.

        A transaction is not broadcast again while a node's response to it is outstanding.
        """
        now = self.clock.now()
        by_hash = {slot.latest.hash: slot for slot in slots if slot.latest is not None}
        wanted = {key: slot for key, slot in by_hash.items() if key not in self._being_sent}
        for slot in wanted.values():
            self.last_sent[slot.slot_id] = now
        self._being_sent.update(wanted)
        try:
            taken = await asyncio.gather(*(self._hand_over(slot) for slot in wanted.values()))
        finally:
            self._being_sent.difference_update(wanted)
        done = [slot.slot_id for slot, is_taken in zip(wanted.values(), taken, strict=True) if is_taken]
        if done:
            self.ledger.broadcast(done, self.clock.now())

    async def _hand_over(self, slot: Slot) -> bool:
        assert slot.latest is not None
        try:
            await self.chain.broadcast(slot.latest.raw)
        except InsufficientFundsError as error:
            self._problems[slot.slot_id] = str(error)
            with suppress(TransientError):
                await self.lacks_funds(slot)  # else the next broadcast sends the same bytes
            return False
        except NotTakenError as error:
            self._problems[slot.slot_id] = str(error)
            await self._not_taken(slot, error)
            return False
        except TransientError as error:
            self._problems[slot.slot_id] = str(error)
            return False
        except TerminalError as error:
            await self._refused(slot, error)
            return False
        self._problems.pop(slot.slot_id, None)
        self._refusals.pop(slot.latest.hash, None)
        return True

    async def _not_taken(self, slot: Slot, error: NotTakenError) -> None:
        """Gives up on a transaction that every node has rejected several times for unknown reasons.

        Applies only to the account's next nonce, because nodes may reject transactions behind a gap, and only
        while no pool holds that nonce.
        """
        assert slot.latest is not None
        try:
            included, pending = await asyncio.gather(
                self.chain.transaction_count(self.address), self.chain.pending_count(self.address)
            )
        except TransientError:
            return  # an unresponsive chain proves nothing about the transaction
        if included != slot.nonce or pending > slot.nonce:
            return
        refusals = self._refusals[slot.latest.hash] = self._refusals.get(slot.latest.hash, 0) + 1
        if refusals >= self.settings.REFUSALS:
            del self._refusals[slot.latest.hash]
            await self._refused(slot, error)

    async def _refused(self, slot: Slot, error: TerminalError | NotTakenError) -> None:
        """Handles a node's verdict that a transaction is malformed. Either its nonce is used, or the call is at fault.

        The verdict may be a lie, so the call may be sent again with a new nonce.
        """
        self._problems[slot.slot_id] = str(error)
        try:
            if await self.chain.transaction_count(self.address) > slot.nonce:
                return  # already included, or taken by another signer; the monitor finds out
        except TransientError:
            return  # outcome unknown: broadcast again later
        if slot.latest is not None and slot.latest.is_noop:
            _log.error(
                "no-op transaction rejected",
                chain=slot.chain_id,
                account=slot.account,
                nonce=slot.nonce,
                error=str(error),
            )
            return
        _log.warning(
            "transaction rejected",
            chain=slot.chain_id,
            transaction_key=slot.named_keys,
            nonce=slot.nonce,
            error=str(error),
        )
        self.settle(slot, self.blame(slot, error))
        await self.close(slot)

    def blame(self, slot: Slot, error: TransientError | TerminalError) -> TransientError:
        """Returns the error for a call whose transaction every node rejects.

        A call that was alone in its transaction is charged. If several calls shared it, the faulty one is
        unknown, so none is charged and each is sent alone from now on.
        """
        if not slot.is_shared:
            return TransientError(f"the transaction was rejected: {error}")
        self.unshared.update(slot.transaction_keys)
        return UnansweredError(f"the shared transaction was rejected: {error}")

    async def close(self, slot: Slot) -> None:
        """Closes the slot with a no-op, so that later nonces can proceed."""
        if await self.replace(slot, is_noop=True):
            _log.info("nonce closed by no-op", chain=slot.chain_id, account=slot.account, nonce=slot.nonce)

    async def can_pay(self) -> bool:
        """Returns whether fees are within the limit and the balance covers the last transaction that could not be paid.

        Queries the chain only if the fee limit or the balance was insufficient before.

        Raises:
            TransientError: the chain did not respond.
        """
        if self._fees_exceed_limit:
            try:
                await self.chain.fees(self.settings.max_fee)
            except FeesTooHighError:
                return False
            _log.info("fees within limit again", chain=self.chain.chain_id, account=self.address)
            self._fees_exceed_limit = False
        if self._needs is None:
            return True
        if await self.chain.balance(self.address) < self._needs:
            return False
        _log.info("account has funds again", chain=self.chain.chain_id, account=self.address)
        self._needs = None
        self._next_funds_warning = 0.0
        return True

    async def lacks_funds(self, slot: Slot) -> bool:
        """Returns whether the account can't pay for the slot's transaction.

        If it can't, the transaction waits for funds.
        """
        assert slot.latest is not None
        call = noop_of(self.address) if slot.latest.is_noop or slot.call is None else slot.call
        needed = call.value + (call.gas or 0) * slot.latest.fees.max_fee
        balance = await self.chain.balance(self.address)
        if balance >= needed:
            return False
        self._needs = needed
        self._problems[slot.slot_id] = (
            f"account {self.address} has {balance} wei but needs {needed} wei: fund the account"
        )
        self._warn_of_funds(balance, needed)
        return True

    def _warn_of_funds(self, balance: int, needed: int) -> None:
        """Logs that the account lacks funds, at most once a minute. Amounts are in wei."""
        now = self.clock.now()
        if now < self._next_funds_warning:
            return
        self._next_funds_warning = now + _FUNDS_WARNING_EVERY
        _log.warning(
            "account without funds",
            chain=self.chain.chain_id,
            account=self.address,
            balance=balance,
            needed=needed,
            waiting=len(self._waiting),
        )


def higher_than(former: Fees, current: Fees) -> Fees:
    """Returns the fees for a replacement.

    Nodes require both fees to rise by at least an eighth; the chain may require more.
    """
    return Fees(
        max_fee=max(current.max_fee, former.max_fee * 9 // 8 + 1),
        priority_fee=max(current.priority_fee, former.priority_fee * 9 // 8 + 1),
    )


async def reconcile_nonces(chain: Chain, account: str, ledger: TransactionLedger, clock: Clock) -> int:
    """Records the nonces that are used on chain but unknown to the ledger as taken, and returns how many they are.

    Their transactions are in blocks or in nodes' pools: the relayer signed them after the backup was taken from
    which the store was restored. These nonces are never reused. If such a transaction is never included, a
    no-op closes its nonce, as for any gap.

    Raises:
        TransientError: the chain did not respond; the nonces recorded so far stay, and the next call records the rest.
    """
    known = {slot.nonce for slot in ledger.slots(chain.chain_id, account)}
    first = max(known, default=-1) + 1 if known else await chain.transaction_count(account)
    recorded = 0
    for nonce in range(first, await chain.pending_count(account)):
        slot = ledger.fill(chain.chain_id, account, nonce, clock.now())
        if slot.state is SlotState.RESERVED:
            ledger.take(slot.slot_id)
            recorded += 1
    return recorded
