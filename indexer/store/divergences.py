"""Live divergences.

They are found by the rules of `indexer.pipeline.divergences` in the store's tables, or were recorded by the index.
"""

from __future__ import annotations

from typing import Final

from indexer.pipeline.divergences import divergences, reports, sent_together, with_ends
from indexer.pipeline.queries import query
from indexer.store.effective_status import PERIODS, ROUTER_EVENTS

# The receipt that a pruned message's duplicate repeats is no longer in the store.
_DUPLICATES: Final = f"""
select * from ({query("duplicates", events="events")}) absorbed
where message_id not in (select message_id from pruned_messages)
"""


def _of_messages(messages: str, receipts: str, fan_outs: str) -> str:
    return divergences(
        messages=messages,
        fan_outs=f"({with_ends(fan_outs)})",
        receipts=receipts,
        duplicates=f"({_DUPLICATES})",
        reports=reports("messages"),
        chains="chains",
        limits="stall_limits",
        periods=PERIODS,
        registrations=query("registrations", about_routers=ROUTER_EVENTS),
        pruned="""coalesce((
      select p.messages from pruned_lanes p
      where p.source_chain = m.source_chain and p.source_router = m.source_router and p.destination_chain = m.destination_chain
    ), 0)""",
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
"""
"""Divergences beyond the messages' own events, which the running index has stored. Columns of `schemas.DIVERGENCES`."""

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
"""The divergences of the message `:id` and of the fan-out that it belongs to, excluding gaps of its lane."""

CONTRADICTIONS_AMONG: Final = f"""
with among as materialized (select * from messages where message_id in :ids),
  among_receipts as materialized (select * from receipts where message_id in :ids)
select kind, message_id from ({_of_messages("among", "among_receipts", "(select * from among where 1 = 0)")}) as d
where message_id is not null
union all select kind, message_id from ({_MARKS}) as d where message_id in :ids
"""
"""`kind` and `message_id` of what contradicts about the messages `:ids`, fan-outs left out. Takes what `DIVERGENCES` takes."""
