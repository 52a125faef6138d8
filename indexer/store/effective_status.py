"""Messages as they are shown: the store's own tables behind `transforms/sql/effective_status.sql`."""

from __future__ import annotations

from typing import Final

from indexer.transforms.divergences import divergences, reports, sent_together, with_ends
from indexer.transforms.queries import RULES, paused, query

_RULES: Final = f"""(
      select chain_id, block_number, log_index, event, gmp, chain, recipient, quorum, gmps, until from events where {RULES}
    )"""

_PERIODS: Final = query("periods", rules=_RULES)


def counts(messages: str) -> str:
    """What routers count of the receipts of messages: `counted`, `needed` and `voided`, by `message_id`.

    Args:
        messages: a selection of the table's rows in parentheses.
    """
    return query("counts", messages=messages, receipts="receipts", chains="chains", periods=_PERIODS)


def _of_counts(column: str) -> str:
    """A column of `counts` for the message `m`, null if it needs no more receipts; asked for only where it matters."""
    itself = counts("(select one.* from messages one where one.message_id = m.message_id)")
    return f"""(case when m.status in ('RECEIVED', 'EXECUTION_FAILED', 'EXECUTION_DEFERRED')
      then (select k.{column} from ({itself}) k) end)"""


def effective_status(messages: str = "messages") -> str:
    """Messages with `deadline`, `counted`, `needed` and `effective_status`; takes `:now`, `:stall_after` and `:max_lag`.

    Args:
        messages: the table, or a selection of its rows in parentheses.
    """
    return query(
        "effective_status",
        messages=messages,
        chains="chains",
        limits="stall_limits",
        lane_paused=paused("lane", "m.attempted_time"),
        clock_paused=paused("clock", "m.sent_at"),
        counted=_of_counts("counted"),
        needed=_of_counts("needed"),
    )


EFFECTIVE_STATUS: Final = effective_status()


_DUPLICATES: Final = query("duplicates", events="events")


def _of_messages(messages: str, receipts: str, fan_outs: str) -> str:
    return divergences(
        messages=messages,
        fan_outs=with_ends(fan_outs),
        receipts=receipts,
        duplicates=f"({_DUPLICATES})",
        reports=reports("messages"),
        chains="chains",
        limits="stall_limits",
        periods=_PERIODS,
        registrations=query("registrations", rules=_RULES),
        lane_paused=paused("lane", "m.attempted_time"),
        pruned="""coalesce((
      select p.messages from pruned_lanes p
      where p.source_chain = m.source_chain and p.source_router = m.source_router and p.destination_chain = m.destination_chain
    ), 0)""",
        executed_paused=paused("clock", "m.sent_at", "m.executed_time"),
        expired_paused=paused("clock", "m.sent_at", "m.expired_time"),
        text="varchar",
    )


_MARKS: Final = """
select kind, message_id, chain_id as source_chain, null as destination_chain, evidence from marks where repaired_at is null
"""

NOTED: Final = f"""
{_MARKS}
union all
select 'LANE_DIFFERS', null,
  case direction when 'sent' then chain_id else other_chain end, case direction when 'sent' then other_chain else chain_id end,
  'up to block ' || cast(block_number as varchar) || ' of chain ' || cast(chain_id as varchar) || ' the index has '
    || cast(indexed_count as varchar) || ' messages ' || direction || ', the router ' || cast(router_count as varchar) || '; ' || reason
from lane_checks where verdict = 'different'
union all
select 'STORE_DIFFERS_FROM_LAKE', null, chain_id, null, evidence from lake_checks where evidence is not null
"""
"""What contradicts by more than the messages' own events: the running index notes it in the store. Columns of `schemas.DIVERGENCES`."""

DIVERGENCES: Final = f"""
select * from ({_of_messages("messages", "receipts", sent_together("messages"))}) as d
union all {NOTED}
"""
"""Takes `:max_lag` and `:silence_after`. Columns of `schemas.DIVERGENCES`."""

_FAN_OUT: Final = """(
  select f.* from messages one join messages f
    on f.source_chain = one.source_chain and f.source_transaction = one.source_transaction
    and f.sender = one.sender and f.payload_hash = one.payload_hash
  where one.message_id = :id
)"""
_MESSAGE: Final = "(select * from messages where message_id = :id)"
_ITS_RECEIPTS: Final = "(select * from receipts where message_id = :id)"

DIVERGENCES_OF_MESSAGE: Final = f"""
select * from ({_of_messages(_MESSAGE, _ITS_RECEIPTS, _FAN_OUT)}) as d where kind <> 'NONCE_GAP'
union all {_MARKS} and message_id = :id
"""
"""The same of the one message `:id`, and of the fan-out that it is a part of. Gaps of its lane are not in it."""

CONTRADICTIONS_AMONG: Final = f"""
with among as materialized (select * from messages where message_id in :ids),
  among_receipts as materialized (select * from receipts where message_id in :ids)
select kind, message_id from ({_of_messages("among", "among_receipts", "(select * from among where 1 = 0)")}) as d
where message_id is not null
union all select kind, message_id from ({_MARKS}) as d where message_id in :ids
"""
"""`kind` and `message_id` of what contradicts about the messages `:ids`, fan-outs left out. Takes what `DIVERGENCES` takes."""
