"""Atomic actions in a storm: what befalls them, the index that insists on their messages, the operator, and what must always hold."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial

from bridge.atomic.records import (
    ActionState,
    BranchState,
    Decision,
    Level,
    Phase,
    Window,
)
from bridge.protocol.message import Message
from bridge.records.dead_letters import OPEN, action_letter_id, action_of_letter
from bridge.store.dead_letters import DeadLetterLog
from tests.support.simulation import World
from tests.support.simulation.actions import (
    OPENED,
    SUBJECTS,
    ActionRecord,
    Atomics,
    PartRecord,
    change_of,
    forged,
    from_coordinator,
)
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import GMPS, Emitted, State, deliver, pause, refuse

EVENTS = {"begin": 8, "abort": 1, "close": 2, "pause": 1, "forge": 3}
"""What happens to actions in a storm, and how often."""

LIAR = GMPS[0]
"""Delivers what no one sent. Two GMPs are needed for everything."""

_STALL_SECONDS = 30  # after which the index wants a message to be sent again
_LEVELS = (Level.ALL_OR_NOTHING, Level.ALL_OR_NOTHING, Level.ALL_OR_NOTHING, Level.GUARANTEED, Level.BEST_EFFORT)
_ABORTED = (BranchState.RELEASED, BranchState.REFUSED)


def befall(world: World, dice: random.Random, chain: SimulatedChain, event: str) -> str:
    """Does something to actions, and says what."""
    home, *others = world.chains.values()
    away = dice.choice(others)
    match event:
        case "begin":
            level, subject, window = dice.choice(_LEVELS), dice.choice(SUBJECTS), _window(dice)
            chains = [one.chain_id for one in others]
            home.submit(lambda state: _nothing(state.atomics.begin(level, subject, window, chains, state.timestamp)))
            return f"{level.name} action begins, {window}"
        case "abort":
            number = dice.random()
            home.submit(lambda state: _abort(state, number))
            return "the initiator aborts"
        case "close":
            subject, closed = dice.choice(SUBJECTS), dice.random() < 0.6
            away.submit(lambda state: _nothing(state.atomics.act_locally(subject, state.timestamp, closed=closed)))
            return f"the owner on {away.chain_id} {'closes' if closed else 'opens'} its guards"
        case "pause":
            gmp, paused = dice.choice(GMPS), dice.random() < 0.5
            chain.submit(lambda state: pause(state, gmp, paused=paused))
            return f"{gmp.label} is {'paused' if paused else 'on again'} on {chain.chain_id}"
        case "forge":
            return _forge(world, dice)
    raise AssertionError(event)


def calm_down(world: World) -> None:
    """Nobody keeps anything from its end any more."""
    for chain in world.chains.values():
        for gmp in GMPS:
            chain.submit(partial(pause, gmp=gmp, paused=False))
        chain.submit(lambda state: refuse(state, refusing=False))


def _window(dice: random.Random) -> Window:
    made = Window(
        prepare_ttl=dice.choice([60, 90]),
        decision_ttl=dice.choice([10, 60]),
        max_retries=dice.choice([1, 2, 3]),
        max_backoff=dice.choice([15, 30]),
        lock_ttl=0,
    )
    least = made.prepare_ttl + made.decision_ttl + made.max_retries * made.max_backoff
    return replace(made, lock_ttl=least + dice.choice([0, 0, 60]))


def _abort(state: State, number: float) -> list[Emitted]:
    known = list(state.atomics.actions)
    if known:
        state.atomics.abort(known[int(number * len(known))], state.timestamp)
    return []


def _forge(world: World, dice: random.Random) -> str:
    """One GMP delivers the contrary of a message that was sent."""
    sent = [one for chain in world.chains.values() for one in chain.state.atomics.messages.values()]
    if not sent:
        return "nothing to forge"
    original = dice.choice(sent)
    phase = dice.choice([Phase.PREPARE, Phase.COMMIT, Phase.ABORT])
    lie = replace(original, nonce=original.nonce + 1_000, quorum=1, ttl=0, payload=forged(original, phase))
    world.chains[lie.destination_chain].submit(lambda state: deliver(state, LIAR, lie.encode()))
    return f"{LIAR.label} forges {phase.name if from_coordinator(original) else 'a reply'}"


def _open(state: State) -> list[Emitted]:
    for subject in SUBJECTS:
        state.atomics.act_locally(subject, state.timestamp, closed=False)
    return []


def _reconcile(state: State, action_id: bytes) -> list[Emitted]:
    state.atomics.reconcile(action_id, state.timestamp)
    return []


def _nothing(_: object) -> list[Emitted]:
    return []


@dataclass
class Operator:
    """The index, which wants what stalls to be sent again, and the operator, who does as letters say."""

    world: World
    dead_letters: DeadLetterLog
    asked: dict[bytes, float] = field(default_factory=dict)

    def look(self) -> None:
        """Asks for retries of what stalls."""
        now = self.world.clock.now()
        for chain in self.world.chains.values():
            for message in chain.settled_state.atomics.messages.values():
                last = self.asked.get(message.id, message.sent_at)
                if now - last > _STALL_SECONDS and not self._has_ended(message, now):
                    self.asked[message.id] = now
                    _, attempts = chain.state.sent[message.id]
                    self.world.request_retry(message, attempts + 1)

    def _has_ended(self, message: Message, now: float) -> bool:
        expired = message.expires_at is not None and message.expires_at < now
        return expired or self.world.executions(message) > 0

    def obey(self) -> None:
        """Opens the guards, and reconciles participants that say they diverged, if there is a letter about them."""
        for chain in list(self.world.chains.values())[1:]:
            chain.submit(_open)
        for letter in self.dead_letters.dead_letters(statuses=OPEN, limit=None):
            found = action_of_letter(letter.event_id)
            if found is None:
                continue
            action_id, place = found
            one = _home(self.world).state.atomics.actions.get(action_id)
            if one is not None:
                chain = self.world.chains[one.chains[place]]
                chain.submit(partial(_reconcile, action_id=action_id))


@dataclass
class ActionWatch:
    """Looks at all chains every second, as they are then."""

    world: World
    decided: dict[bytes, Decision] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Notes what must never be."""
        for action_id, one in _home(self.world).settled_state.atomics.actions.items():
            if (
                one.decision is not Decision.NONE
                and self.decided.setdefault(action_id, one.decision) is not one.decision
            ):
                self._note(one, f"was decided {self.decided[action_id].name}, and then {one.decision.name}")
        for action_id, one in _home(self.world).state.atomics.actions.items():
            self._look_at(action_id, one)

    def _look_at(self, action_id: bytes, one: ActionRecord) -> None:
        places = [(chain_id, self.world.chains[chain_id].state) for chain_id in one.chains]
        parts = [(chain_id, state, state.atomics.parts.get(action_id)) for chain_id, state in places]
        said = {part.state for _, _, part in parts if part is not None}
        self.reached[one.state.name] = self.reached.get(one.state.name, 0) + 1
        if BranchState.DIVERGED in said:
            self.reached["participant DIVERGED"] = self.reached.get("participant DIVERGED", 0) + 1
        if BranchState.APPLIED in said and said.intersection(_ABORTED):
            self._note(one, f"is applied here and not there: {sorted(state.name for state in said)}")
        if BranchState.APPLIED in said and one.decision is not Decision.COMMIT:
            self._note(one, f"is applied, and its decision is {one.decision.name}")
        if BranchState.RELEASED in said and one.decision is not Decision.ABORT:
            self._note(one, f"is released, and its decision is {one.decision.name}")
        for chain_id, state, part in parts:
            if (
                state.atomics.values.get(one.subject, OPENED) == change_of(action_id)
                and one.decision is not Decision.COMMIT
            ):
                self._note(one, f"is {one.decision.name}, and {chain_id} has its value")
            if part is not None:
                self._look_at_lock(one, action_id, state, part)

    def _look_at_lock(self, one: ActionRecord, action_id: bytes, state: State, part: PartRecord) -> None:
        held = state.atomics.locks.get(one.subject)
        is_own = held is not None and held.action_id == action_id and held.until > state.timestamp
        if held is not None and held.until > held.taken_at + max(one.window.lock_ttl, part.lock_ttl) and is_own:
            self._note(one, "has a lock that outlives its time")
        if is_own and part.state is not BranchState.PREPARED:
            self._note(one, f"is {part.state.name} at a participant that still holds its lock")
        window = one.window
        in_time = one.begun_at + window.prepare_ttl + window.decision_ttl
        if one.decision is Decision.COMMIT:
            in_time = one.decided_at + window.max_retries * window.max_backoff
        if part.state is BranchState.PREPARED and state.timestamp <= in_time and not is_own:
            self._note(one, "has lost a lock within its window")

    def _note(self, one: ActionRecord, text: str) -> None:
        complaint = f"action {one.number} {text}"
        if complaint not in self.complaints:
            self.complaints.append(complaint)


def ends(world: World, dead_letters: DeadLetterLog) -> list[str]:
    """What is not over in the end: every action has come to its end, and every participant bears it out."""
    found = []
    for action_id, one in _home(world).state.atomics.actions.items():
        name = f"action {one.number}, {one.level.name}"
        if not one.state.is_over:
            found.append(f"{name}, is {one.state.name}: {[branch.state.name for branch in one.branches]}")
            continue
        for place, chain_id in enumerate(one.chains):
            part = world.chains[chain_id].state.atomics.parts.get(action_id)
            state = BranchState.NONE if part is None else part.state
            applied = one.state is ActionState.COMMITTED
            if one.level is not Level.BEST_EFFORT and applied != (state is BranchState.APPLIED):
                found.append(f"{name}, is {one.state.name}, and {chain_id} says {state.name}")
            letter = dead_letters.letter(action_letter_id(action_id, place))
            if letter is not None and letter.status in OPEN:
                found.append(f"{name}, is over, and its letter about {chain_id} is {letter.status}")
        found += _left_over(world, one, action_id, name)
    return found


def _left_over(world: World, one: ActionRecord, action_id: bytes, name: str) -> list[str]:
    """After an abort no lock and no value is left; after its end nothing is diverged."""
    found = []
    for chain_id in one.chains:
        state = world.chains[chain_id].state
        held = _held(state.atomics, one.subject, state.timestamp)
        if held == action_id:
            found.append(f"{name}, is over, and holds its lock on {chain_id}")
        if one.state is ActionState.ABORTED and state.atomics.values.get(one.subject, OPENED) == change_of(action_id):
            found.append(f"{name}, is aborted, and {chain_id} has its value")
        if state.atomics.diverged.get(one.subject) == action_id:
            found.append(f"{name}, is over, and diverged on {chain_id}")
    return found


def _held(atomics: Atomics, subject: bytes, now: int) -> bytes | None:
    held = atomics.lock(subject, now)
    return None if held is None else held.action_id


def _home(world: World) -> SimulatedChain:
    return next(iter(world.chains.values()))
