"""Verifies the dead-letter log.

Checks that no record was changed or is missing, and that a trusted account signed each one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bridge.dead_letters.decisions import CONFIRMED_AT, confirms
from bridge.dead_letters.signing import decision_signer, record_signer
from bridge.protocol.ports import Chain, TransientError
from bridge.records.dead_letters import (
    NO_RECORD,
    BrokenLogError,
    DeadLetter,
    ForbiddenDecisionError,
    LogHead,
    LogRecord,
    RecordKind,
)
from bridge.store.dead_letters import DeadLetterLog

NOTHING_DENIED: Final = frozenset[int]()
BEGINNING: Final = LogHead()

_BATCH = 500  # records read at once


@dataclass(frozen=True, slots=True)
class Violation:
    """Evidence that someone other than Waybill changed the log."""

    sequence: int  # of the record, 0: of the log as a whole
    event_id: str
    problem: str

    def __str__(self) -> str:
        where = f"record {self.sequence} ({self.event_id})" if self.sequence else "the log"
        return f"{where}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a verification."""

    records: int
    head: bytes  # hash of the last record; stored elsewhere, it reveals a truncated or rewritten log
    violations: tuple[Violation, ...]


def verify(
    log: DeadLetterLog,
    *,
    trusted: frozenset[str],
    denied: frozenset[int] = NOTHING_DENIED,
    since: LogHead = BEGINNING,
    heads: Iterable[bytes] = (),
    marked_dead: Iterable[str] = (),
    until: int | None = None,
) -> Verified:
    """Verifies the records after the last verified one.

    If no record was verified before, also verifies the table of letters.

    Args:
        log: The log.
        trusted: Accounts whose signatures count.
        denied: See `denied_decisions`.
        since: The last verified record, which must still be in the log.
        heads: Hashes of earlier heads, which must all be among the records.
        marked_dead: Event ids of deliveries that must have a letter.
        until: Sequence of the last record to check; None means all. Must be read before `trusted` and `denied`.
    """
    accounts = frozenset(account.lower() for account in trusted)
    found: list[Violation] = []
    letters: dict[str, DeadLetter] = {}
    number, previous, missing = since.sequence, since.hash, dict.fromkeys(heads)
    missing.pop(NO_RECORD, None)
    try:
        if since != BEGINNING and [one.hash for one in log.records(after=since.sequence - 1, limit=1)] != [since.hash]:
            gone = f"record {since.sequence} is not the one that was verified: the log was cut off or written again"
            found.append(Violation(0, "", gone))
        for record in _all(log, since.sequence, until=until):
            number += 1
            found += (
                Violation(number, record.event_id, text)
                for text in _problems(record, number, previous, accounts, denied)
            )
            if since == BEGINNING:
                found += _followed(letters, record)
            previous = record.hash
            missing.pop(previous, None)
    except BrokenLogError as error:
        found.append(Violation(number + 1, "", str(error)))
    found += (
        Violation(0, "", f"no record has the hash 0x{head.hex()} that was noted: the log was cut off or written again")
        for head in missing
    )
    found += (
        Violation(0, event_id, f"delivery {event_id} is dead and has no letter")
        for event_id in marked_dead
        if event_id not in letters and log.letter(event_id) is None
    )
    found += _index_problems(log, letters, number)
    return Verified(records=number, head=previous, violations=tuple(found))


async def denied_decisions(log: DeadLetterLog, chains: Mapping[int, Chain], *, after: int = 0) -> frozenset[int]:
    """Returns the sequences of decisions whose operator, a contract, denies its signature at the recorded block.

    If the chain does not respond, or has pruned that block's state, the decision does not count as denied,
    since the relayer's signature attests that it was confirmed at the time.

    Args:
        log: The log.
        chains: Chains by id.
        after: Sequence after which to check.
    """

    def confirmed() -> list[LogRecord]:
        records = _all(log, after, until=None)
        return [one for one in records if one.kind is RecordKind.DECIDED and CONFIRMED_AT in one.document]

    denied = set[int]()
    for record in await asyncio.to_thread(confirmed):
        try:
            chain, block = chains[record.document["chainId"]], record.document[CONFIRMED_AT]["block"]
            if not await confirms(chain, record.document, block):
                denied.add(record.sequence)
        except TransientError:
            continue
        except (KeyError, TypeError, ValueError):
            denied.add(record.sequence)
    return frozenset(denied)


def _all(log: DeadLetterLog, after: int, *, until: int | None) -> Iterator[LogRecord]:
    last = after
    while batch := log.records(after=last, limit=_BATCH):
        for record in batch:
            if until is not None and record.sequence > until:
                return
            yield record
        last = batch[-1].sequence


def _problems(
    record: LogRecord, number: int, previous: bytes, trusted: frozenset[str], denied: frozenset[int]
) -> Iterator[str]:
    if record.sequence != number:
        yield f"stands in place {number}: a record before it is missing"
    if record.previous != previous:
        yield "does not follow the record before it: one of the two was changed"
    if not record.is_whole:
        yield "its document is not the one that was hashed"
    signer = record_signer(record)
    if signer is None or signer.lower() != record.signer.lower():
        yield f"its signature is not that of {record.signer}: the record was changed"
    elif signer.lower() not in trusted:
        yield f"is signed by {signer}, who is not trusted; name the account in dlq.trusted_signers if it should be"
    if record.kind is RecordKind.DECIDED:
        account = str(record.document.get("decisionAccount", ""))
        if record.sequence in denied:
            yield f"its decision is not signed by {account}, as that contract says at the block it names"
        elif (
            CONFIRMED_AT not in record.document and (decision_signer(record.document) or "").lower() != account.lower()
        ):
            yield f"its decision is not signed by {account}"


def _followed(dead_letters: dict[str, DeadLetter], record: LogRecord) -> Iterator[Violation]:
    """Applies a record to the letters, and yields the violations found."""
    before = dead_letters.get(record.event_id)
    if before is None and record.kind is not RecordKind.ENTERED:
        return  # its first record is missing, as the chain of hashes shows
    try:
        dead_letters[record.event_id] = DeadLetter.entered(record) if before is None else before.after(record)
    except (ForbiddenDecisionError, KeyError, ValueError) as error:
        yield Violation(record.sequence, record.event_id, f"can't have happened: {error}")


def _index_problems(log: DeadLetterLog, dead_letters: dict[str, DeadLetter], last: int) -> Iterator[Violation]:
    for event_id, letter in dead_letters.items():
        indexed = log.letter(event_id)
        if indexed is not None and indexed.last_sequence > last:
            continue  # changed by a record that is not yet verified
        if indexed != letter:
            shown = "is missing" if indexed is None else f"says {indexed.status}"
            yield Violation(
                letter.last_sequence, event_id, f"the list of letters {shown}, the log says {letter.status}"
            )
