"""Retry requests, the index's only output to the relayer (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from sqlalchemy import Connection, Engine, RowMapping, func, insert, select, text

from bridge.protocol.gmps import gmps_from_bits
from bridge.protocol.message import Kind
from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.effective_status import counts, effective_status

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 500  # requests written in one transaction

_WITHOUT_END: Final = 2**31 - 1  # more attempts than any message has

_RETRIES: Final = (
    f"case o.kind {' '.join(f'when {kind:d} then :retries_{kind:d}' for kind in Kind)} else :max_message_retries end"
)


# No request is written while one is open whose cause is still the message's last attempt. A message may be overdue again
# at the same attempt after its request was answered, if a reorg removed the answer.
def overdue(messages: str = "messages") -> str:
    """Returns SQL for messages that need a retry request.

    Takes the parameters of `effective_status`, and the maximum number of retries.

    Args:
        messages: the table, or a selection of its rows in parentheses.
    """
    return f"""
    select o.*
    from ({effective_status(messages)}) o
    where o.status in ('ROUTED', 'RECEIVED', 'EXECUTION_FAILED', 'EXECUTION_DEFERRED') and o.effective_status = 'STALLED'
      and o.retriable and o.attempts < {_RETRIES}
      and not exists (
        select 1 from retry_requests r
        where r.message_id = o.message_id and r.attempt = o.attempts + 1
          and r.cause_block = o.attempted_block and r.cause_hash = o.attempted_hash
          and r.sequence not in (select sequence from retry_closures)
      )
"""


_ANY_OVERDUE: Final = text(f"select 1 from ({overdue()}) o limit 1")

_CHOSEN: Final = "(select w.* from chosen k join messages w on w.message_id = k.message_id)"


def _by_lane(messages: str = "messages") -> str:
    """Returns SQL that alternates between lanes, each with its own limit, so that no lane waits for another.

    The first message of each lane is included even above the limit, for the warning.
    """
    return f"""
    with waiting as (
      select o.message_id, o.deadline, coalesce(l.lately, 0) as lately,
        row_number() over (partition by o.source_chain, o.destination_chain order by o.deadline, o.message_id) as turn,
        count(*) over (partition by o.source_chain, o.destination_chain) as lane_overdue
      from ({overdue(messages)}) o
      left join (
        select source_chain, destination_chain, count(*) as lately from retry_requests
        where requested_at > :minute_ago group by source_chain, destination_chain
      ) l on l.source_chain = o.source_chain and l.destination_chain = o.destination_chain
    ),
    chosen as materialized (
      select * from waiting where turn = 1 or turn <= :ceiling - lately order by turn, deadline, message_id limit :at_once
    )
    select o.*, c.lately, c.turn, c.lane_overdue
    from ({effective_status(_CHOSEN)}) o join chosen c on c.message_id = o.message_id
    order by c.turn, c.deadline, c.message_id
    """


_BY_LANE: Final = text(_by_lane())

_VOIDED: Final = text(f"select voided from ({counts('(select * from messages where message_id = :id)')}) c")


def request_retries(engine: Engine, policy: StallPolicy, now: float) -> int:
    """Writes a request for every message that is overdue, retriable, and has no open request.

    Args:
        engine: writing engine of the store.
        policy: deadlines, and the limit on requests per lane and minute.
        now: current time in Unix seconds.

    Returns:
        Number of requests written.
    """
    arguments = arguments_of(policy, now)
    of_lanes = {"minute_ago": now - 60, "ceiling": policy.requests_per_lane_minute, "at_once": _AT_ONCE}
    with engine.connect() as connection:
        if connection.execute(_ANY_OVERDUE, arguments).first() is None:
            return 0
    with engine.begin() as connection:
        return _write(connection, connection.execute(_BY_LANE, arguments | of_lanes).mappings().all(), policy, now)


def arguments_of(policy: StallPolicy, now: float) -> dict[str, object]:
    """Returns the parameters of `overdue`.

    Args:
        policy: stall policy, which defines when a message is overdue.
        now: current time in Unix seconds.
    """
    return {
        "stall_after": policy.stall_after,
        "max_lag": policy.max_lag,
        "max_message_retries": policy.max_message_retries,
        "now": int(now),
        **{f"retries_{kind:d}": _most(policy.retries_of(kind)) for kind in Kind},
    }


def _most(retries: int | None) -> int:
    return _WITHOUT_END if retries is None else retries


def _write(connection: Connection, waiting: Sequence[RowMapping], policy: StallPolicy, now: float) -> int:
    requests = tables.retry_requests
    sequence = _next_sequence(connection, now)
    written = 0
    for message in waiting:
        left = policy.requests_per_lane_minute - message["lately"]
        if message["turn"] == 1 and message["lane_overdue"] > left:
            lane = message["source_chain"], message["destination_chain"]
            log.warning(
                "retry requests of a lane limited",
                lane=lane,
                waiting=message["lane_overdue"] - max(0, left),
            )
        if left <= 0:
            continue
        connection.execute(insert(requests).values(sequence=sequence, **_request(connection, message, now)))
        log.info("retry requested", message=f"0x{message['message_id'].hex()}", attempt=message["attempts"] + 1)
        sequence += 1
        written += 1
    return written


def _next_sequence(connection: Connection, now: float) -> int:
    """Returns a sequence number above all that were ever used, even by a newer copy of this store.

    It is at least the time in milliseconds. Readers remember the highest sequence number they have seen, and never look below it.
    """
    highest = connection.scalar(select(func.max(tables.retry_requests.c.sequence)))
    if highest is None:
        highest = connection.scalar(select(tables.facts.c.value).where(tables.facts.c.name == "first_sequence"))
    assert highest is not None
    return max(int(highest) + 1, int(now * 1000))


def _request(connection: Connection, message: RowMapping, now: float) -> dict[str, object]:
    attempt = message["attempts"] + 1
    request = tables.retry_requests.c
    generation = connection.scalar(
        select(func.max(request.generation)).where(
            request.message_id == message["message_id"], request.attempt == attempt
        )
    )
    received = _standing(connection, message)
    missing = message["dispatched"] & ~received
    silent = ", ".join(gmp.title for gmp in sorted(gmps_from_bits(missing))) or "none"
    last = f"retry {message['attempts']}" if message["attempts"] else "the route"
    return {
        "message_id": message["message_id"],
        "attempt": attempt,
        "generation": 0 if generation is None else generation + 1,
        "source_chain": message["source_chain"],
        "destination_chain": message["destination_chain"],
        "missing_gmps": missing,
        "received_gmps": received,
        "reason": (
            f"{message['counted']} of {message['needed']} receipts "
            f"{message['deadline'] - message['attempted_time']} s after {last}; silent: {silent}"
        ),
        "cause_block": message["attempted_block"],
        "cause_hash": message["attempted_hash"],
        "requested_at": now,
    }


def _standing(connection: Connection, message: RowMapping) -> int:
    """Returns the set of GMPs that delivered a message and whose receipts were not voided."""
    voided = connection.scalar(_VOIDED, {"id": message["message_id"]}) or 0
    return int(message["received"] & ~voided)
