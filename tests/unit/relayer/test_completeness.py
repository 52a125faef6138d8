"""What a node leaves out of its answers is noticed by the router's own count, and found when the chain is read again."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from bridge.protocol.events import MessageUnfunded
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Log, UnansweredError
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import Emitted, State, create_message, event_log
from tests.support.simulation.world import DAPP
from tests.unit.relayer.test_observer import ALPHA, BETA, CONFIRMATIONS, Observed
from tests.virtual_time import in_virtual_time

MINUTE = 60.0


class Forgetful:
    """A chain whose node leaves out all logs for a number of answers, and may have no old state."""

    def __init__(self, chain: SimulatedChain, answers: int, *, has_state: bool = True) -> None:
        self._chain = chain
        self.answers = answers
        self.reads = 0
        self.reads_from_the_start = 0
        self._has_state = has_state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    async def logs(self, first: int, last: int, addresses: list[str], topics: list[bytes]) -> list[Log]:
        self.reads += 1
        self.reads_from_the_start += first <= 1
        if self.reads <= self.answers:
            return []
        return await self._chain.logs(first, last, addresses, topics)

    async def call(self, call: Call, **named: Any) -> bytes:
        if not self._has_state:
            raise UnansweredError("missing trie node")
        return await self._chain.call(call, **named)


async def later(case: Observed, seconds: float) -> None:
    await case.world.clock.sleep(seconds)
    await case.catch_up()


@in_virtual_time
async def test_omitted_logs_are_found_within_a_minute() -> None:
    case = Observed(block_range=3)
    chain = Forgetful(case.chain, answers=4)
    case.observer = case.another(chain=chain, block_range=3)
    for _ in range(4):
        case.world.send(ALPHA, BETA)
        case.chain.mine(2)
    case.chain.mine(CONFIRMATIONS)
    await case.catch_up()
    await later(case, MINUTE)
    assert len(case.pending) == 4
    assert case.position == case.chain.height - CONFIRMATIONS


@in_virtual_time
async def test_replaced_message_does_not_hide_a_missing_one() -> None:
    case = Observed()
    first = case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    chain = Forgetful(case.chain, answers=2)
    case.observer = case.another(chain=chain)
    await case.world.clock.sleep(5)  # so that the message is another one when its transaction comes again
    case.chain.reorganise(1 + CONFIRMATIONS)
    await case.catch_up()
    await later(case, 2 * MINUTE)
    assert len(first.created) == 2
    assert [one.split("/")[0] for one in case.pending] == [f"0x{first.message.id.hex()}"]


@in_virtual_time
async def test_a_message_that_nobody_has_paid_for_yet_is_not_missing() -> None:
    case = Observed()
    chain = Forgetful(case.chain, answers=0)
    case.observer = case.another(chain=chain)

    def create_without_fee(state: State) -> list[Emitted]:
        message = create_message(state, DAPP.address, BETA, quorum=1, payload=b"", kind=Kind.PLAIN)
        event = MessageUnfunded(
            message_id=message.id, destination_chain=BETA, retriable=False, gmps=2, envelope=message.encode()
        )
        return [event_log(event)]

    case.chain.submit(create_without_fee)
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    await later(case, MINUTE)
    assert case.store.observations.created_on(ALPHA, BETA) == 1
    assert (chain.reads_from_the_start, case.pending) == (1, [])


@in_virtual_time
async def test_pruned_or_lossy_node_stops_nothing() -> None:
    for has_state in (False, True):
        case = Observed()
        chain = Forgetful(case.chain, answers=10**6, has_state=has_state)
        case.observer = case.another(chain=chain)
        case.world.send(ALPHA, BETA)
        case.chain.mine(1 + CONFIRMATIONS)
        with capture_logs() as logs:
            for _ in range(60):
                await later(case, MINUTE)
        unverified = [log for log in logs if log["event"].startswith("lane completeness unverified")]
        assert len(unverified) == (0 if has_state else 1), "said once, not at each look"
        assert case.position == case.chain.height - CONFIRMATIONS
        assert chain.reads_from_the_start == (7 if has_state else 1), "it looks again ever more rarely"


class Shared(Forgetful):
    """Another worker moves the common cursor while blocks are read again for the first time."""

    def __init__(self, case: Observed) -> None:
        super().__init__(case.chain, answers=1)
        self._case = case
        self._other = case.another()

    async def logs(self, first: int, last: int, addresses: list[str], topics: list[bytes]) -> list[Log]:
        logs = await super().logs(first, last, addresses, topics)
        if first <= 1 and self.reads_from_the_start == 2:
            self._case.chain.mine()
            await self._other.step()
        return logs


@in_virtual_time
async def test_a_range_is_read_again_until_it_is_recorded() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    chain = Shared(case)
    case.observer = case.another(chain=chain)
    await case.catch_up()
    assert case.pending == []
    await later(case, MINUTE)
    await case.catch_up()
    assert len(case.pending) == 1
    assert chain.reads_from_the_start == 3, "once for the cursor, and twice because another worker was faster"
