"""A router as docs/contracts.md and docs/INVARIANTS.md describe it, in plain Python; it shares no rule with the contracts.

Each public method is a function of the contract. A call that the router refuses raises `RevertError` with the error's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.protocol.message import Kind, Message
from tests.anvil.campaign.records import (
    HIGHEST_GMP,
    MAX_PAUSE,
    MIN_TTL,
    NOBODY,
    Execution,
    Lane,
    Profile,
    Receipts,
    RevertError,
    Route,
    Sent,
    Terms,
    address_of,
    bits,
    interoperable,
    word,
)
from tests.anvil.campaign.world import World


@dataclass
class Router:
    """One router."""

    world: World
    index: int
    address: str
    chain: int
    beyond: int  # the other chain
    owner: str
    revoker: str
    profile: Profile | None = None

    lane: Lane = field(default_factory=Lane)
    watched_until: float = -1
    """The last day on which deliveries look at their lane before their quorum is there."""
    adapters: dict[int, str] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    gmp_pauses: dict[int, int] = field(default_factory=dict)
    policies: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    retriers: dict[str, str] = field(default_factory=dict)
    credits: dict[str, int] = field(default_factory=dict)
    sent: dict[bytes, Sent] = field(default_factory=dict)
    outcomes: dict[bytes, Execution] = field(default_factory=dict)
    receipts: dict[bytes, Receipts] = field(default_factory=dict)
    created: dict[bytes, bool] = field(default_factory=dict)
    """The messages that it created."""
    is_sending: bool = False
    is_receiving: bool = False

    def emit(self, name: str, *arguments: Any) -> None:
        """Notes an event of the router."""
        self.world.emit(self.address, name, *arguments)

    # ---- sending

    def route(self, caller: str, value: int, request: Route) -> None:
        """`route`: creates a message and sends it."""
        with self._sending():
            terms = request.terms
            _require_sound(terms)
            message = self._compose(caller, request)
            if not 0 < request.quorum <= len(terms.gmps):
                raise RevertError("InvalidQuorum")
            if not request.retriable and terms.required < request.quorum:
                raise RevertError("InvalidMinDispatched")
            self._create(message, value, request.retriable, terms)

    def retry_route(self, caller: str, value: int, stated: bytes, message: Message, terms: Terms) -> None:
        """`retryRoute`: sends a message again."""
        with self._sending():
            if stated != message.id:
                raise RevertError("MessageIdMismatch")
            sent = self.sent.get(message.id, Sent())
            if not sent.retriable:
                raise RevertError("NotRetriable")
            if sent.unfunded:
                raise RevertError("StillUnfunded")
            may_retry = caller in (sent.sender, self.retriers.get(sent.sender)) or message.kind == Kind.REPORT
            if not may_retry:
                raise RevertError("NotSenderOrRetrier")
            _require_sound(terms)
            self._require_alive(message, sent)
            sent = replace(sent, attempts=sent.attempts + 1)
            self.sent[message.id] = sent
            took = self._dispatch(message, value, sent.attempts, terms)
            self.emit("MessageRetried", message.id, message.destination_chain, sent.attempts, bits(took))

    def send_message(self, caller: str, value: int, chain: int, recipient: str, payload: bytes) -> None:
        """`sendMessage` without attributes: creates a message that waits for its fee, and pays it if there is money."""
        with self._sending():
            profile = self.profile
            if profile is None or chain != self.beyond:
                raise RevertError("NoProfile")
            request = Route(
                chain=chain,
                recipient=word(recipient),
                payload=payload,
                gas_limit=profile.gas_limit,
                ttl=profile.ttl,
                kind=Kind.PLAIN,
                quorum=profile.quorum,
                replaces=bytes(32),
                retriable=profile.retriable,
                terms=Terms(0, (), caller),
            )
            message = self._register(self._compose(caller, request))
            sent = Sent(caller, 0, profile.gmps, profile.retriable, unfunded=True, max_fee=profile.max_fee)
            self.sent[message.id] = sent
            gmps, envelope = bits(profile.gmps), message.encode()
            self.emit("MessageUnfunded", message.id, chain, profile.retriable, gmps, envelope)
            if value:
                self._fund(message, value, sent, caller)
            sender, to = interoperable(self.chain, caller), interoperable(chain, recipient)
            self.emit("MessageSent", bytes(32) if value else message.id, sender, to, payload, value, ())

    def fund(self, _: str, value: int, message: Message, refund_to: str) -> None:
        """`fund`: anyone pays for a message over all GMPs that it waits for."""
        with self._sending():
            sent = self.sent.get(message.id, Sent())
            if not sent.waiting:
                raise RevertError("NotUnfunded")
            if refund_to == NOBODY:
                raise RevertError("ZeroRefundAddress")
            self._require_alive(message, sent)
            self._fund(message, value, sent, refund_to)

    def cancel(self, caller: str, value: int, original: Message, terms: Terms) -> None:
        """`cancel`: the sender asks the destination to end a message."""
        with self._sending():
            _require_ordinary(original)
            if (original.source_chain, original.source_router) != (self.chain, word(self.address)):
                raise RevertError("WrongSource")
            if original.sender != word(caller):
                raise RevertError("NotSender")
            # Of a lane that there is not, no message was created.
            created = self.lane.sent if original.destination_chain == self.beyond else 0
            if original.nonce > created:
                raise RevertError("NotCreated")
            self.sent[original.id] = replace(self.sent.get(original.id, Sent()), cancelled=True)
            cancellation = self._send_about(original, Execution.CANCELLED, value, terms, is_report=False)
            self.emit("CancellationRequested", original.id, cancellation)

    def report(self, _: str, value: int, original: Message, terms: Terms) -> None:
        """`report`: anyone tells the source how a message ended here."""
        with self._sending():
            _require_ordinary(original)
            end = self.receipts.get(original.id, Receipts()).end
            if end == Execution.NONE:
                raise RevertError("NothingToReport")
            self._send_about(original, end, value, terms, is_report=True)

    def appoint_retrier(self, caller: str, _: int, retrier: str) -> None:
        """`appointRetrier`."""
        self.retriers[caller] = retrier
        self.emit("RetrierAppointed", caller, retrier)

    def credit_surplus(self, _: str, value: int, account: str) -> None:
        """`creditSurplus`: an adapter gives back what its GMP did not need."""
        self._credit(account, value)

    def withdraw(self, caller: str, _: int, to: str) -> None:
        """`withdraw`: pays an account's credit, once."""
        amount = self.credits.get(caller, 0)
        if not amount:
            raise RevertError("NothingToWithdraw")
        if to == NOBODY:
            raise RevertError("ZeroAddress")
        self.credits[caller] = 0
        self.emit("Withdrawn", caller, to, amount)
        try:
            self.world.refund(self, to, amount)
        except RevertError:
            raise RevertError("TransferFailed") from None

    # ---- receiving

    def receive_message(self, caller: str, _: int, origin: int, stated: bytes, message: Message) -> None:
        """`receiveMessage`: an adapter delivers. At the quorum the message executes."""
        with self._receiving():
            gmp = next((gmp for gmp, adapter in self.adapters.items() if adapter == caller), None)
            if gmp is None:
                raise RevertError("NotAdapter")
            if stated != message.id:
                raise RevertError("WrongMessageId")
            if message.source_chain != origin:
                raise RevertError("WrongSourceChain")
            self._require_deliverable(message)
            if self._is_paused(gmp):
                raise RevertError("GmpPaused")
            receipts = self.receipts.get(message.id, Receipts())
            if gmp in self.delivered(message.id):
                raise RevertError("AlreadyReceived")
            receipts += (gmp, self.epochs.get(gmp, 0))
            self.receipts[message.id] = receipts
            count, needed = self._progress(message)
            chain = message.source_chain
            self.emit("MessageReceived", message.id, chain, gmp, count, needed, message.payload_hash)
            if receipts.end == Execution.EXECUTED:
                return
            if receipts.end != Execution.NONE:
                self.emit("LateReceipt", message.id, chain, gmp, receipts.end)
            elif self.has_expired(message):
                self._end(message.id, Execution.EXPIRED)
                self.emit("MessageExpired", message.id, chain)
            elif count >= needed:
                self._execute_on_arrival(message)

    def execute(self, _: str, __: int, message: Message) -> None:
        """`execute`: anyone has a message executed that has its quorum."""
        with self._receiving():
            self._require_deliverable(message)
            self._require_not_ended(message)
            if self.has_expired(message):
                raise RevertError("MessageHasExpired")
            count, needed = self._progress(message)
            if count < needed:
                raise RevertError("QuorumNotReached")
            self._end(message.id, Execution.EXECUTED)
            if self._lacks_gas(message):
                raise RevertError("InsufficientGas")
            try:
                self._call_recipient(message)
            except RevertError:
                raise RevertError("ExecutionReverted") from None
            self._count_execution(message)

    def expire(self, _: str, __: int, message: Message) -> None:
        """`expire`: anyone marks a message whose time is over."""
        with self._receiving():
            self._require_deliverable(message)
            self._require_lane(message.source_chain, message.source_router)
            self._require_not_ended(message)
            if not self.has_expired(message):
                raise RevertError("NotExpired")
            self._end(message.id, Execution.EXPIRED)
            self.emit("MessageExpired", message.id, message.source_chain)

    # ---- configuration

    def add_adapter(self, caller: str, _: int, gmp: int, adapter: str) -> None:
        """`addAdapter`."""
        self._only_owner(caller)
        if gmp in self.adapters:
            raise RevertError("GmpAlreadyHasAdapter")
        self._bind(gmp, adapter)
        self.emit("AdapterAdded", gmp, adapter)

    def replace_adapter(self, caller: str, _: int, gmp: int, adapter: str) -> None:
        """`replaceAdapter`: receipts stay."""
        self._only_owner(caller)
        previous = self._adapter(gmp)
        del self.adapters[gmp]
        self._bind(gmp, adapter)
        self.emit("AdapterReplaced", gmp, adapter, previous)

    def revoke_adapter(self, caller: str, _: int, gmp: int) -> None:
        """`revokeAdapter`: the GMP's receipts count no more."""
        self._only_revoker(caller)
        adapter = self._adapter(gmp)
        del self.adapters[gmp]
        self.epochs[gmp] = self.epochs.get(gmp, 0) + 1
        self.emit("AdapterRevoked", gmp, adapter, self.epochs[gmp])

    def set_peer(self, caller: str, _: int, chain: int, router: str, floor: int) -> None:
        """`setPeer`: new messages go to that router; the earlier ones stay known."""
        self._only_owner(caller)
        if chain == self.chain:
            raise RevertError("SameChain")
        floor = max(floor, self.lane.floor)
        if not 0 < floor <= HIGHEST_GMP:
            raise RevertError("InvalidFloor")
        self.lane = replace(self.lane, peer=router, peers=self.lane.peers | {router}, floor=floor)
        self.emit("FloorSet", chain, floor)
        self.emit("PeerSet", chain, word(router))

    def revoke_peer(self, caller: str, _: int, chain: int, router: str) -> None:
        """`revokePeer`: nothing of that router executes any more, and nothing is sent to it."""
        self._only_revoker(caller)
        if chain != self.beyond or router not in self.lane.peers:
            raise RevertError("UnknownPeer")
        peer = NOBODY if self.lane.peer == router else self.lane.peer
        self.lane = replace(self.lane, peer=peer, peers=self.lane.peers - {router})
        self.watched_until = float("inf")
        self.emit("PeerRevoked", chain, word(router))

    def set_floor(self, caller: str, _: int, chain: int, floor: int) -> None:
        """`setFloor`: the revoker may only raise it."""
        self._only_revoker(caller)
        if floor < self.lane.floor:
            self._only_owner(caller)
        if not 0 < floor <= HIGHEST_GMP:
            raise RevertError("InvalidFloor")
        self.lane = replace(self.lane, floor=floor)
        self.emit("FloorSet", chain, floor)

    def set_policy(self, caller: str, _: int, chain: int, quorum: int, gmps: frozenset[int]) -> None:
        """`setPolicy`: what a recipient demands, in place of the floor; quorum 0 gives that up."""
        if quorum > len(gmps) or (not quorum and gmps):
            raise RevertError("InvalidPolicy")
        self.policies[caller] = (quorum, gmps)
        self.emit("PolicySet", caller, chain, quorum, bits(gmps))

    def pause_gmp(self, caller: str, _: int, gmp: int, until: int) -> None:
        """`pauseGmp`, as the owner."""
        self._require_pause(caller, until)
        self._adapter(gmp)
        self.gmp_pauses[gmp] = until
        self.emit("GmpPauseSet", gmp, until)

    def end_gmp_pause(self, caller: str, _: int, gmp: int) -> None:
        """`endGmpPause`, as the owner."""
        self._only_owner(caller)
        if self._is_paused(gmp):
            self.gmp_pauses[gmp] = self.world.now
            self.emit("GmpPauseSet", gmp, self.world.now)

    def pause_lane(self, caller: str, _: int, chain: int, until: int) -> None:
        """`pauseLane`, as the owner."""
        self._require_pause(caller, until)
        self._set_lane_pause(chain, until)

    def end_lane_pause(self, caller: str, _: int, chain: int) -> None:
        """`endLanePause`, as the owner."""
        self._only_owner(caller)
        if self.world.now < self.lane.paused_until:
            self._set_lane_pause(chain, self.world.now)

    # ---- what follows from the above

    def delivered(self, message_id: bytes) -> frozenset[int]:
        """The GMPs that delivered a message in the epoch that is theirs now."""
        receipts = self.receipts.get(message_id, Receipts())
        return frozenset(g for g, epoch in receipts.epochs if g in self.adapters and epoch == self.epochs.get(g, 0))

    def counted(self, message_id: bytes) -> frozenset[int]:
        """Those of them that are not paused."""
        return frozenset(gmp for gmp in self.delivered(message_id) if not self._is_paused(gmp))

    def has_expired(self, message: Message) -> bool:
        """Whether a message's time is over."""
        return message.ttl != 0 and self.world.now > message.sent_at + message.ttl

    def is_at_quorum(self, message: Message) -> bool:
        """Whether a message has all the receipts that it needs."""
        try:
            count, needed = self._progress(message)
        except RevertError:
            return False
        return count >= needed

    # ---- inner workings: sending

    @contextmanager
    def _sending(self) -> Iterator[None]:
        if self.is_sending:
            raise RevertError("SendingReentered")
        self.is_sending = True
        yield
        self.is_sending = False

    def _compose(self, caller: str, request: Route) -> Message:
        if request.chain == self.chain:
            raise RevertError("SameChain")
        if not any(request.recipient):
            raise RevertError("ZeroRecipient")
        address_of(request.recipient)
        if request.kind >= Kind.CANCELLATION:
            raise RevertError("ReservedKind")
        if not request.ttl and request.kind not in (Kind.PLAIN, Kind.REGULATORY_ACTION_CRITICAL):
            raise RevertError("TtlRequired")
        if request.ttl and request.kind == Kind.REGULATORY_ACTION_CRITICAL:
            raise RevertError("TtlNotAllowed")
        if request.ttl and request.ttl < MIN_TTL:
            raise RevertError("TtlTooShort")
        if request.chain != self.beyond or self.lane.peer == NOBODY:
            raise RevertError("NoPeer")
        self._require_open(request.chain)
        return Message(
            source_chain=self.chain,
            source_router=word(self.address),
            sender=word(caller),
            nonce=0,
            destination_chain=request.chain,
            destination_router=word(self.lane.peer),
            recipient=request.recipient,
            gas_limit=request.gas_limit,
            sent_at=self.world.now,
            ttl=request.ttl,
            kind=Kind(request.kind),
            quorum=request.quorum,
            replaces=request.replaces,
            payload=request.payload,
        )

    def _register(self, message: Message) -> Message:
        message = self.world.know(replace(message, nonce=self.lane.sent + 1))
        sent_sum = (self.lane.sent_sum + int.from_bytes(message.id, "big")) % 2**32
        self.lane = replace(self.lane, sent=message.nonce, sent_sum=sent_sum)
        self.created[message.id] = True
        self.emit("MessageIdCreated", message.id, address_of(message.sender), message.nonce)
        return message

    def _create(self, message: Message, value: int, retriable: bool, terms: Terms) -> bytes:
        message = self._register(message)
        if retriable:
            self.sent[message.id] = Sent(address_of(message.sender), retriable=True)
        took = self._dispatch(message, value, 0, terms)
        self.emit("MessageRouted", message.id, message.destination_chain, retriable, bits(took), message.encode())
        return message.id

    def _send_about(self, original: Message, end: Execution, value: int, terms: Terms, *, is_report: bool) -> bytes:
        """Sends a message for the other router about another message."""
        chain, router = _source(original) if is_report else _destination(original)
        _require_sound(terms)
        self._require_lane(chain, router)
        message = Message(
            source_chain=self.chain,
            source_router=word(self.address),
            sender=word(self.address) if is_report else original.sender,
            nonce=0,
            destination_chain=chain,
            destination_router=router,
            recipient=router,
            gas_limit=0,
            sent_at=self.world.now,
            ttl=0,
            kind=Kind.REPORT if is_report else Kind.CANCELLATION,
            quorum=original.quorum,
            replaces=original.id,
            payload=self.world.say(original, end),
        )
        return self._create(message, value, True, terms)

    def _dispatch(self, message: Message, value: int, attempt: int, terms: Terms) -> frozenset[int]:
        """Hands a message to each GMP on its own: the fee of one that refuses goes back."""
        took: frozenset[int] = frozenset()
        named: set[int] = set()
        unused = 0
        for gmp, fee in terms.gmps:
            if not 0 < gmp <= HIGHEST_GMP:
                raise RevertError("InvalidGmp")
            if gmp in named:
                raise RevertError("DuplicateGmp")
            named.add(gmp)
            if self._hand_over(message, gmp, fee, attempt, terms.refund_to):
                took |= {gmp}
            else:
                unused += fee
        if sum(fee for _, fee in terms.gmps) != value:
            raise RevertError("FeesDifferFromValue")
        if len(took) < terms.required:
            raise RevertError("TooFewDispatched")
        if unused:
            self._refund(terms.refund_to, unused)
        return took

    def _hand_over(self, message: Message, gmp: int, fee: int, attempt: int, refund_to: str) -> bool:
        try:
            self.world.dispatch(self, self._active_adapter(gmp), fee, message, refund_to)
        except RevertError as refused:
            self.emit("DispatchFailed", message.id, gmp, attempt, refused.name)
            return False
        return True

    def _fund(self, message: Message, value: int, sent: Sent, refund_to: str) -> None:
        """Sends a message over the GMPs that it waits for, each at the fee that it asks for now."""
        is_first = sent.unfunded
        if not is_first:
            sent = replace(sent, attempts=sent.attempts + 1)
        required = message.quorum if is_first else 1
        quotes = {gmp: self._quote(gmp, sent.max_fee) for gmp in sorted(sent.waiting)}
        if sum(fee is not None for fee in quotes.values()) < required:
            raise RevertError("TooFewDispatched")
        fees = {gmp: fee or 0 for gmp, fee in quotes.items()}
        if value < sum(fees.values()):
            raise RevertError("InsufficientValue")
        took = frozenset(
            gmp for gmp, fee in fees.items() if self._hand_over(message, gmp, fee, sent.attempts, refund_to)
        )
        if len(took) < required:
            raise RevertError("TooFewDispatched")
        sent = replace(sent, waiting=sent.waiting - took, unfunded=False)
        if sent.retriable or sent.waiting:
            self.sent[message.id] = sent
        else:
            del self.sent[message.id]
        if unused := value - sum(fees[gmp] for gmp in took):
            self._refund(refund_to, unused)
        if is_first:
            chain, envelope = message.destination_chain, message.encode()
            self.emit("MessageRouted", message.id, chain, sent.retriable, bits(took), envelope)
        else:
            self.emit("MessageRetried", message.id, message.destination_chain, sent.attempts, bits(took))

    def _quote(self, gmp: int, most: int) -> int | None:
        try:
            fee = self.world.quote(self, self._active_adapter(gmp))
        except RevertError:
            return None
        return None if fee is None or fee > most else fee

    def _active_adapter(self, gmp: int) -> str:
        if gmp not in self.adapters:
            raise RevertError("GmpNotEnabled")
        if self._is_paused(gmp):
            raise RevertError("GmpPaused")
        return self.adapters[gmp]

    def _require_alive(self, message: Message, sent: Sent) -> None:
        if message.source_chain != self.chain:
            raise RevertError("WrongSource")
        if sent.cancelled:
            raise RevertError("AlreadyCancelled")
        if self.has_expired(message):
            raise RevertError("Expired")
        self._require_lane(message.destination_chain, message.destination_router)

    def _refund(self, account: str, amount: int) -> None:
        """Pays an account, or credits it if it takes no money."""
        try:
            self.world.refund(self, account, amount)
        except RevertError:
            self._credit(account, amount)

    def _credit(self, account: str, amount: int) -> None:
        self.credits[account] = self.credits.get(account, 0) + amount
        self.emit("Credited", account, amount)

    # ---- inner workings: receiving

    @contextmanager
    def _receiving(self) -> Iterator[None]:
        if self.is_receiving or self.is_sending:
            raise RevertError("ReceivingReentered")
        self.is_receiving = True
        yield
        self.is_receiving = False

    def _require_deliverable(self, message: Message) -> None:
        if (message.destination_chain, message.destination_router) != (self.chain, word(self.address)):
            raise RevertError("WrongDestination")
        if not message.quorum:
            raise RevertError("ZeroQuorum")
        address_of(message.sender)
        address_of(message.recipient)
        # Before the quorum is there, a lane is looked at only while one may be closed.
        if self.world.now // 86_400 <= self.watched_until:
            self._require_lane(message.source_chain, message.source_router)

    def _progress(self, message: Message) -> tuple[int, int]:
        """How many receipts count, and how many must: for the message's own quorum, then for what its recipient demands."""
        receipts = self.counted(message.id)
        if len(receipts) < message.quorum:
            return len(receipts), message.quorum
        self._require_lane(message.source_chain, message.source_router)
        demanded, allowed = self.policies.get(self._affected(message), (0, frozenset[int]()))
        trusted = len(receipts & allowed)
        if not demanded:
            demanded, trusted = self.lane.floor, len(receipts)
        if trusted < demanded:
            return trusted, demanded
        return len(receipts), max(message.quorum, demanded)

    def _affected(self, message: Message) -> str:
        """Whose demands a message must meet: its recipient's; for a message about another, those of whom that one concerns."""
        if message.kind < Kind.CANCELLATION:
            return address_of(message.recipient)
        if message.payload not in self.world.abouts:
            raise RevertError("")
        original, _ = self.world.abouts[message.payload]
        return address_of(original.recipient if message.kind == Kind.CANCELLATION else original.sender)

    def _require_not_ended(self, message: Message) -> None:
        end = self.receipts.get(message.id, Receipts()).end
        if end == Execution.EXECUTED:
            raise RevertError("AlreadyExecuted")
        if end != Execution.NONE:
            raise RevertError("AlreadyEnded")

    def _end(self, message_id: bytes, end: Execution) -> None:
        self.receipts[message_id] = replace(self.receipts.get(message_id, Receipts()), end=end)

    def _execute_on_arrival(self, message: Message) -> None:
        """Executes a message, or leaves it to `execute`: what a recipient does never loses a receipt."""
        if self._lacks_gas(message):
            self.emit("ExecutionDeferred", message.id, message.source_chain, message.gas_limit)
            return
        self._end(message.id, Execution.EXECUTED)
        try:
            self._call_recipient(message)
        except RevertError as refused:
            self._end(message.id, Execution.NONE)
            self.emit("ExecutionFailed", message.id, message.source_chain, refused.name)
        else:
            self._count_execution(message)

    def _lacks_gas(self, message: Message) -> bool:
        return message.kind < Kind.CANCELLATION and self._may_call(message) and message.gas_limit > self.world.gas

    def _may_call(self, message: Message) -> bool:
        return address_of(message.recipient) not in (self.address, *self.adapters.values())

    def _call_recipient(self, message: Message) -> None:
        if message.kind >= Kind.CANCELLATION:
            self._apply(message)
        elif not self._may_call(message):
            raise RevertError("ForbiddenRecipient")
        else:
            self.world.receive(self, address_of(message.recipient), message)

    def _count_execution(self, message: Message) -> None:
        executed_sum = (self.lane.executed_sum + int.from_bytes(message.id, "big")) % 2**192
        self.lane = replace(self.lane, executed=self.lane.executed + 1, executed_sum=executed_sum)
        recipient = address_of(message.recipient)
        self.emit("MessageExecuted", message.id, message.source_chain, recipient, message.payload_hash)

    def _apply(self, message: Message) -> None:
        """Executes a cancellation or a report, if it says what it may."""
        original, end = self.world.abouts[message.payload]
        fits = message.replaces == original.id and message.quorum == original.quorum
        fits = fits and original.kind < Kind.CANCELLATION and end != Execution.NONE
        here, there = _source(message), _destination(message)
        if fits and message.kind == Kind.CANCELLATION:
            fits = message.sender == original.sender and (here, there) == (_source(original), _destination(original))
        elif fits:
            from_router = message.sender == message.source_router
            fits = from_router and (here, there) == (_destination(original), _source(original))
        if not fits:
            raise RevertError("InvalidRouterMessage")
        if message.kind == Kind.CANCELLATION:
            self._apply_cancellation(message)
        else:
            self._apply_report(message.replaces, original.destination_chain, end)

    def _apply_cancellation(self, message: Message) -> None:
        end = self.receipts.get(message.replaces, Receipts()).end
        if end != Execution.NONE:
            self.emit("CancellationRejected", message.replaces, message.source_chain, message.id, end)
            return
        self._end(message.replaces, Execution.CANCELLED)
        self.emit("MessageCancelled", message.replaces, message.source_chain, message.id)

    def _apply_report(self, message_id: bytes, chain: int, end: Execution) -> None:
        first = self.outcomes.get(message_id, Execution.NONE)
        if first == Execution.NONE:
            if self.sent.get(message_id, Sent()).sender != NOBODY:
                self.outcomes[message_id] = end
            self.emit("OutcomeReported", message_id, chain, end)
        elif first != end:
            self.emit("OutcomeContradicted", message_id, chain, first, end)

    # ---- inner workings: lanes and roles

    def _require_lane(self, chain: int, router: bytes) -> None:
        if chain != self.beyond or any(router[:12]) or address_of(router) not in self.lane.peers:
            raise RevertError("UnknownPeer")
        self._require_open(chain)

    def _require_open(self, chain: int) -> None:
        if chain == self.beyond and self.world.now < self.lane.paused_until:
            raise RevertError("LanePaused")

    def _is_paused(self, gmp: int) -> bool:
        return self.world.now < self.gmp_pauses.get(gmp, 0)

    def _set_lane_pause(self, chain: int, until: int) -> None:
        self.lane = replace(self.lane, paused_until=until)
        self.watched_until = max(self.watched_until, until // 86_400)
        self.emit("LanePauseSet", chain, until)

    def _adapter(self, gmp: int) -> str:
        if gmp not in self.adapters:
            raise RevertError("GmpHasNoAdapter")
        return self.adapters[gmp]

    def _bind(self, gmp: int, adapter: str) -> None:
        if adapter in self.adapters.values():
            raise RevertError("AdapterAlreadyUsed")
        if self.world.speakers[self.chain, adapter] != self.address:
            raise RevertError("AdapterOfAnotherRouter")
        self.adapters[gmp] = adapter

    def _only_owner(self, caller: str) -> None:
        if caller != self.owner:
            raise RevertError("OwnableUnauthorizedAccount")

    def _only_revoker(self, caller: str) -> None:
        if caller not in (self.owner, self.revoker):
            raise RevertError("NotRevoker")

    def _require_pause(self, caller: str, until: int) -> None:
        if caller != self.owner:
            raise RevertError("NotGuardian")
        if not self.world.now < until <= self.world.now + MAX_PAUSE:
            raise RevertError("InvalidPauseEnd")


def _require_sound(terms: Terms) -> None:
    """Refuses terms that make no sense."""
    if not terms.gmps:
        raise RevertError("NoGmps")
    if terms.refund_to == NOBODY:
        raise RevertError("ZeroRefundAddress")
    if terms.fewest > len(terms.gmps):
        raise RevertError("InvalidMinDispatched")


def _require_ordinary(original: Message) -> None:
    """Refuses what no cancellation or report can be about."""
    if not 0 < original.quorum <= HIGHEST_GMP:
        raise RevertError("InvalidQuorum")
    address_of(original.sender)
    address_of(original.recipient)
    if original.kind >= Kind.CANCELLATION:
        raise RevertError("NotForRouterMessages")


def _source(message: Message) -> tuple[int, bytes]:
    return message.source_chain, message.source_router


def _destination(message: Message) -> tuple[int, bytes]:
    return message.destination_chain, message.destination_router
