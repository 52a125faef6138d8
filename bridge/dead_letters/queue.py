"""The dead-letter queue.

It writes letters for deliveries that used up their tries, and closes letters whose message has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from bridge.dead_letters.dead_letter import (
    action_record,
    entered_record,
    recovered_record,
    returned_record,
)
from bridge.dead_letters.settings import DeadLetterSettings
from bridge.protocol.failures import Failure
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Message
from bridge.protocol.ports import Clock, TransientError
from bridge.records.dead_letters import (
    OPEN,
    DeadLetter,
    Draft,
    LetterStatus,
    LogHead,
    Sealer,
    action_letter_id,
    action_of_letter,
)
from bridge.records.outbox import Claim, Dead, OutboxEntry, OutboxState, Outcome, TryAgain
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog

_log = structlog.get_logger(__name__)


class DeadLetterQueue:
    """Writes dead letters. No delivery is marked dead before its letter is written."""

    def __init__(
        self, log: DeadLetterLog, store: Store, sealer: Sealer, clock: Clock, settings: DeadLetterSettings | None = None
    ) -> None:
        self._letters = log
        self._store = store
        self._sealer = sealer
        self._clock = clock
        self._settings = settings or DeadLetterSettings()
        self._reviewed = 0  # cursor of `step`: first sequence of the last letter it checked

    async def mark_dead(self, entry: OutboxEntry, claim: Claim, failure: Failure, reason: str) -> Outcome:
        """Writes a delivery's letter, and returns the outcome of its claim.

        The letter is written first, and only once even if this method is called again. If the process is killed
        in between, the next one finds the delivery unfinished and calls this method again. If the letter can't
        be written, the lane halts with the delivery still pending: the relayer stops and reports it rather than
        dropping the message.
        """
        draft = entered_record(
            entry,
            self._store.outbox.failures(entry.event_id),
            failure,
            reason=reason,
            siblings=self._store.outbox.entries(entry.dispatch.message_id),
            now=self._clock.now(),
            retention=self._settings.retention,
        )
        problem = await self._write(draft)
        if problem is None:
            _log.error(
                "delivery dead",
                message=f"0x{entry.dispatch.message_id.hex()}",
                gmp=entry.dispatch.gmp.label,
                attempt=entry.attempt_number,
                entry=entry.event_id,
                reason=reason,
                code=failure.code,
                error=failure.message,
            )
            return Dead(claim, replace(failure, letter=True))
        self._halt(entry.lane, entry.event_id, claim.worker, problem, failure)
        return TryAgain(claim, failure, self._clock.now() + self._settings.PAUSE)

    async def mark_action_diverged(
        self,
        action_id: bytes,
        branch: int,
        message: Message,
        failure: Failure,
        *,
        reason: str,
        attempt: int,
        evidence: Mapping[str, Any],
    ) -> bool:
        """Writes the letter for a participant that contradicts the decision. Writes it only once, even if called again.

        Args:
            action_id: The action.
            branch: Number of the participant.
            message: Message that carries the decision to the participant.
            failure: The failure.
            reason: State of the action.
            attempt: Number of the phase's retries.
            evidence: The records of the coordinator and the participant.

        Returns:
            Whether the letter is new.
        """
        event_id = action_letter_id(action_id, branch)
        if await self._letters.in_thread(partial(self._letters.letter, event_id)) is not None:
            return False
        draft = action_record(
            action_id,
            branch,
            message,
            deliveries=self._store.outbox.entries(message.id),
            failure=failure,
            reason=reason,
            attempt=attempt,
            evidence=evidence,
            now=self._clock.now(),
            retention=self._settings.retention,
        )
        return await self._write(draft) is None

    async def close_action(self, action_id: bytes, branch: int, evidence: Mapping[str, Any]) -> None:
        """Closes the letter about an action's participant because the action has ended."""
        event_id = action_letter_id(action_id, branch)
        letter = await self._letters.in_thread(partial(self._letters.letter, event_id))
        if letter is not None and letter.status in OPEN:
            await self._letters.in_thread(partial(self._close, event_id, evidence))

    def _close(self, event_id: str, evidence: Mapping[str, Any]) -> None:
        last = self._letters.history(event_id)[-1]
        self._letters.append(recovered_record(event_id, evidence, last, self._clock.now()), self._sealer)
        _log.info("dead letter recovered", entry=event_id, **evidence)

    async def _write(self, draft: Draft) -> str | None:
        """Writes a letter within the configured number of tries.

        Returns None, or the reason why the last try failed.
        """
        problem = "it was never tried"
        for number in range(1, self._settings.tries + 1):
            try:
                await self._letters.in_thread(partial(self._append, draft))
            except Exception as error:  # noqa: BLE001  # any error that prevents the letter halts the lane
                problem = str(error) or repr(error)
                _log.warning("dead letter not written", entry=draft.event_id, number=number, error=problem)
                if number < self._settings.tries:
                    await self._clock.sleep(self._settings.PAUSE)
            else:
                return None
        return problem

    async def step(self) -> bool:
        """Closes letters whose message has arrived, and stores the log's head.

        Each call checks the next batch of open letters, starting over after the last one. Returns False, since
        the next batch can wait for the next poll.
        """
        await self._letters.in_thread(self._close_arrived)
        return False

    def _close_arrived(self) -> None:
        letters = self._letters.open_letters(after=self._reviewed, limit=self._settings.BATCH)
        self._reviewed = letters[-1].first_sequence if len(letters) == self._settings.BATCH else 0
        for letter in letters:
            evidence = self._arrival(letter)
            if evidence is not None:
                self._close(letter.event_id, evidence)
        self._note_head()

    def _note_head(self) -> None:
        """Stores the log's last record, provided that all records since the last stored head follow it.

        If the log was truncated or rewritten, nothing is stored, so that verification finds the old head missing.
        """
        noted = head = self._store.letter_head.noted()
        while records := self._letters.records(after=head.sequence, limit=self._settings.BATCH):
            for record in records:
                if record.previous != head.hash:
                    return
                head = LogHead(record.sequence, record.hash)
        if head != noted:
            self._store.letter_head.note(head)

    def _append(self, draft: Draft) -> None:
        if self._letters.append(draft, self._sealer) is not None:
            return
        letter = self._letters.letter(draft.event_id)
        if letter is None or letter.status is not LetterStatus.RETRY_QUEUED:
            return  # written before a crash, or still under review: no new letter is needed
        last = self._letters.history(draft.event_id)[-1]
        self._letters.append(returned_record(draft, last), self._sealer)

    def _halt(self, lane: Lane, event_id: str, worker: str, problem: str, failure: Failure) -> None:
        reason = f"dead letters can't be written ({problem}); put that right, then `waybill lane resume`"
        _log.critical(
            "lane halted: its dead letter can't be written",
            lane=str(lane),
            entry=event_id,
            dead_letter_error=problem,
            delivery_error=failure.message,
            message=event_id.partition("/")[0],
        )
        change = LaneChange(lane=lane, state=LaneState.HALTED, reason=reason, by=worker, at=self._clock.now())
        try:
            self._store.lanes.change(change)
        except TransientError as error:
            _log.critical("lane not halted either, delivery will be retried", lane=str(lane), error=str(error))

    def _arrival(self, letter: DeadLetter) -> dict[str, Any] | None:
        """Returns evidence of the arrival of the letter's message, once it is final.

        The message has arrived if this delivery, or another delivery over the same GMP, succeeded.
        """
        if action_of_letter(letter.event_id) is not None:
            return None  # `close_action` closes it
        for entry in self._store.outbox.entries(letter.message_id):
            same_gmp = entry.dispatch.gmp.label == letter.gmp
            if same_gmp and entry.state is OutboxState.DELIVERED and entry.confirmed_at is not None:
                return _evidence(entry)
        return None


def _evidence(entry: OutboxEntry) -> dict[str, Any]:
    assert entry.delivery is not None
    block = entry.delivery.block
    return {"by": entry.event_id, "block": block.number, "blockHash": f"0x{block.hash.hex()}"}
