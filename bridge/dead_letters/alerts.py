"""Alerts about dead letters.

Each channel is notified of each letter, with a severity that grows with the number of letters. Channels are
notified of tampering immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from bridge.dead_letters.channels import INTEGRITY, Channel, Notice, Severity
from bridge.dead_letters.integrity import Verified
from bridge.dead_letters.parameters import Thresholds
from bridge.evm.supervision import run_forever
from bridge.evm.ttl_cache import AsyncCached
from bridge.protocol.ports import Clock, TransientError
from bridge.records.dead_letters import LogRecord, RecordKind
from bridge.store.dead_letters import DeadLetterLog

_log = structlog.get_logger(__name__)

_HOUR: Final = 3600  # seconds
_BATCH: Final = 100  # records read at once
_REMEMBERED: Final = 60.0  # seconds for which the thresholds on chain are cached


class Alerts:
    """Reports the log's records to every channel, each with its own cursor.

    A channel that fails or does not respond is retried later and does not delay other channels. A process that
    dies between sending a notice and storing the cursor sends the notice again with the same key.
    """

    def __init__(
        self,
        log: DeadLetterLog,
        channels: Sequence[Channel],
        thresholds: Callable[[], Awaitable[Thresholds]],
        clock: Clock,
    ) -> None:
        """Creates the alerts of a log. `thresholds` reads the thresholds that governance has set."""
        self._letters = log
        self.channels = channels
        self._thresholds = AsyncCached(thresholds, lasts=_REMEMBERED, clock=clock.now)

    async def run(self, every: float) -> None:
        """Reports to every channel until cancelled, polling the log every `every` seconds."""
        async with asyncio.TaskGroup() as group:
            for channel in self.channels:
                group.create_task(run_forever(f"alert {channel.name}", partial(self.tell, channel), every=every))

    async def announce_tampering(self, verified: Verified) -> bool:
        """Reports to every channel that an account other than the relayer's changed the log.

        Never suppressed or postponed.

        Returns:
            Whether every channel accepted the report; True if there was nothing to report.
        """
        for violation in verified.violations:
            _log.critical("dead letters were tampered with", violation=str(violation))
        if not verified.violations:
            return True
        first = verified.violations[0]
        notice = Notice(
            key=f"{INTEGRITY}/{verified.head.hex()}/{first.sequence}",
            severity=Severity.CRITICAL,
            summary=f"dead letters were tampered with: {first} ({len(verified.violations)} violations)",
            details={
                "violations": [str(violation) for violation in verified.violations],
                "records": verified.records,
                "record": f"0x{verified.head.hex()}",
            },
        )
        told = True
        for channel in self.channels:
            try:
                await channel.tell(notice)
            except TransientError as error:
                told = False
                _log.critical("tampering alert not sent", channel=channel.name, error=str(error))
        return told

    async def tell(self, channel: Channel) -> bool:
        """Reports new records to a channel. Returns whether there are more.

        Raises:
            TransientError: The channel did not accept a notice.
        """
        records = await self._letters.in_thread(partial(self._untold, channel.name))
        for record in records:
            notice = await self._notice(record)
            if notice is not None:
                await channel.tell(notice)
            await self._letters.in_thread(partial(self._letters.move_cursor, channel.name, record.sequence))
        return len(records) == _BATCH

    def _untold(self, reader: str) -> list[LogRecord]:
        return self._letters.records(after=self._letters.cursor(reader), limit=_BATCH)

    async def _notice(self, record: LogRecord) -> Notice | None:
        if record.kind is RecordKind.RECOVERED:
            return None
        if record.kind is RecordKind.DECIDED:
            return _decided(record, record.document)
        hour = partial(self._letters.entered_between, record.at - _HOUR, record.at)
        in_an_hour = await self._letters.in_thread(hour)
        severity = severity_of(in_an_hour, await self._current_thresholds())
        return _entered(record, record.document, in_an_hour, severity)

    async def _current_thresholds(self) -> Thresholds:
        """Returns the thresholds on chain, or the last known ones while the chain does not respond."""
        try:
            return (await self._thresholds.look()).value
        except TransientError as error:
            _log.warning("thresholds not read from the chain", error=str(error))
            return self._thresholds.last.value if self._thresholds.last else Thresholds()


def severity_of(in_an_hour: int, thresholds: Thresholds) -> Severity:
    """Returns the severity of an alert when there were `in_an_hour` dead letters within an hour."""
    if in_an_hour >= thresholds.critical:
        return Severity.CRITICAL
    return Severity.ERROR if in_an_hour >= thresholds.alert else Severity.WARNING


def _entered(record: LogRecord, document: Any, in_an_hour: int, severity: Severity) -> Notice:
    last = document["failureHistory"][-1]
    names = (
        "eventId", "messageId", "messageType", "sourceChainId", "destinationChainId", "gmp", "reason",
        "failureHistory", "routingSlip", "headers",
    )  # fmt: skip
    again = " again" if record.kind is RecordKind.RETURNED else ""
    return Notice(
        key=f"dlq/{record.key}",
        severity=severity,
        summary=f"{document['messageType']} message {document['messageId']} is a dead letter{again}: {document['gmp']} from chain"
        f" {document['sourceChainId']} to {document['destinationChainId']}, {last['errorCode']}: {last['errorMessage']}",
        details={name: document[name] for name in names}
        | {
            "lastErrorCode": last["errorCode"],
            "lastErrorMessage": last["errorMessage"],
            "deadLettersInAnHour": in_an_hour,
            "record": f"0x{record.hash.hex()}",
        },
    )


def _decided(record: LogRecord, document: Any) -> Notice:
    return Notice(
        key=f"dlq/{record.key}",
        severity=Severity.INFO,
        summary=f"{document['decisionType']} was decided by {document['decisionMaker']} about dead letter"
        f" {record.event_id}: {document['rationale']}",
        details=dict(document),
    )
