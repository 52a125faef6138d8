"""Audits the messages using only the chains' logs, without relayer or index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.protocol.deployment import Deployment
from bridge.protocol.events import (
    SIGNATURES,
    DuplicateAbsorbed,
    Event,
    MessageExecuted,
    MessageReceived,
    MessageRetried,
    MessageRouted,
    decode_event,
)
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.ports import Chain, Log

_LOG_RANGE = 2_000  # blocks


@dataclass(slots=True)
class MessageFacts:
    """Counts and times of one message, from all chains' logs."""

    routed: int = 0
    retries: int = 0
    executed: int = 0
    receipts: set[Gmp] = field(default_factory=set)
    executed_after_receipts: int = 0
    routed_at: int = 0  # Unix seconds
    executed_at: int = 0  # Unix seconds


@dataclass(frozen=True, slots=True)
class Audit:
    """Totals over all messages, computed only from logs."""

    messages: int
    executed: int
    executed_twice: int
    lost: int
    retries: Mapping[bytes, int]  # number of retries by message id
    retried_and_executed: frozenset[bytes]
    late_receipts: int
    repeated_deliveries: int
    per_gmp: Mapping[str, Mapping[str, int]]
    latencies_ms: tuple[int, ...]  # ascending; between the blocks of routing and execution

    @property
    def retried(self) -> int:
        """Returns the total number of retries."""
        return sum(self.retries.values())

    @property
    def duplicates_absorbed(self) -> int:
        """Returns the number of deliveries without effect: late ones by other GMPs, and repeated ones."""
        return self.late_receipts + self.repeated_deliveries


async def audit(deployment: Deployment, chains: Mapping[int, Chain]) -> Audit:
    """Reads all logs of a network's routers and adapters."""
    facts: dict[bytes, MessageFacts] = defaultdict(MessageFacts)
    per_gmp: dict[Gmp, Counter[str]] = defaultdict(Counter)
    for event, timestamp in await _events(deployment, chains):
        _note(facts[event.message_id], per_gmp, event, timestamp)
    all_facts = facts.values()
    created = [fact for fact in all_facts if fact.routed]
    return Audit(
        messages=len(created),
        executed=sum(1 for fact in created if fact.executed),
        executed_twice=sum(1 for fact in all_facts if fact.executed > 1),
        lost=sum(1 for fact in created if not fact.executed),
        retries={message_id: fact.retries for message_id, fact in facts.items() if fact.retries},
        retried_and_executed=frozenset(
            message_id for message_id, fact in facts.items() if fact.retries and fact.executed
        ),
        late_receipts=sum(len(fact.receipts) - fact.executed_after_receipts for fact in all_facts if fact.executed),
        repeated_deliveries=sum(counts["duplicates"] for counts in per_gmp.values()),
        per_gmp={
            gmp.label: {what: counts[what] for what in ("dispatched", "received", "duplicates")}
            for gmp, counts in sorted(per_gmp.items())
        },
        latencies_ms=tuple(sorted(1000 * (fact.executed_at - fact.routed_at) for fact in created if fact.executed)),
    )


async def _events(deployment: Deployment, chains: Mapping[int, Chain]) -> list[tuple[Event, int]]:
    """Returns all events with their block's Unix time in seconds, ordered within each chain."""
    events = []
    for deployed in deployment.chains:
        chain = chains[deployed.chain_id]
        head = await chain.head()
        addresses = [deployed.router, *deployed.adapters.values()]
        times: dict[int, int] = {}
        for first in range(deployed.start_block, head.number + 1, _LOG_RANGE):
            last = min(first + _LOG_RANGE - 1, head.number)
            for log in await chain.logs(first, last, addresses, list(SIGNATURES)):
                event = decode_event(log.topics, log.data)
                if event is not None:
                    events.append((event, await _time_of(chain, log, times)))
    return events


async def _time_of(chain: Chain, log: Log, times: dict[int, int]) -> int:
    if log.block_number not in times:
        block = await chain.block(log.block_number)
        if block is None or block.hash != log.block_hash:
            raise RuntimeError(f"chain {chain.chain_id} was reorganised during the audit; run it again")
        times[log.block_number] = block.timestamp
    return times[log.block_number]


def _note(fact: MessageFacts, per_gmp: Mapping[Gmp, Counter[str]], event: Event, timestamp: int) -> None:
    match event:
        case MessageRouted():
            fact.routed += 1
            fact.routed_at = timestamp
            _count(per_gmp, event.gmps, "dispatched")
        case MessageRetried():
            fact.retries += 1
            _count(per_gmp, event.gmps, "dispatched")
        case MessageReceived():
            fact.receipts.add(Gmp(event.gmp))
            per_gmp[Gmp(event.gmp)]["received"] += 1
        case MessageExecuted():
            fact.executed += 1
            fact.executed_at = timestamp
            fact.executed_after_receipts = len(fact.receipts)
        case DuplicateAbsorbed():
            per_gmp[Gmp(event.gmp)]["duplicates"] += 1


def _count(per_gmp: Mapping[Gmp, Counter[str]], gmps: int, what: str) -> None:
    for gmp in gmps_from_bits(gmps):
        per_gmp[gmp][what] += 1
