"""The SQL of the tables. Spark and the store share it, so there is one definition of a message's lifecycle."""

from __future__ import annotations

from enum import IntFlag
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final

_GMPS: Final = range(1, 17)


class Conflict(IntFlag):
    """Contradictions among a message's own events, which no later event can resolve.

    The column `conflicts` is a set of these.
    """

    ENDED_TWICE = 1 << 0
    EXECUTED_ELSEWHERE = 1 << 1
    RECEIPTS_MISCOUNTED = 1 << 2
    EXECUTED_WITHOUT_QUORUM = 1 << 3
    REPORTED_TWICE = 1 << 4
    EXPIRED_TOO_EARLY = 1 << 5
    CANCELLED_WITHOUT_REQUEST = 1 << 6
    QUORUM_LOWERED = 1 << 7
    REFUSED_WITHOUT_QUORUM = 1 << 8


COLUMNS: Final[dict[str, str]] = {
    "dispatched_bits": " + ".join(
        f"coalesce(max(case when stage in ('routed', 'retried') then gmps & {1 << (gmp - 1)} end), 0)" for gmp in _GMPS
    ),
    "received_bits": " + ".join(
        f"max(case when stage = 'received' and gmp = {gmp} then {1 << (gmp - 1)} else 0 end)" for gmp in _GMPS
    ),
    # The possible sources of a message's own events on its destination.
    "destination_stages": "'received', 'executed', 'failed', 'expired', 'cancelled', 'late'",
    # The number of GMPs with a receipt.
    "received_count": "("
    + " + ".join(f"case when (received & {1 << (gmp - 1)}) <> 0 then 1 else 0 end" for gmp in _GMPS)
    + ")",
    # Each retry gets twice the time of the attempt before it, up to eight times the first.
    "patience": "case when m.attempts >= 3 then 8 when m.attempts = 2 then 4 when m.attempts = 1 then 2 else 1 end",
    # On a chain that is not indexed, only the report tells how a message ended.
    "succeeded": (
        "case when m.status = 'EXECUTED' or (m.status in ('ROUTED', 'UNFUNDED') and m.outcome = 1) then 1 else 0 end"
    ),
    "failed": (
        "case when m.status in ('EXPIRED', 'CANCELLED') or (m.status in ('ROUTED', 'UNFUNDED') and m.outcome in (2, 3))"
        " then 1 else 0 end"
    ),
    "created_day": "date '1970-01-01' + cast(floor(m.source_time / 86400) as int)",
    "gmps": " union all ".join(f"select {gmp} as number, {1 << (gmp - 1)} as bit" for gmp in _GMPS),
    **{str(conflict.name): str(conflict.value) for conflict in Conflict},
}
"""Sets of GMPs are bits, which are put together by what every engine has."""

CONFLICTS: Final[dict[Conflict, tuple[str, str]]] = {
    Conflict.ENDED_TWICE: ("ENDED_TWICE", "it ended in more than one way: executed, expired or cancelled"),
    Conflict.EXECUTED_ELSEWHERE: (
        "EXECUTED_ELSEWHERE",
        "its execution names another chain, source or recipient than its envelope",
    ),
    Conflict.RECEIPTS_MISCOUNTED: ("RECEIPTS_MISCOUNTED", "the router counts more receipts than it has emitted"),
    Conflict.REPORTED_TWICE: (
        "REPORTED_TWICE",
        "its reports differ, and the router did not say so; or it is retriable, and the router repeated its outcome",
    ),
    Conflict.EXPIRED_TOO_EARLY: ("EXPIRED_TOO_EARLY", "expired before its time, or though it has no end"),
    Conflict.CANCELLED_WITHOUT_REQUEST: (
        "CANCELLED_WITHOUT_REQUEST",
        "cancelled by a different message than the one with which its sender requested it",
    ),
    Conflict.QUORUM_LOWERED: (
        "QUORUM_LOWERED",
        "with a receipt the router named a smaller quorum than its sender asked for",
    ),
    Conflict.REFUSED_WITHOUT_QUORUM: (
        "REFUSED_WITHOUT_QUORUM",
        "its recipient was called, and refused, before a receipt had reached the quorum",
    ),
}
"""The divergence kind and evidence of each conflict. A rule reports `EXECUTED_WITHOUT_QUORUM` in more detail."""

FOR_SPARK: Final = {
    "dispatched_bits": "coalesce(bit_or(case when stage in ('routed', 'retried') then gmps end), 0)",
    "received_bits": "coalesce(bit_or(case when stage = 'received' then shiftleft(1, gmp - 1) end), 0)",
    "received_count": "bit_count(received)",
}
"""The same for Spark, whose `bit_or` and `bit_count` each replace 16 expressions."""


ABOUT_ROUTERS: Final = (
    "message_id is null and error is null and event in "
    "('AdapterAdded', 'AdapterReplaced', 'AdapterRevoked', 'GmpPauseSet', 'LanePauseSet', 'PolicySet', "
    "'FloorSet')"
)
"""Router events about GMPs, recipients and lanes."""


@cache
def _template(name: str) -> Template:
    return Template((files("indexer.pipeline") / "sql" / f"{name}.sql").read_text())


def query(name: str, **tables: str) -> str:
    """Returns the text of a query.

    Args:
        name: name of a file in `pipeline/sql`.
        tables: SQL that replaces each placeholder: the tables that the query reads; `text`, the engine's string
            type; and `FOR_SPARK` for Spark.
    """
    return _template(name).substitute(COLUMNS | tables)
