"""Sends calls as transactions of one account, many concurrently."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from eth_utils import keccak

from bridge.evm.account import Account
from bridge.evm.settings import SendingSettings
from bridge.evm.signing import SignatureRefusedError, Signer
from bridge.evm.supervision import Wakeup
from bridge.evm.transaction_monitor import TransactionMonitor
from bridge.protocol.contracts import MULTICALL
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import Call, Chain, Clock, Fees, FeesTooHighError, Receipt, TransientError, UnansweredError
from bridge.records.outbox import Claim, StaleClaimError
from bridge.records.spending import UNBOUNDED, Bound, Refusal, SpendBlockedError, SpendBounds, SpentFor
from bridge.records.transactions import BatchedCall, CallBatch, SignedVersion, Slot, SlotRequest, SlotState, SpendCheck
from bridge.store.observations import Finality
from bridge.store.transactions import TransactionLedger

_CALLS_MADE: Final = keccak(text="CallsMade(uint256)")

# The multicall's own gas: for the transaction and its event, per call, and per byte of a call's data, which is paid as
# calldata and copied. Each call also keeps back a 64th.
_BASE_GAS: Final = 40_000
_CALL_GAS: Final = 15_000
_BYTE_GAS: Final = 17
_CALL_HEAD: Final = 160  # bytes that a call takes in calldata beside its data

# Nodes refuse transactions above 128 KiB (geth's txMaxSize), and copying costs more than linearly beyond.
_MOST_BYTES: Final = 96 * 1024

_BLOCK_SHARE: Final = 2
"""A batch may use at most the block's gas limit divided by this: a larger transaction waits too long for a block."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    request: SlotRequest
    slot: asyncio.Future[Slot]


class Sender:
    """One account on one chain.

    Concurrent calls are reserved, signed and stored together, in two store transactions in all. `tick` must run
    periodically, since it monitors pending transactions; without it `send` never returns.
    """

    def __init__(
        self,
        chain: Chain,
        signer: Signer,
        ledger: TransactionLedger,
        clock: Clock,
        *,
        finality: Finality,
        settings: SendingSettings | None = None,
        bounds: SpendBounds = UNBOUNDED,
        multicall: str | None = None,
    ) -> None:
        """Creates the sender, which resumes pending transactions of an earlier run.

        Args:
            chain: the chain to send to.
            signer: signs for the account.
            ledger: the nonce ledger.
            clock: the source of time.
            finality: the chain's finality rule.
            settings: timing and limits.
            bounds: limits on the cost of transactions.
            multicall: the contract through which calls share a transaction, or None.
        """
        self._account = Account(
            chain, signer, ledger, clock, settings=settings or SendingSettings(max_calls_per_tx=1), bounds=bounds
        )
        chosen = self._account.settings
        self._sharing = CallBatching(multicall, most=chosen.max_calls_per_tx, max_gas=chosen.max_gas)
        self._monitor = TransactionMonitor(self._account, finality)
        self.wakeup = Wakeup()  # wakes the ticking loop: a transaction was broadcast and may already be in a block
        self._wanted: deque[_Wanted] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Returns the address of the sending account."""
        return self._account.address

    async def send(
        self,
        transaction_key: str,
        call: Call,
        claim: Claim | None = None,
        *,
        may_share: bool = False,
        spent_for: SpentFor | None = None,
    ) -> Receipt:
        """Sends a call and waits for its inclusion. A call whose key is already pending is not sent again.

        Args:
            transaction_key: identifies the call's purpose.
            call: the call; if it has no gas limit, the gas is estimated.
            claim: claim that must still be held when the call is sent. With a claim, a signed transaction waits
                while the account lacks funds.
            may_share: whether the call may share a transaction with other concurrent calls, through the
                multicall contract.
            spent_for: message to which the cost is charged; with None, only the chain's bound is charged.

        Returns:
            The receipt of the key's transaction, whether sent now or already pending. It may have reverted. If calls
            share the transaction, `succeeded` is this key's result, and the logs are those of all calls.

        Raises:
            CallRevertedError: the call would revert.
            StaleClaimError: the claim was lost.
            NonceLostError: another transaction used the call's nonce, and the call was not sent.
            FeesTooHighError: the chain's fees exceed the limit; the call was not sent.
            SpendBlockedError: a spending bound would be exceeded; the call was not sent.
            TransientError: the transaction was not included before the timeout, or a node rejected it as malformed.
        """
        # An estimate could fail while the key is pending, so the ledger is read first. A call with its own gas needs no
        # estimate:
        # reserving finds a pending slot.
        slot = self._account.ledger.open_slot(*self._account.key, transaction_key) if call.gas is None else None
        if slot is None:
            shares = may_share and transaction_key not in self._account.unshared
            request = SlotRequest(transaction_key, await self._with_gas(call), claim, shares, spent_for)
            wanted = _Wanted(request, asyncio.get_running_loop().create_future())
            self._wanted.append(wanted)
            self._start_worker()
            slot = await wanted.slot
        return receipt_of(transaction_key, slot, await self._included(slot, parks=claim is not None))

    async def outcome(self, transaction_key: str) -> Receipt | None:
        """Waits for a pending transaction that an earlier worker sent for this key.

        A worker that takes over a key calls this before it reads from the chain what remains to be done. If it
        read the chain first, its information would be stale once the transaction is included, and it would send
        the call again.

        Returns:
            The receipt of the key's transaction (see `send`), or None if no transaction is pending.

        Raises:
            NonceLostError: another transaction used the call's nonce, and the call was not sent.
            TransientError: the transaction was not included before the timeout, or a node rejected it as
                malformed or estimated too much gas.
        """
        slot = self._account.ledger.open_slot(*self._account.key, transaction_key)
        return None if slot is None else receipt_of(transaction_key, slot, await self._included(slot, parks=True))

    def is_sending(self, transaction_key: str) -> bool:
        """Returns whether a call with this key is pending."""
        waits = any(wanted.request.transaction_key == transaction_key for wanted in self._wanted)
        return waits or self._account.ledger.open_slot(*self._account.key, transaction_key) is not None

    def next_for(self, transaction_key: str) -> float | None:
        """Returns the seconds for which a pending call has been the account's next, or None if it is not pending.

        Before that, other transactions of the account delay the call.
        """
        slot = self._account.ledger.open_slot(*self._account.key, transaction_key)
        if slot is not None:
            return self._monitor.next_for(slot)
        return 0.0 if self.is_sending(transaction_key) else None

    @property
    def under_way(self) -> int:
        """Returns the number of pending calls."""
        return len(self._wanted) + len(self._account.awaited)

    async def can_pay(self) -> bool:
        """See `Account.can_pay`. Nothing is sent until it returns true."""
        return await self._account.can_pay()

    async def tick(self) -> bool:
        """Checks all pending transactions once; see `TransactionMonitor.tick`."""
        await self._monitor.tick()
        return False

    async def close(self) -> None:
        """Stops the sender. Pending transactions are in the ledger, and the next run resumes them."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _included(self, slot: Slot, *, parks: bool) -> Receipt:
        settlement = self._account.settlement(slot)
        limit = self._account.settings.INCLUSION_TIMEOUT
        while True:
            is_empty = not await self._account.can_pay()
            try:
                async with asyncio.timeout(limit):
                    return await asyncio.shield(settlement)
            except TimeoutError:
                if parks and (is_empty or not await self._account.can_pay()):
                    continue  # not a failure of the delivery; it proceeds once the account has funds
            text = (
                f"nonce {slot.nonce} of {slot.account} on chain {slot.chain_id} was not included within "
                f"{limit:g} s: {self._account.problem(slot)}"
            )
            if self._monitor.next_for(slot) < limit:  # lower nonces or a silent chain delayed it
                raise UnansweredError(text)
            raise TransientError(text)

    async def _with_gas(self, call: Call) -> Call:
        settings = self._account.settings
        needed = call.gas or await self._account.chain.estimate_gas(call, self.address)
        if needed > settings.max_gas:
            why = (
                f"the transaction needs {needed} gas, and {Bound.GAS.value} is {settings.max_gas}; raise "
                "that limit if the chain's"
            )
            raise SpendBlockedError(Refusal(Bound.GAS, f"{why} blocks and transactions allow that much"))
        # The margin shrinks to the room there is; otherwise a call that just fits would wait for ever.
        return replace(call, gas=call.gas or min(int(needed * settings.GAS_MARGIN), settings.max_gas))

    def _start_worker(self) -> None:
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work_off())

    async def _work_off(self) -> None:
        await asyncio.sleep(0)  # lets concurrent callers join the same batch
        while self._wanted:
            batch = [self._wanted.popleft() for _ in range(min(len(self._wanted), self._account.settings.BATCH))]
            await self._try_batch(batch)

    async def _try_batch(self, batch: list[_Wanted]) -> None:
        try:
            await self._send_batch(batch)
        except (TransientError, FeesTooHighError, StoreError) as error:  # the error applies to each call
            _refuse(batch, error)
        except Exception as error:  # noqa: BLE001  # the caller decides what it means
            if len(batch) == 1:
                _refuse(batch, error)
                return
            for wanted in batch:  # one call may be at fault, and the others must not fail with it
                await self._try_batch([wanted])

    async def _send_batch(self, batch: list[_Wanted]) -> None:
        account = self._account
        first_nonce, block_gas = await self._monitor.first_nonce(), await self._monitor.block_gas()
        fees = await account.fees()  # before reserving: a nonce that can't be signed for would block all later ones
        requests = [wanted.request for wanted in batch]
        now = account.clock.now()
        check = SpendCheck(fees.max_fee, account.bounds)
        slots = account.ledger.reserve(
            *account.key,
            requests,
            first_nonce=first_nonce,
            now=now,
            pack=self._sharing.within(block_gas).pack,
            check=check,
        )
        given = [slot for slot in slots if slot is not None and slot.state is SlotState.RESERVED]
        # A slot reserved earlier is signed by its worker or closed by the monitor.
        unsigned = {slot.slot_id: slot for slot in given if slot.reserved_at == now}
        by_id, problems = await self._signed(list(unsigned.values()), fees)
        stored = account.ledger.sign_all(list(by_id.items()))
        fresh = [unsigned[slot_id].signed(by_id[slot_id]) for slot_id in sorted(stored)]
        for wanted, slot in zip(batch, slots, strict=True):
            if wanted.slot.done():
                continue  # the caller has given up, which does not affect others
            if slot is not None and slot.slot_id in problems:
                wanted.slot.set_exception(problems[slot.slot_id])
            elif slot is not None:
                account.settlement(slot)
                wanted.slot.set_result(slot)
            elif refusal := check.refusals.get(wanted.request.transaction_key):
                wanted.slot.set_exception(SpendBlockedError(refusal))
            else:
                assert wanted.request.claim is not None
                wanted.slot.set_exception(StaleClaimError(wanted.request.claim))
        await account.broadcast(fresh)
        for slot_id, problem in problems.items():
            if isinstance(problem.__cause__, SignatureRefusedError):
                await account.close(unsigned[slot_id])
        self.wakeup.set()

    async def _signed(
        self, slots: Sequence[Slot], fees: Fees
    ) -> tuple[dict[int, SignedVersion], dict[int, TransientError]]:
        """Signs slots. Returns the signed versions, and the errors of slots that could not be signed, by slot id.

        A signer that rejects one transaction may still sign the next, but a signer that does not respond gets
        no further requests.
        """
        versions = dict[int, SignedVersion]()
        problems = dict[int, TransientError]()
        silence: TransientError | None = None
        for slot in slots:
            if silence is None:
                try:
                    versions[slot.slot_id] = await self._account.signed(slot, fees)
                except SignatureRefusedError as error:
                    problems[slot.slot_id] = self._account.blame(slot, error)
                    problems[slot.slot_id].__cause__ = error
                except TransientError as error:
                    silence = error
            if silence is not None:
                problems[slot.slot_id] = silence
        return versions, problems


def _refuse(batch: Sequence[_Wanted], error: Exception) -> None:
    for wanted in batch:
        if not wanted.slot.done():
            wanted.slot.set_exception(error)


class SenderPool:
    """Several accounts that act as one sender, so that a stuck nonce delays only its own account.

    The ledger records which account sends for a transaction key. That account keeps the key until its
    transaction is settled.
    """

    def __init__(self, senders: Sequence[Sender]) -> None:
        """Creates the pool. `senders` must not be empty and must all belong to the same chain."""
        self._senders = tuple(senders)

    async def send(
        self,
        transaction_key: str,
        call: Call,
        claim: Claim | None = None,
        *,
        may_share: bool = False,
        spent_for: SpentFor | None = None,
    ) -> Receipt:
        """See `Sender.send`.

        Uses the account that already has the transaction key, otherwise the least busy account with funds.
        """
        sender = self._sender_of(transaction_key)
        if sender is None:
            solvent = [sender for sender in self._senders if await sender.can_pay()]
            sender = min(solvent or self._senders, key=lambda sender: sender.under_way)
        return await sender.send(transaction_key, call, claim, may_share=may_share, spent_for=spent_for)

    async def outcome(self, transaction_key: str) -> Receipt | None:
        """See `Sender.outcome`, for the account that has the key."""
        sender = self._sender_of(transaction_key)
        return None if sender is None else await sender.outcome(transaction_key)

    def next_for(self, transaction_key: str) -> float | None:
        """See `Sender.next_for`, for the account that has the key."""
        sender = self._sender_of(transaction_key)
        return None if sender is None else sender.next_for(transaction_key)

    def _sender_of(self, transaction_key: str) -> Sender | None:
        return next((sender for sender in self._senders if sender.is_sending(transaction_key)), None)

    async def can_pay(self) -> bool:
        """Returns whether any account can pay."""
        return any([await sender.can_pay() for sender in self._senders])


Sending = Sender | SenderPool
"""A sender with one or several accounts."""


class CallBatching:
    """Packs calls into transactions on one chain, and divides the cost of each transaction among its calls.

    The contract `contracts/relaying/BoundedMulticall.sol` gives each call its own gas and isolates reverts.
    """

    def __init__(self, multicall: str | None, *, most: int, max_gas: int) -> None:
        """Creates the packing. Without a multicall contract, or if `most` is 1, each call has its own transaction.

        Args:
            multicall: address of the multicall contract, or None.
            most: maximum number of calls in a transaction.
            max_gas: gas limit of a transaction; a single call above it is rejected earlier.
        """
        self._multicall = multicall
        self._most = most if multicall is not None else 1
        self._max_gas = max_gas

    def within(self, block_gas: int) -> CallBatching:
        """Returns the packing for a chain with the given block gas limit.

        A transaction may use only a share of the limit.

        A limit of 0 means unknown.
        """
        if not block_gas:
            return self
        return CallBatching(self._multicall, most=self._most, max_gas=min(self._max_gas, block_gas // _BLOCK_SHARE))

    def pack(self, requests: Sequence[SlotRequest]) -> list[CallBatch]:
        """Implements `bridge.records.transactions.Packing`. Batches are in the order of their first requests.

        Calls with value never share a transaction, because the contract forwards none.
        """
        groups: list[list[SlotRequest]] = []
        sharing: list[SlotRequest] = []
        gas = size = 0
        for request in requests:
            if self._most < 2 or not request.may_share or request.call.value:
                groups.append([request])
                continue
            needs, length = _gas_of(request.call), _CALL_HEAD + len(request.call.data)
            is_full = len(sharing) == self._most or size + length > _MOST_BYTES or gas + needs > self._max_gas
            if not sharing or is_full:
                sharing, gas, size = [], _BASE_GAS, 0
                groups.append(sharing)
            sharing.append(request)
            gas, size = gas + needs, size + length
        return [self._parcel(group) for group in groups]

    def _parcel(self, group: Sequence[SlotRequest]) -> CallBatch:
        if len(group) == 1:
            return CallBatch.of(group[0])
        assert self._multicall is not None
        common, rest = divmod(_BASE_GAS, len(group))
        parts = [BatchedCall(request.transaction_key, _gas_of(request.call) + common) for request in group]
        parts[0] = replace(parts[0], gas=parts[0].gas + rest)
        calls = [(request.call.to, request.call.gas, request.call.data) for request in group]
        data = MULTICALL.encode("multicall", calls)
        return CallBatch(Call(to=self._multicall, data=data, gas=sum(part.gas for part in parts)), tuple(parts))


def receipt_of(transaction_key: str, slot: Slot, receipt: Receipt) -> Receipt:
    """Returns the receipt for one key of a shared transaction. It counts as succeeded if that key's call succeeded."""
    if not slot.is_shared or slot.call is None:
        return receipt
    made = _calls_made(receipt, slot.call.to)
    return replace(
        receipt, succeeded=receipt.succeeded and bool(made >> slot.transaction_keys.index(transaction_key) & 1)
    )


def _calls_made(receipt: Receipt, multicall: str) -> int:
    """Returns an integer with one bit for each successful call.

    A callee may re-enter the contract, in which case the inner call's event comes first.
    """
    for log in reversed(receipt.logs):
        if log.address.lower() == multicall.lower() and log.topics == (_CALLS_MADE,):
            return int.from_bytes(log.data, "big")
    return 0


def _gas_of(call: Call) -> int:
    assert call.gas is not None
    return call.gas * 64 // 63 + 1 + _CALL_GAS + _BYTE_GAS * (_CALL_HEAD + len(call.data))
