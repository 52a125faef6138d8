"""Sends calls as transactions of one account, many at once."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace

from bridge.ports import Call, Chain, Clock, Receipt, TransientError
from bridge.records.finality import Finality
from bridge.records.outbox import Claim, StaleClaimError
from bridge.records.spending import Bound, Refusal, SpendHeldError, SpentFor
from bridge.records.transactions import Slot, SlotRequest, SlotState, SpendCheck, TransactionLedger
from bridge.sending.account import Account
from bridge.sending.settings import SendingSettings
from bridge.sending.sharing import Sharing, receipt_of
from bridge.sending.signing import Signer
from bridge.sending.upkeep import Upkeep
from bridge.supervision import Wakeup


@dataclass(frozen=True, slots=True)
class _Wanted:
    request: SlotRequest
    slot: asyncio.Future[Slot]


class Sender:
    """One account on one chain.

    Calls that are asked for at the same time are reserved, signed and stored together, in two transactions of the store.
    `run` must be running for `send` to return: it looks after what is under way.
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
        multicall: str | None = None,
    ) -> None:
        """Takes what is under way from an earlier run up again.

        Args:
            chain: where to send.
            signer: the account.
            ledger: what keeps its nonces.
            clock: time.
            finality: says up to which block the chain is final.
            settings: how patiently.
            multicall: the contract through which calls share a transaction; None if the chain has none.
        """
        self._account = Account(chain, signer, ledger, clock, settings or SendingSettings())
        chosen = self._account.settings
        self._sharing = Sharing(multicall, most=chosen.share, max_gas=chosen.max_gas)
        self._upkeep = Upkeep(self._account, finality)
        self.wakeup = Wakeup()  # for whoever ticks: something was handed over, and may be in a block already
        self._wanted: deque[_Wanted] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The account that sends."""
        return self._account.address

    async def send(
        self,
        purpose: str,
        call: Call,
        claim: Claim | None = None,
        *,
        may_share: bool = False,
        spent_for: SpentFor | None = None,
    ) -> Receipt:
        """Sends a call, and waits until a block includes it; a purpose that is under way already is not sent twice.

        Args:
            purpose: what the call is for.
            call: without its own gas limit, it is estimated.
            claim: with one, nothing is sent unless it is still good; and what was sent waits while the account can't pay.
            may_share: whether the call may be made by a contract, in one transaction with others that are sent at this moment.
            spent_for: the message that it is paid for; without one it counts for the bound of its chain alone.

        Returns:
            The receipt of the purpose's transaction: of this call, or of the one that was under way. It may have reverted;
            of one that is shared, `succeeded` is about this purpose's call, and the logs are those of all.

        Raises:
            CallRevertedError: the call would revert.
            StaleClaimError: the claim is lost.
            NonceLostError: its nonce was used by something else, and the call was not sent.
            FeesTooHighError: the chain wants more than the limit; the call was not sent.
            SpendHeldError: a bound has no room for it; the call was not sent.
            TransientError: no block included it in time, or a node calls it malformed.
        """
        # A call that says its gas needs no estimate, which could fail while the purpose is under way: reserving finds that.
        slot = self._account.ledger.open_slot(*self._account.key, purpose) if call.gas is None else None
        if slot is None:
            request = SlotRequest(purpose, await self._with_gas(call), claim, may_share, spent_for)
            wanted = _Wanted(request, asyncio.get_running_loop().create_future())
            self._wanted.append(wanted)
            self._start_worker()
            slot = await wanted.slot
        return receipt_of(purpose, slot, await self._included(slot, parks=claim is not None))

    async def outcome(self, purpose: str) -> Receipt | None:
        """Waits for what an earlier owner of a purpose has under way.

        Whoever takes a purpose over asks this before it asks the chain what is left to do: what the chain says would else be out
        of date once the transaction is in a block, and it would be sent again.

        Returns:
            The receipt of the purpose's transaction, see `send`; None if none is under way.

        Raises:
            NonceLostError: its nonce was used by something else, and the call was not sent.
            TransientError: no block included it in time; or a node calls it malformed, or estimates too much gas.
        """
        slot = self._account.ledger.open_slot(*self._account.key, purpose)
        return None if slot is None else receipt_of(purpose, slot, await self._included(slot, parks=True))

    def is_sending(self, purpose: str) -> bool:
        """Whether a call for that purpose is under way."""
        waits = any(wanted.request.purpose == purpose for wanted in self._wanted)
        return waits or self._account.ledger.open_slot(*self._account.key, purpose) is not None

    @property
    def under_way(self) -> int:
        """How many calls are."""
        return len(self._wanted) + len(self._account.awaited)

    async def can_pay(self) -> bool:
        """See `Account.can_pay`; nothing is sent before."""
        return await self._account.can_pay()

    async def tick(self) -> bool:
        """Looks once after all that is under way, see `Upkeep.tick`; there is never more to do at once."""
        await self._upkeep.tick()
        return False

    async def close(self) -> None:
        """Stops working; what is under way is in the ledger, and goes on with the next run."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _included(self, slot: Slot, *, parks: bool) -> Receipt:
        settlement = self._account.settlement(slot)
        limit = self._account.settings.inclusion
        while True:
            is_empty = not await self._account.can_pay()
            try:
                async with asyncio.timeout(limit):
                    return await asyncio.shield(settlement)
            except TimeoutError:
                if parks and (is_empty or not await self._account.can_pay()):
                    continue  # it is no failure of the delivery, and goes on once somebody sends money
            raise TransientError(
                f"no block of chain {slot.chain_id} includes nonce {slot.nonce} of {slot.account} after {limit:g} s:"
                f" {self._account.problem(slot)}"
            )

    async def _with_gas(self, call: Call) -> Call:
        settings = self._account.settings
        gas = call.gas
        if gas is None:
            gas = int(await self._account.chain.estimate_gas(call, self.address) * settings.gas_margin)
        if gas > settings.max_gas:
            why = f"its transaction needs {gas} gas, and {Bound.GAS.value} is {settings.max_gas}; raise that if the chain's"
            raise SpendHeldError(Refusal(Bound.GAS, f"{why} blocks and transactions may hold so much"))
        return replace(call, gas=gas)

    def _start_worker(self) -> None:
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work_off())

    async def _work_off(self) -> None:
        await asyncio.sleep(0)  # lets all that ask at the same moment get into the same batch
        while self._wanted:
            batch = [self._wanted.popleft() for _ in range(min(len(self._wanted), self._account.settings.batch))]
            try:
                await self._send_batch(batch)
            except Exception as error:  # noqa: BLE001  # whoever asked decides what it means
                for wanted in batch:
                    if not wanted.slot.done():
                        wanted.slot.set_exception(error)

    async def _send_batch(self, batch: list[_Wanted]) -> None:
        account = self._account
        first_nonce = await self._upkeep.first_nonce()
        fees = (
            await account.fees()
        )  # before anything is reserved: a nonce that nobody may sign for would block all behind it
        requests = [wanted.request for wanted in batch]
        now = account.clock.now()
        check = SpendCheck(fees.max_fee, account.settings.bounds)
        slots = account.ledger.reserve(
            *account.key, requests, first_nonce=first_nonce, now=now, pack=self._sharing.pack, check=check
        )
        given = [slot for slot in slots if slot is not None and slot.state is SlotState.RESERVED]
        # One that was reserved before is another worker's to sign for, or upkeep's to close.
        unsigned = {slot.slot_id: slot for slot in given if slot.reserved_at == now}
        versions = [(slot.slot_id, await account.signed(slot, fees)) for slot in unsigned.values()]
        stored = account.ledger.sign_all(versions)
        by_id = dict(versions)
        fresh = [unsigned[slot_id].signed(by_id[slot_id]) for slot_id in sorted(stored)]
        for wanted, slot in zip(batch, slots, strict=True):
            if wanted.slot.done():
                continue  # whoever asked has given up meanwhile: that is no matter of the others
            if slot is not None:
                account.settlement(slot)
                wanted.slot.set_result(slot)
            elif refusal := check.refusals.get(wanted.request.purpose):
                wanted.slot.set_exception(SpendHeldError(refusal))
            else:
                assert wanted.request.claim is not None
                wanted.slot.set_exception(StaleClaimError(wanted.request.claim))
        await account.broadcast(fresh)
        self.wakeup.set()
