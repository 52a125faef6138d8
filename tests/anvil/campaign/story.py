"""Stories: actions drawn at random, done by the model and by the routers, and everything compared.

Whatever a router refuses must be refused with the error that the model names; whatever it does must have the model's events,
and leave what the model remembers. What is acted on is drawn by its state first, so that rare states are as likely as
frequent ones, and who acts is often somebody who may not.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from eth_abi.abi import decode, encode

from bridge.protocol.message import Kind, Message
from tests.anvil.campaign.chains import (
    GAS,
    Chain,
    artifact,
    call_data,
    conduct_data,
    decoded,
    double,
    encoded,
    profile_data,
    start,
    words,
)
from tests.anvil.campaign.records import (
    MAX_FEE,
    NOBODY,
    WEI_PER_GWEI,
    Call,
    Conduct,
    Execution,
    Fees,
    Mood,
    Profile,
    Receipts,
    RevertError,
    Route,
    Sent,
    Terms,
    bits,
    word,
)
from tests.anvil.campaign.router import Router
from tests.anvil.campaign.world import World

ALPHA, BETA = 901, 902
PLACES = (ALPHA, BETA, BETA)
"""The chains of the routers; the last two are a router and its successor."""
GMPS = (1, 2, 3, 4, 5)
START = 1_900_000_000  # Unix seconds
LITTLE_GAS, MUCH_GAS = 1_500_000, 5_000_000
"""The gas of some transactions, and the gas limit of some messages, which it is too little for."""
WEALTH = 10**24  # wei
OWNER, REVOKER, STRANGER = (f"0x{number:040x}" for number in (0xA0, 0xA1, 0xA2))
ACCOUNTS = tuple(f"0x{0xB0 + number:040x}" for number in range(4))
WITH_REASON = ("DispatchFailed", "ExecutionFailed", "Called")
"""The events whose last argument is the name of an error."""
SPARES = 2
"""Adapters that there are for each GMP of a router, in turn."""

view = cache(call_data)
Drawn = TypeVar("Drawn")
Draft = tuple[str, Call]
"""Who makes a call, and which."""


def adapter_address(router: int, gmp: int, spare: int) -> str:
    """The address of an adapter."""
    return f"0x{0xC000 + router * 256 + gmp * 16 + spare:040x}"


class Stage:
    """Two chains with routers, accounts and adapters, as new for each story."""

    def __init__(self, chains: Sequence[Chain], creation_code: bytes) -> None:
        self.chains = {chain.chain_id: chain for chain in chains}
        self.routers: list[str] = []
        for chain in chains:
            chain.rpc("anvil_setBlockTimestampInterval", 0)
            chain.let_pass(START)
        for index, place in enumerate(PLACES):
            # Each router has a maker of its own, so that no two of them have one address.
            maker, code = f"0x{0xD0 + index:040x}", creation_code + encode(["address"], [OWNER])
            receipt = self.chains[place].transact(maker, None, code, gas=50_000_000)
            assert receipt["status"] == "0x1", "the router is not deployed"
            self.routers.append(receipt["contractAddress"].lower())
        for chain_id in self.chains:
            self._place_doubles(chain_id)
        self.opening: World | None = None
        """The world at the beginning of each story."""
        self._snapshots: dict[int, str] = {}

    def keep(self, world: World) -> None:
        """Has all stories begin as it is now."""
        self.opening = deepcopy(world)
        self._snapshots = {chain_id: chain.rpc("evm_snapshot") for chain_id, chain in self.chains.items()}

    def clean(self) -> None:
        """Undoes the last story."""
        for chain_id, chain in self.chains.items():
            assert chain.rpc("evm_revert", self._snapshots[chain_id])
            self._snapshots[chain_id] = chain.rpc("evm_snapshot")

    def doubles(self, chain_id: int) -> dict[str, str]:
        """The doubles of a chain, each with the router that it speaks to."""
        adapters = {
            adapter_address(index, gmp, spare): self.routers[index]
            for index, place in enumerate(PLACES)
            if place == chain_id
            for gmp in GMPS
            for spare in range(SPARES)
        }
        return dict.fromkeys(ACCOUNTS, NOBODY) | adapters

    def _place_doubles(self, chain_id: int) -> None:
        code, _ = double()
        requests: list[tuple[Any, ...]] = []
        for address, router in self.doubles(chain_id).items():
            requests.append(("anvil_setCode", address, code))
            requests.append(("anvil_setStorageAt", address, "0x0", "0x" + word(router).hex()))
        requests += [("anvil_setBalance", account, hex(WEALTH)) for account in (*ACCOUNTS, STRANGER)]
        self.chains[chain_id].rpcs(*requests)


@contextmanager
def stage(router: Path | None = None) -> Iterator[Stage]:
    """A stage with the router of an artifact."""
    with ExitStack() as stack:
        chains = [start(chain_id) for chain_id in (ALPHA, BETA)]
        for chain in chains:
            stack.callback(chain.close)
        yield Stage(chains, artifact(router))


class Story:
    """One story on a stage."""

    def __init__(self, where: Stage, dice: random.Random) -> None:
        self.stage, self.dice = where, dice
        self.log: list[str] = []
        self.actions = 0
        self.reached: set[str] = set()
        """What happened at all: methods that succeeded, errors, events."""
        self.forced: dict[int, int] = {}
        """What was forced into each router, in wei."""
        if where.opening:
            where.clean()
            self.world = deepcopy(where.opening)
        else:
            self.world = World(START)
            self._set_up()
            where.keep(self.world)
        self._weigh()

    def play(self, actions: int) -> None:
        """Plays the story, and compares everything once more at its end."""
        while self.actions < actions:
            self._draw(self.others)()
        for router in self.world.routers:
            self.look(router, self.world.messages)

    def _set_up(self) -> None:
        where = self.stage
        for index, (chain, address) in enumerate(zip(PLACES, where.routers, strict=True)):
            beyond = BETA if chain == ALPHA else ALPHA
            self.world.routers.append(Router(self.world, index, address, chain, beyond, OWNER, REVOKER))
        for chain in where.chains:
            for account in (*ACCOUNTS, STRANGER):
                self.world.balances[chain, account] = WEALTH
            for address, router in where.doubles(chain).items():
                self.world.conducts[chain, address] = Conduct()
                self.world.speakers[chain, address] = router
        self._connect()

    def _weigh(self) -> None:
        self.drafts: list[tuple[int, Callable[[], Draft]]] = [
            (14, self.route),
            (5, self.send_message),
            (5, self.fund),
            (6, self.retry),
            (4, self.cancel),
            (4, self.report),
            (20, self.deliver),
            (7, self.execute),
            (5, self.expire),
            (4, self.withdraw),
            (2, self.appoint),
            (2, self.set_policy),
            (7, self.configure),
        ]
        self.others: list[tuple[int, Callable[[], None]]] = [
            (60, self.act),
            (12, self.deliver_more),
            (8, self.invent),
            (12, self.change_conduct),
            (6, self.let_pass),
            (1, self.force_ether),
        ]

    # ---- an action, done twice

    def do(self, caller: str, call: Call, gas: int = GAS) -> None:
        """Makes a call of a router, as the model says that it ends."""
        router = self.world.routers[call.router]
        chain = self.stage.chains[router.chain]
        if self.world.balances.get((router.chain, caller), 0) < call.value:
            return  # no chain takes such a transaction
        self.actions += 1
        try:
            self.world.transact(caller, call, gas)
        except RevertError as refused:
            expected = refused.name
            self.log.append(f"{caller} {call} refused: {expected}")
        else:
            expected = "success"
            self.log.append(f"{caller} {call}")
        data = encoded(call)
        if expected != "success":
            self.reached.add(expected)
            try:
                chain.ask(router.address, data, caller, call.value, gas)
            except RevertError as refused:
                self._agree("error", refused.name, expected)
            else:
                self._agree("error", "success", expected)
            return
        receipt = chain.transact(caller, router.address, data, call.value, gas)
        if receipt["status"] != "0x1":
            try:
                chain.ask(router.address, data, caller, call.value, gas)
            except RevertError as refused:
                self._agree("error", refused.name, expected)
            self._agree("status", receipt["status"], "0x1")
        self._agree("events", [decoded(log) for log in receipt["logs"]], self.world.events)
        self.reached |= {call.method} | {event[1] for event in self.world.events}
        self.reached |= {event[-1] for event in self.world.events if event[1] in WITH_REASON}
        touched = [argument for event in self.world.events for argument in event[2:] if isinstance(argument, bytes)]
        self.look(router, [argument for argument in touched if argument in self.world.messages])

    def look(self, router: Router, message_ids: Sequence[bytes] | dict[bytes, Message]) -> None:
        """Compares what a router remembers of messages, lanes and money."""
        accounts = [router.address, *self.stage.doubles(router.chain)]
        lane, chain = router.lane, router.beyond
        views: list[tuple[bytes, tuple[int, ...]]] = [
            (view("sentTo(uint64)", chain), (lane.sent, lane.sent_sum)),
            (view("executedFrom(uint64)", chain), (lane.executed, lane.executed_sum)),
            (view("peerOf(uint64)", chain), (int(lane.peer, 16),)),
            (view("floorOf(uint64)", chain), (lane.floor,)),
            (view("enabledGmps()"), (bits(set(router.adapters)),)),
            (view("executing()"), (0, 0, 0, 0)),
        ]
        views += [(view("creditOf(address)", one), (router.credits.get(one, 0),)) for one in ACCOUNTS]
        for message_id in message_ids:
            sent = router.sent.get(message_id, Sent())
            receipts = router.receipts.get(message_id, Receipts())
            counted, end = bits(router.counted(message_id)), receipts.end
            outcome = router.outcomes.get(message_id, Execution.NONE)
            views += [
                (view("sentMessage(bytes32)", message_id), (int(sent.sender, 16), sent.attempts)),
                (view("receiptsOf(bytes32)", message_id), (counted, end)),
                (view("outcomeOf(bytes32)", message_id), (outcome,)),
            ]
        data = call_data("look(address[],address,bytes[])", accounts, router.address, [asked for asked, _ in views])
        answer = self.stage.chains[router.chain].ask(ACCOUNTS[0], data, gas=50_000_000)
        balances, answers = decode(["uint256[]", "bytes"], answer)
        expected = [self.world.balances.get((router.chain, account), 0) for account in accounts]
        self._agree("balances", list(balances), expected)
        self._agree("views", words(answers), [value for _, values in views for value in values])
        # The router has what it owes, and what was forced in.
        owed = sum(router.credits.values()) + self.forced.get(router.index, 0)
        self._agree("money", balances[0], owed)

    def _agree(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            story = "\n".join(self.log[-12:])
            raise AssertionError(f"{what} of the router: {actual}\nof the model: {expected}\nafter:\n{story}")

    # ---- set-up

    def _connect(self) -> None:
        for router in self.world.routers:
            chain = self.stage.chains[router.chain]
            owner = OWNER
            chain.transact(owner, router.address, call_data("setRevoker(address)", REVOKER))
            for gmp in GMPS:
                self.do(owner, Call(router.index, "add_adapter", (gmp, adapter_address(router.index, gmp, 0))))
            peers = [other.address for other in self.world.routers if other.chain != router.chain]
            for peer in reversed(peers):
                self.do(owner, Call(router.index, "set_peer", (router.beyond, peer, 1)))
            router.profile = Profile(
                gmps=frozenset({1, 2, 3} if router.index else {2, 3, 4, 5}),
                quorum=2,
                gas_limit=100_000,
                ttl=0 if router.index else 2 * 86_400,
                retriable=router.index == 0,
                max_fee=3 * WEI_PER_GWEI if router.index == 1 else MAX_FEE,
            )
            (profiles,) = decode(["address"], chain.ask(router.address, call_data("profiles()")))
            receipt = chain.transact(owner, profiles, profile_data(router.beyond, router.profile))
            assert receipt["status"] == "0x1"
        alpha, beta, _ = self.world.routers
        first = Message(
            source_chain=ALPHA,
            source_router=word(alpha.address),
            sender=word(ACCOUNTS[0]),
            nonce=1,
            destination_chain=BETA,
            destination_router=word(beta.address),
            recipient=word(ACCOUNTS[1]),
            gas_limit=100_000,
            sent_at=START,
            ttl=0,
            kind=Kind.PLAIN,
            quorum=2,
            replaces=bytes(32),
            payload=b"nobody sent this",
        )
        self.world.know(first)
        for router in self.world.routers:
            for gmp in GMPS:
                for spare in range(SPARES):
                    self._conduct(
                        router.chain, adapter_address(router.index, gmp, spare), Conduct(fee=(gmp - 1) * 10**9)
                    )

    # ---- draws

    def _draw(self, weighted: Sequence[tuple[int, Drawn]]) -> Drawn:
        return self.dice.choices([it for _, it in weighted], [weight for weight, _ in weighted])[0]

    def chance(self, percent: float) -> bool:
        """Whether something of that likelihood happens."""
        return self.dice.random() * 100 < percent

    def message(self, fits: Callable[[Message], bool] | None = None) -> Message:
        """A message, drawn by its state first; often one that fits, if there is any."""
        messages = list(self.world.messages.values())
        if fits is not None and self.chance(60):
            messages = [message for message in messages if fits(message)] or messages
        states = defaultdict(list)
        for message in messages:
            states[self.state_of(message)].append(message)
        return self.dice.choice(states[self.dice.choice(list(states))])

    def state_of(self, message: Message) -> tuple[object, ...]:
        """All that matters of a message."""
        source, destination = self.at(message.source_router), self.at(message.destination_router)
        sent = self.sent_of(message)
        state: tuple[object, ...] = (
            max(message.kind, Kind.GOVERNANCE_EXECUTE),
            bool(sent.waiting),
            bool(sent.attempts),
        )
        state += (sent.retriable, sent.unfunded, sent.cancelled)
        if source:
            state += (message.id in source.created, source.outcomes.get(message.id))
        if destination:
            state += (self.end_of(message), self.is_ready(message), bool(destination.delivered(message.id)))
            state += (destination.has_expired(message),)
            # Of a cancellation or a report also what it is about.
            state += (
                destination.receipts.get(message.replaces, Receipts()).end,
                destination.outcomes.get(message.replaces),
            )
            state += (message.replaces in destination.sent,)
        return state

    def sent_of(self, message: Message) -> Sent:
        """What the source keeps of a message."""
        source = self.at(message.source_router)
        return source.sent.get(message.id, Sent()) if source else Sent()

    def end_of(self, message: Message) -> Execution:
        """How a message ended at its destination."""
        destination = self.at(message.destination_router)
        return destination.receipts.get(message.id, Receipts()).end if destination else Execution.NONE

    def is_ready(self, message: Message) -> bool:
        """Whether a message has its quorum."""
        destination = self.at(message.destination_router)
        return destination is not None and destination.is_at_quorum(message)

    def at(self, router: bytes) -> Router | None:
        """The router of that address."""
        return next((one for one in self.world.routers if word(one.address) == router), None)

    def source(self, message: Message) -> Router:
        """A message's source, or now and then another router."""
        found = None if self.chance(3) else self.at(message.source_router)
        return found or self.dice.choice(self.world.routers)

    def destination(self, message: Message) -> Router:
        """A message's destination, or now and then another router."""
        found = None if self.chance(3) else self.at(message.destination_router)
        return found or self.dice.choice(self.world.routers)

    def account(self) -> str:
        """An account."""
        return self.dice.choice(ACCOUNTS)

    def refundee(self, caller: str) -> str:
        """Who gets back what was not needed."""
        return NOBODY if self.chance(2) else caller if self.chance(60) else self.account()

    def gmps(self, router: Router, fewest: int = 1) -> Fees:
        """Some GMPs with their fees, most of them right."""
        count = self.dice.randint(min(fewest, len(GMPS)), len(GMPS))
        return tuple((gmp, self.fee(router, gmp)) for gmp in self.dice.sample(GMPS, count))

    def terms(self, router: Router, caller: str) -> Terms:
        """How a message is sent that was sent before, or one about it."""
        return Terms(self.dice.choice((0, 1, 1, 1)), self.gmps(router), self.refundee(caller))

    def fee(self, router: Router, gmp: int) -> int:
        """What a GMP asks for, or now and then more or less."""
        adapter = router.adapters.get(gmp)
        fee = self.world.conducts[router.chain, adapter].fee if adapter else 0
        fee = min(fee, 10**19)
        return max(0, fee + (self.dice.choice((-1, 1, 10**9)) if self.chance(20) else 0))

    def value(self, gmps: Fees) -> int:
        """What is paid for them, seldom a wrong sum."""
        return max(0, sum(fee for _, fee in gmps) + (self.dice.choice((-1, 1, 10**9)) if self.chance(3) else 0))

    # ---- calls, sound and unsound

    def route(self) -> Draft:
        """A new message."""
        dice, caller = self.dice, self.account()
        router = dice.choice(self.world.routers)
        quorum = dice.choice((1, 2, 2, 2, 3, 4))
        gmps = self.gmps(router, quorum if self.chance(95) else 1)
        recipient = self.account()
        if self.chance(8):
            others = [STRANGER, adapter_address(dice.randrange(3), dice.choice(GMPS), dice.randrange(SPARES))]
            recipient = dice.choice([*others, *self.stage.routers])
        request = Route(
            chain=router.beyond,
            recipient=word(recipient),
            payload=dice.randbytes(dice.choice((0, 1, 32, 33, 100))),
            gas_limit=MUCH_GAS if self.chance(10) else 100_000,
            ttl=dice.choice((0, 0, 60, 3_600, 2 * 86_400)),
            kind=dice.choice((Kind.PLAIN, Kind.PLAIN, Kind.PLAIN, Kind.REGULATORY_ACTION_CRITICAL, Kind.STATE_SYNC)),
            quorum=quorum,
            replaces=bytes(32),
            retriable=self.chance(60),
            terms=Terms(dice.choice((0, 0, 1, quorum)), gmps, self.refundee(caller)),
        )
        if request.kind == Kind.REGULATORY_ACTION_CRITICAL and self.chance(90):
            request = replace(request, ttl=0)
        if self.chance(10):
            flaws: tuple[dict[str, Any], ...] = (
                {"chain": router.chain},
                {"chain": 999},
                {"recipient": bytes(32)},
                {"recipient": b"\x01" * 32},
                {"kind": dice.choice((Kind.CANCELLATION, Kind.REPORT))},
                {"ttl": 59},
                {"quorum": dice.choice((0, 6))},
                {"terms": replace(request.terms, fewest=6)},
                {"terms": replace(request.terms, gmps=())},
                {"terms": replace(request.terms, gmps=(*gmps, gmps[0]))},
                {"terms": replace(request.terms, gmps=(*gmps, (dice.choice((0, 6, 17)), 0)))},
            )
            request = replace(request, **dice.choice(flaws))
        return caller, Call(router.index, "route", (request,), self.value(request.terms.gmps))

    def send_message(self) -> Draft:
        """A message by ERC-7786, with its fee or without."""
        router = self.dice.choice(self.world.routers)
        value = self.dice.choice((0, 0, 0, 1, 20 * 10**9))
        arguments = (router.beyond, self.account(), self.dice.randbytes(8))
        return self.account(), Call(router.index, "send_message", arguments, value)

    def fund(self) -> Draft:
        """A payment for a message that waits for its fee, or for none."""
        message = self.message(lambda one: bool(self.sent_of(one).waiting))
        router, caller = self.source(message), self.account()
        waiting = router.sent.get(message.id, Sent()).waiting
        value = sum(fee for gmp in waiting if (fee := self.fee(router, gmp)) < 10**15)
        return caller, Call(router.index, "fund", (message, self.refundee(caller)), value + self.dice.choice((0, 0, 7)))

    def retry(self) -> Draft:
        """A retry, by whoever may and whoever may not."""
        message = self.message(lambda one: self.sent_of(one).retriable)
        router = self.source(message)
        sender = router.sent.get(message.id, Sent()).sender
        callers = [sender, sender, router.retriers.get(sender, STRANGER), self.account()]
        caller = self.dice.choice(callers)
        # A report's sender is the router, which never calls itself.
        caller = caller if caller in ACCOUNTS else self.account()
        stated, sent = message.id, message
        if self.chance(5):
            sent = replace(message, payload=message.payload + b"!")
        terms = self.terms(router, caller)
        return caller, Call(router.index, "retry_route", (stated, sent, terms), self.value(terms.gmps))

    def cancel(self) -> Draft:
        """A cancellation, by the sender or another."""
        message = self.message(lambda one: one.kind < Kind.CANCELLATION)
        router = self.source(message)
        sender = "0x" + message.sender[12:].hex()
        caller = sender if self.chance(75) and sender in ACCOUNTS else self.account()
        terms = self.terms(router, caller)
        return caller, Call(router.index, "cancel", (message, terms), self.value(terms.gmps))

    def report(self) -> Draft:
        """A report of how a message ended."""
        message = self.message(lambda one: one.kind < Kind.CANCELLATION and self.end_of(one) != Execution.NONE)
        router, caller = self.destination(message), self.account()
        terms = self.terms(router, caller)
        return caller, Call(router.index, "report", (message, terms), self.value(terms.gmps))

    def deliver(self) -> Draft:
        """A GMP delivers a message: one that it was given, one that it was not, one that nobody sent, or not as it was."""
        message = self.message()
        router = self.destination(message)
        return self._delivery(router, message, self.dice.choice(GMPS))

    def _delivery(self, router: Router, message: Message, gmp: int) -> Draft:
        adapter = router.adapters.get(gmp) or adapter_address(router.index, gmp, 0)
        if self.chance(5):
            others = [adapter_address(self.dice.randrange(3), gmp, self.dice.randrange(SPARES)), self.account()]
            adapter = self.dice.choice(others)
        origin = self.dice.choice((ALPHA, BETA, 7)) if self.chance(3) else message.source_chain
        stated = message.id
        if self.chance(4):
            message = replace(message, payload=message.payload + b"?")
        return adapter, Call(router.index, "receive_message", (origin, stated, message))

    def execute(self) -> Draft:
        """Somebody executes a message, whether it may be executed or not."""
        message = self.message(lambda one: self.is_ready(one) and self.end_of(one) != Execution.EXECUTED)
        return self.account(), Call(self.destination(message).index, "execute", (message,))

    def expire(self) -> Draft:
        """Somebody expires a message, whether its time is over or not."""
        message = self.message(self.world.routers[0].has_expired)
        return self.account(), Call(self.destination(message).index, "expire", (message,))

    def withdraw(self) -> Draft:
        """Somebody asks for a credit."""
        router = self.dice.choice(self.world.routers)
        creditors = [account for account, amount in router.credits.items() if amount and account in ACCOUNTS]
        caller = self.dice.choice(creditors) if creditors and self.chance(75) else self.account()
        return caller, Call(router.index, "withdraw", (self.refundee(caller),))

    def appoint(self) -> Draft:
        """An account appoints a retrier."""
        return self.account(), Call(self.dice.randrange(3), "appoint_retrier", (self.account(),))

    def set_policy(self) -> Draft:
        """A recipient says what it demands."""
        router, quorum = self.dice.choice(self.world.routers), self.dice.choice((0, 1, 2, 2, 3))
        gmps = (
            frozenset(self.dice.sample(GMPS, self.dice.randint(quorum, min(5, quorum + 1)))) if quorum else frozenset()
        )
        if self.chance(5):
            gmps = frozenset(self.dice.sample(GMPS, 1))
        return self.account(), Call(router.index, "set_policy", (router.beyond, quorum, gmps))

    def configure(self) -> Draft:
        """The owner configures a router, or somebody tries to."""
        dice, router = self.dice, self.dice.choice(self.world.routers)
        missing = [gmp for gmp in GMPS if gmp not in router.adapters]
        gmp = dice.choice(missing) if missing and self.chance(60) else dice.choice(GMPS)
        adapter = adapter_address(router.index, gmp, dice.randrange(SPARES))
        if self.chance(5):
            adapter = adapter_address(dice.randrange(3), dice.choice(GMPS), dice.randrange(SPARES))
        if (router.chain, adapter) not in self.world.conducts:
            adapter = adapter_address(router.index, gmp, 0)
        until = self.world.now + dice.choice((0, 1, 60, 3_600, 86_400, 8 * 86_400))
        others = [other.address for other in self.world.routers if other.chain != router.chain]
        known = router.lane.peer != NOBODY
        choices: list[tuple[int, tuple[str, tuple[Any, ...]]]] = [
            (30 if missing else 3, ("add_adapter", (gmp, adapter))),
            (8, ("replace_adapter", (gmp, adapter))),
            (6, ("revoke_adapter", (gmp,))),
            (6 if known else 60, ("set_peer", (router.beyond, dice.choice(others), dice.choice((0, 1, 1, 2))))),
            (2, ("revoke_peer", (router.beyond, dice.choice([*others, STRANGER])))),
            (5, ("set_floor", (router.beyond, dice.choice((0, 1, 1, 2, 3, 17))))),
            (8, ("pause_gmp", (gmp, until))),
            (6, ("end_gmp_pause", (gmp,))),
            (5, ("pause_lane", (router.beyond, until))),
            (6, ("end_lane_pause", (router.beyond,))),
        ]
        method, arguments = self._draw(choices)
        callers = [(80, OWNER), (8, REVOKER), (8, STRANGER), (4, self.account())]
        return self._draw(callers), Call(router.index, method, arguments)

    # ---- actions

    def act(self) -> None:
        """Somebody makes a call."""
        caller, call = self._draw(self.drafts)()
        message = call.arguments[-1] if call.method in ("execute", "receive_message") else None
        is_demanding = isinstance(message, Message) and message.gas_limit == MUCH_GAS
        self.do(caller, call, LITTLE_GAS if is_demanding and self.chance(30) else GAS)

    def deliver_more(self) -> None:
        """Several GMPs deliver a message, up to its quorum and beyond."""
        message = self.message()
        router = self.destination(message)
        for gmp in self.dice.sample(GMPS, self.dice.randint(2, 4)):
            self.do(*self._delivery(router, message, gmp))

    def invent(self) -> None:
        """Nobody sends this message, but GMPs that lie can deliver it."""
        message = self.message()
        dice = self.dice
        if self.chance(60):
            invented = self._invented_about(message)
        else:
            lies: tuple[dict[str, Any], ...] = (
                {"payload": b"a lie"},
                {"quorum": 1},
                {"recipient": word(self.account())},
                {"sender": word(self.account())},
                {"nonce": message.nonce + dice.choice((1, 5))},
                {"quorum": 0},
                {"recipient": b"\x01" * 32},
                {"source_router": word(STRANGER)},
                {"source_router": word(dice.choice(self.stage.routers))},
                {"source_router": b"\x01" + message.source_router[1:]},
                {"ttl": 60},
            )
            invented = replace(message, **dice.choice(lies))
        self.world.know(invented)

    def _invented_about(self, original: Message) -> Message:
        """A cancellation or a report that no router sent, most of them with a flaw."""
        dice, is_report = self.dice, self.chance(60)
        here, there = (
            (original.source_chain, original.source_router),
            (original.destination_chain, original.destination_router),
        )
        (source, router), (chain, to) = (there, here) if is_report else (here, there)
        end = Execution(dice.randrange(0 if self.chance(20) else 1, 4)) if is_report else Execution.CANCELLED
        made = Message(
            source_chain=source,
            source_router=router,
            sender=router if is_report else original.sender,
            nonce=dice.randrange(1, 9),
            destination_chain=chain,
            destination_router=to,
            recipient=to,
            gas_limit=0,
            sent_at=self.world.now,
            ttl=0,
            kind=Kind.REPORT if is_report else Kind.CANCELLATION,
            quorum=original.quorum,
            replaces=original.id,
            payload=self.world.say(original, end),
        )
        if self.chance(50):
            flaws: tuple[dict[str, Any], ...] = (
                {"sender": word(self.account())},
                {"quorum": dice.choice((1, 2))},
                {"replaces": bytes(31) + b"\x01"},
                {"payload": b"no payload"},
                {"source_router": word(dice.choice(self.stage.routers))},
                {"kind": Kind.CANCELLATION if is_report else Kind.REPORT},
            )
            made = replace(made, **dice.choice(flaws))
        return made

    def change_conduct(self) -> None:
        """A double does otherwise from now on; many call a router when it calls them."""
        caller, call = self._draw(self.drafts)()
        chain = self.world.routers[call.router].chain
        doubles = list(self.stage.doubles(chain))
        double_ = caller if caller in doubles and self.chance(60) else self.dice.choice(doubles)
        # What a GMP has of gas is enough for a call that is refused, not for one of another router.
        speaks_to = self.world.speakers[chain, double_]
        if self.chance(30) or speaks_to not in (NOBODY, self.stage.routers[call.router]):
            double_ = self.account()
        if self.chance(20):
            self._relent()
            return
        mood = self._draw([(60, Mood.WILLING), *((10, mood) for mood in Mood if mood != Mood.WILLING)])
        fee = self.dice.choice((0, 10**9, 2 * 10**9, 4 * 10**9, MAX_FEE, MAX_FEE + 1, 2**200 if self.chance(20) else 0))
        self._conduct(chain, double_, Conduct(mood, fee, call if self.chance(40) else None))

    def _relent(self) -> None:
        """A recipient that refused a message would accept it now."""
        message = self.message(lambda one: self.is_ready(one) and self.end_of(one) == Execution.NONE)
        recipient = "0x" + message.recipient[12:].hex()
        if recipient in ACCOUNTS:
            self._conduct(message.destination_chain, recipient, Conduct())

    def _conduct(self, chain: int, double_: str, conduct: Conduct) -> None:
        self.actions += 1
        self.log.append(f"{double_} on {chain}: {conduct}")
        self.world.conducts[chain, double_] = conduct
        receipt = self.stage.chains[chain].transact(STRANGER, double_, conduct_data(conduct, self.stage.routers))
        assert receipt["status"] == "0x1"

    def let_pass(self) -> None:
        """Time passes on both chains; often up to the last second of a message, or the first after it."""
        now = self.world.now + self.dice.choice((1, 30, 60, 600, 3_600, 86_400))
        mortal = self.message()
        if self.chance(50):
            now = max(self.world.now, mortal.sent_at + mortal.ttl + self.dice.randrange(2))
        self.world.now = now
        self.log.append(f"now {now}")
        for chain in self.stage.chains.values():
            chain.let_pass(now)

    def force_ether(self) -> None:
        """Somebody forces money into a router."""
        router = self.dice.choice(self.world.routers)
        self.forced[router.index] = self.forced.get(router.index, 0) + 5
        balance = self.world.balances.get((router.chain, router.address), 0) + 5
        self.world.balances[router.chain, router.address] = balance
        self.stage.chains[router.chain].rpc("anvil_setBalance", router.address, hex(balance))
