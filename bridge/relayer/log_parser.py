"""Parses a source chain's logs into messages, attempts and dispatches. Does no I/O."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from bridge.protocol.events import (
    EventDecodingError,
    MessageRetried,
    MessageRouted,
    MessageUnfunded,
    decode_event,
    topic_of,
)
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.message import EnvelopeError, decode_envelope
from bridge.protocol.ports import Adapter, Dispatch, Log, Receipt, Watch
from bridge.records.observations import BlockRef, NumberedDispatch, ObservedAttempt

_log = structlog.get_logger(__name__)

_ROUTER_TOPICS: Final = (topic_of("MessageRouted"), topic_of("MessageUnfunded"), topic_of("MessageRetried"))


class LogFilter:
    """The contracts and topics of one router and of its GMPs."""

    def __init__(self, chain_id: int, router: str, adapters: Iterable[Adapter]) -> None:
        self.adapters: list[tuple[Adapter, Watch]] = [(adapter, adapter.watch(chain_id)) for adapter in adapters]
        self.addresses = sorted({router, *(a for _, watch in self.adapters for a in watch.addresses)})
        self.topics = sorted({*_ROUTER_TOPICS, *(t for _, watch in self.adapters for t in watch.topics)})
        text = "\n".join([*(address.lower() for address in self.addresses), *(topic.hex() for topic in self.topics)])
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]  # changes with the contracts and topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything parsed from a range of logs.

    Attributes:
        envelopes: Envelope by message id, of every message that was created, routed or dispatched.
        created: By message id, the block of the router's event that holds the whole message.
        attempts: Attempts according to the router.
        dispatches: Dispatches according to the GMPs.
        transactions: Transactions whose receipts must be checked: those of all findings, and of unreadable or
            unmatched logs. Only a receipt shows whether a node has altered them.
        unmatched: Descriptions of mismatches between router and GMPs: logs are missing, or a GMP's contract is
            not the expected one.
    """

    envelopes: dict[bytes, bytes]
    created: dict[bytes, int]
    attempts: tuple[ObservedAttempt, ...]
    dispatches: tuple[NumberedDispatch, ...]
    transactions: frozenset[bytes]
    unmatched: tuple[str, ...]

    def without(self, message_ids: Collection[bytes]) -> Findings:
        """Returns the findings without those about the given messages."""
        return replace(
            self,
            envelopes={key: value for key, value in self.envelopes.items() if key not in message_ids},
            created={key: value for key, value in self.created.items() if key not in message_ids},
            attempts=tuple(one for one in self.attempts if one.message_id not in message_ids),
            dispatches=tuple(one for one in self.dispatches if one.dispatch.message_id not in message_ids),
        )


@dataclass(frozen=True, slots=True)
class _Routing:
    """A routing event and its position."""

    event: MessageRouted | MessageUnfunded | MessageRetried
    log: Log

    @property
    def attempt(self) -> int:
        return self.event.attempt if isinstance(self.event, MessageRetried) else 0


def interpret(
    chain_id: int,
    router: str,
    logs: Sequence[Log],
    adapters: Iterable[tuple[Adapter, Watch]],
) -> Findings:
    """Parses all logs of a range that the router and the adapters watch, in order."""
    events = [event for log in logs if (event := _routing(router, log)) is not None]
    envelopes, created = dict[bytes, bytes](), dict[bytes, int]()
    for event in events:
        what = event.event
        if not isinstance(what, MessageRetried) and _is_genuine(what, chain_id):
            envelopes[what.message_id] = what.envelope
            created.setdefault(what.message_id, event.log.block_number)
    routings = [event for event in events if not isinstance(event.event, MessageUnfunded)]
    following: defaultdict[tuple[bytes, bytes], list[_Routing]] = defaultdict(list)
    for routing in routings:
        following[routing.log.transaction_hash, routing.event.message_id].append(routing)

    numbered, unmatched, found = [], [], defaultdict(set)
    transactions = {log.transaction_hash for log in logs if log.address.lower() == router.lower()}
    served = set()
    for adapter, watch in adapters:
        served.add(adapter.gmp)
        for dispatch in adapter.dispatches(chain_id, _watched(logs, watch)):
            sent_by = _next(following[dispatch.transaction_hash, dispatch.message_id], dispatch)
            if sent_by is None:
                unmatched.append(
                    f"{dispatch.gmp.label} accepted message 0x{dispatch.message_id.hex()} in transaction 0x{dispatch.transaction_hash.hex()}, "
                    "but no router sent it"
                )
                transactions.add(dispatch.transaction_hash)
                continue
            envelopes.setdefault(dispatch.message_id, dispatch.envelope)
            numbered.append(NumberedDispatch(dispatch, sent_by.attempt))
            found[dispatch.message_id, sent_by.attempt].add(dispatch.gmp)
    unmatched += _missing(routings, found, served)
    return Findings(
        envelopes=envelopes,
        created=created,
        attempts=tuple(_attempt(chain_id, routing) for routing in routings),
        dispatches=tuple(numbered),
        transactions=frozenset(transactions),
        unmatched=tuple(unmatched),
    )


def contradiction(transaction_hash: bytes, receipt: Receipt | None, logs: Iterable[Log]) -> str | None:
    """Describes how a transaction's receipt contradicts the logs attributed to it; None if it confirms them."""
    name = f"transaction 0x{transaction_hash.hex()}"
    if receipt is None:
        return f"{name} has no receipt: the node may have pruned receipts of old blocks"
    if not receipt.succeeded:
        return f"{name} failed, so it has no events"
    if not set(logs) <= set(receipt.logs):
        return f"the receipt of {name} does not contain these logs"
    return None


def _routing(router: str, log: Log) -> _Routing | None:
    if log.address.lower() != router.lower() or not log.topics or log.topics[0] not in _ROUTER_TOPICS:
        return None
    try:
        event = decode_event(log.topics, log.data)
    except EventDecodingError as error:
        _log.error("router event ignored: not decodable", router=router, block=log.block_number, reason=str(error))
        return None
    assert isinstance(event, MessageRouted | MessageUnfunded | MessageRetried)
    return _Routing(event, log)


def _is_genuine(event: MessageRouted | MessageUnfunded, chain_id: int) -> bool:
    try:
        envelope = decode_envelope(event.envelope)
    except EnvelopeError as error:
        _log.error("envelope skipped", message=f"0x{event.message_id.hex()}", reason=str(error))
        return False
    return envelope.is_genuine and envelope.stated_id == event.message_id and envelope.message.source_chain == chain_id


def _watched(logs: Sequence[Log], watch: Watch) -> list[Log]:
    addresses, topics = {address.lower() for address in watch.addresses}, set(watch.topics)
    return [log for log in logs if log.address.lower() in addresses and log.topics and log.topics[0] in topics]


def _next(routings: Sequence[_Routing], dispatch: Dispatch) -> _Routing | None:
    """Returns a dispatch's routing event, which is the next one in the same transaction with the same message id."""
    return next((routing for routing in routings if routing.log.log_index > dispatch.log_index), None)


def _missing(routings: Sequence[_Routing], found: dict[tuple[bytes, int], set[Gmp]], served: set[Gmp]) -> list[str]:
    """Describes the dispatches that the router reported but no adapter recognised."""
    return [
        f"message 0x{routing.event.message_id.hex()} went to {gmp.label} in attempt {routing.attempt}, by "
        f"transaction 0x{routing.log.transaction_hash.hex()}, but no log of that GMP was recognised there"
        for routing in routings
        for gmp in sorted(
            (gmps_from_bits(routing.event.gmps) & served)
            - found.get((routing.event.message_id, routing.attempt), set())
        )
    ]


def _attempt(chain_id: int, routing: _Routing) -> ObservedAttempt:
    event, log = routing.event, routing.log
    return ObservedAttempt(
        message_id=event.message_id,
        attempt=routing.attempt,
        retriable=event.retriable if isinstance(event, MessageRouted) else None,
        gmps=gmps_from_bits(event.gmps),
        source_chain=chain_id,
        block=BlockRef(log.block_number, log.block_hash),
        transaction_hash=log.transaction_hash,
    )
