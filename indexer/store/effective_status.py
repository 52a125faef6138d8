"""The effective status of messages, computed by `pipeline/sql/effective_status.sql` on the store's tables."""

from __future__ import annotations

from typing import Final

from indexer.pipeline.queries import ABOUT_ROUTERS, query

ROUTER_EVENTS: Final = f"""(
      select chain_id, block_number, log_index, event, gmp, chain, recipient, quorum, gmps, until from events
      where {ABOUT_ROUTERS}
        and (event <> 'PolicySet' or exists (select 1 from messages sent where sent.recipient = events.recipient))
    )"""
"""Router events about GMPs, recipients and lanes. Anybody may set a policy, so only recipients of messages count."""

PERIODS: Final = query("periods", about_routers=ROUTER_EVENTS)
"""Rules of routers, and the end of each."""


_LANE_PAUSED: Final = """coalesce((
      select cast(sum(
        case when p.ends < d.block_time then p.ends else d.block_time end
        - case when p.begins > m.attempted_time then p.begins else m.attempted_time end
      ) as bigint)
      from pauses p
      where p.chain_id = m.destination_chain and p.other_chain = m.source_chain
        and p.ends > m.attempted_time and p.begins < d.block_time
    ), 0)"""
"""Seconds from the last attempt of a message `m` to the destination's last block during which its lane was paused."""


def counts(messages: str) -> str:
    """Returns SQL for the receipts as routers count them, by `message_id`.

    The columns `counted` and `needed` are numbers, and `voided` is a set of GMPs.

    Args:
        messages: a selection of the table's rows in parentheses.
    """
    return query("counts", messages=messages, receipts="receipts", chains="chains", periods=PERIODS)


def _of_counts(column: str) -> str:
    """Returns SQL for a column of `counts` for the message `m`. It is null if the message needs no more receipts."""
    itself = counts("(select one.* from messages one where one.message_id = m.message_id)")
    return f"""(case when m.status in ('RECEIVED', 'EXECUTION_FAILED', 'EXECUTION_DEFERRED')
      then (select k.{column} from ({itself}) k) end)"""


def effective_status(messages: str = "messages") -> str:
    """Returns SQL for messages with `deadline`, `counted`, `needed` and `effective_status`.

    The SQL takes the parameters `:now`, `:stall_after` and `:max_lag`.

    Args:
        messages: the table, or a selection of its rows in parentheses.
    """
    return query(
        "effective_status",
        messages=messages,
        chains="chains",
        limits="stall_limits",
        lane_paused=_LANE_PAUSED,
        counted=_of_counts("counted"),
        needed=_of_counts("needed"),
    )


EFFECTIVE_STATUS: Final = effective_status()
