"""What the follower of atomic actions pays for: a phase's message again only where that may change something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bridge.atomic.follower import Actions, ActionSettings
from bridge.atomic.reader import ActionReader, Coordinator
from bridge.atomic.records import Action, ActionState, Branch, BranchState, Decision
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, UnansweredError
from bridge.relayer.retries import Retried
from tests.support.actions import WINDOW, action, branch, participation
from tests.support.stores import memory_store
from tests.unit.web.explorer import deployment
from tests.waiting import PATIENCE

LATE = 1_700_000_061.0  # a second after the first try was over
SENT = branch(0, 2, BranchState.NONE)
HERE, AWAY = Coordinator(1, "0x" + "c0" * 20), Coordinator(2, "0x" + "c0" * 20)


class Clock:
    """Stands still until a read takes its time."""

    def __init__(self, at: float = LATE) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing waits here, and was to for {seconds} s")


class ReadFromChains(ActionReader):
    """One action that waits for votes. Its participant's record is known once it was asked for, as on chains.

    If it has another participant, that one's chain never answers.
    """

    def __init__(self, asked: Branch, silent: Sequence[Branch], clock: Clock, takes: float) -> None:
        super().__init__(deployment(), {}, [AWAY, HERE])
        self._asked, self._clock, self._takes = asked, clock, takes
        self._unread = action(SENT, *silent, state=ActionState.PREPARING, decision=Decision.NONE)

    async def count(self, coordinator: Coordinator) -> int:
        if coordinator == AWAY:
            raise UnansweredError("beta is down")
        return 1

    async def at(self, coordinator: Coordinator, number: int) -> Action | None:
        return self._unread

    async def with_participants(self, action: Action, patience: float = 1.0) -> Action:
        if action.branches != (SENT,):
            await asyncio.Event().wait()
        self._clock.at += self._takes
        return replace(action, branches=(self._asked,))


async def retries_of(asked: Branch) -> list[bytes]:
    """The messages that are sent again in one look at the action."""
    followed, sent_again = follower(asked)
    await followed.look(HERE)
    await followed.settled()
    return sent_again


def follower(asked: Branch, *silent: Branch, at: float = LATE, takes: float = 0) -> tuple[Actions, list[bytes]]:
    """Who follows the action, and the messages that it sends again.

    Args:
        at: when it is first looked at, in Unix seconds.
        takes: seconds until a participant's chain answers.
    """
    sent_again: list[bytes] = []

    async def retry(message_id: bytes) -> Retried:
        sent_again.append(message_id)
        gmps = frozenset({Gmp.HYPERLANE})
        return Retried(message_id=message_id, attempt=1, gmps=gmps, transaction_hash=bytes(32))

    async def next_look(_chain: int) -> None:
        return

    async def report_call(_message: Message) -> Call:
        raise AssertionError("there is nothing to report")

    store, clock = memory_store(), Clock(at)
    unused: Any = None
    queue: DeadLetterQueue = unused
    followed = Actions(
        ReadFromChains(asked, silent, clock, takes),
        deployment=deployment(),
        chains={},
        observations=store.observations,
        senders={},
        next_look=next_look,
        retry=retry,
        report_call=report_call,
        dead_letters=queue,
        clock=clock,
        settings=ActionSettings(advance=True),
        poll_interval=5,
    )
    return followed, sent_again


@pytest.mark.parametrize("says", [BranchState.PREPARED, BranchState.REFUSED])
async def test_arrived_phase_is_not_paid_for_again(says: BranchState) -> None:
    assert await retries_of(replace(SENT, participation=participation(says))) == []


@pytest.mark.parametrize(
    "asked",
    [
        replace(SENT, participation=participation(BranchState.NONE)),
        replace(SENT, problem="gamma does not answer within 5 s"),
    ],
)
async def test_missing_phase_is_sent_again_once(asked: Branch) -> None:
    assert await retries_of(asked) == [SENT.prepare_id]


async def test_slow_answer_does_not_make_a_record_late() -> None:
    """It may say that nothing has arrived, and the message arrive while the answer travels."""
    followed, sent_again = follower(replace(SENT, participation=participation(BranchState.NONE)), at=LATE - 2, takes=5)
    await followed.look(HERE)
    await followed.settled()
    assert sent_again == []
    await followed.look(HERE)
    await followed.settled()
    assert sent_again == [SENT.prepare_id]


async def test_phase_that_came_due_while_a_chain_was_silent_is_retried() -> None:
    """Asking a chain that is down a second time would delay the retry by another timeout."""
    followed, sent_again = follower(replace(SENT, problem="gamma does not answer within 5 s"), at=LATE - 2, takes=5)
    await followed.look(HERE)
    await followed.settled()
    assert sent_again == [SENT.prepare_id]


async def test_a_phase_whose_retries_are_used_up_is_not_sent_again() -> None:
    asked = replace(SENT, participation=participation(BranchState.NONE))
    assert await retries_of(replace(asked, retries=WINDOW.max_retries - 1)) == [SENT.prepare_id]
    assert await retries_of(replace(asked, retries=WINDOW.max_retries)) == []


async def test_a_coordinator_whose_chain_is_down_holds_up_no_other() -> None:
    await is_sent_again(*follower(replace(SENT, participation=participation(BranchState.NONE))))


async def test_a_participant_whose_chain_is_down_holds_up_no_other() -> None:
    silent = branch(1, 3, BranchState.NONE)
    await is_sent_again(*follower(replace(SENT, participation=participation(BranchState.NONE)), silent))


async def is_sent_again(followed: Actions, sent_again: list[bytes]) -> None:
    running = asyncio.create_task(followed.run())
    async with asyncio.timeout(PATIENCE):
        while not sent_again:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sent_again == [SENT.prepare_id]
