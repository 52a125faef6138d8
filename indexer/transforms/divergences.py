"""What contradicts: the rules for one message, and the queries that compare messages with receipts, rules and one another.

The columns are those of `schemas.DIVERGENCES`. What a kind means, and what to do about it, stands in
`indexer/model/divergences.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Final

from indexer.transforms.queries import COLUMNS, CONFLICTS, query


@dataclass(frozen=True, slots=True)
class Rule:
    """A contradiction that one message shows: in SQL, of the message `m`, and what `_CONTEXT` joins to it.

    Attributes:
        kind: of the divergence.
        condition: whether it is there. The store has an index for the beginning of each (`indexer.store.tables`).
        evidence: what shows it.
    """

    kind: str
    condition: str
    evidence: str


_CONTEXT: Final = """
from $messages m
left join $chains s on s.chain_id = m.source_chain
left join $chains d on d.chain_id = m.destination_chain
left join $limits l on l.source_chain = m.source_chain and l.destination_chain = m.destination_chain and l.kind = m.kind
"""

_FACTS: Final = """
|| coalesce('; created in block ' || cast(m.source_block as $text), '; never created')
|| coalesce('; receipts of ' || cast($received_count as $text) || ' GMPs, the router counts ' || cast(m.receipts as $text), '')
|| coalesce('; executed on chain ' || cast(m.executed_chain as $text) || ' in block ' || cast(m.executed_block as $text), '')
|| coalesce('; expired in block ' || cast(m.expired_block as $text) || ' at ' || cast(m.expired_time as $text), '')
|| coalesce('; sent at ' || cast(m.sent_at as $text) || ' with a ttl of ' || cast(m.ttl as $text) || ' s', '')
|| coalesce('; cancelled in block ' || cast(m.cancelled_block as $text), '')
|| coalesce('; reported at ' || cast(m.outcome_time as $text), '')
"""
_REPORT: Final = """
'reported to the source: '
|| case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED'
   else coalesce(cast(m.outcome as $text), 'something else than before') end
|| ', on the destination: ' || case when m.executions > 0 then 'EXECUTED' else m.status end
"""
_ENDED: Final = "coalesce(m.executed_time, m.expired_time, m.cancelled_time)"
_NEVER_CREATED: Final = """
'never created on its source, which was read to a later time'
|| coalesce('; executed on chain ' || cast(m.executed_chain as $text) || ' in block ' || cast(m.executed_block as $text), '')
|| coalesce('; expired in block ' || cast(m.expired_block as $text), '')
|| coalesce('; cancelled in block ' || cast(m.cancelled_block as $text), '')
"""

RULES_OF_ONE: Final = (
    Rule("EXECUTED_TWICE", "m.executions > 1", "'executions on the destination: ' || cast(m.executions as $text)"),
    *[
        Rule(kind, f"m.conflicts <> 0 and (m.conflicts & {bit}) <> 0", f"'{evidence}' {_FACTS}")
        for bit, (kind, evidence) in CONFLICTS.items()
    ],
    Rule(
        "EXECUTED_BEFORE_CREATION",
        """m.executions > 0 and m.executed_time < m.source_time and m.executed_time + :max_lag < m.source_time""",
        "'executed at ' || cast(m.executed_time as $text) || ', first dispatched at ' || cast(m.source_time as $text)",
    ),
    Rule(
        "PAYLOAD_DIFFERS",
        "m.payload_differs",
        "'source, receipts and execution do not all name the same payload hash'",
    ),
    Rule(
        "EXECUTED_AFTER_EXPIRY",
        """m.ttl > 0 and m.executions > 0 and m.executed_time > m.sent_at + m.ttl
        and m.executed_time > m.sent_at + m.ttl + $executed_paused""",
        """'executed at ' || cast(m.executed_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
        || cast(m.ttl as $text) || ' s, paused for ' || cast($executed_paused as $text) || ' s'""",
    ),
    # Without pauses its time would have been over; that it expired before even then is among the conflicts.
    Rule(
        "EXPIRED_TOO_EARLY",
        """m.expired_time is not null and m.ttl > 0 and m.expired_time > m.sent_at + m.ttl
        and m.expired_time <= m.sent_at + m.ttl + $expired_paused""",
        """'expired at ' || cast(m.expired_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
        || cast(m.ttl as $text) || ' s, paused for ' || cast($expired_paused as $text) || ' s'""",
    ),
    Rule(
        "CANCELLED_WITHOUT_REQUEST",
        "m.cancelled_unasked and m.source_block is not null and s.block_time > m.cancelled_time + :max_lag",
        """'cancelled in block ' || cast(m.cancelled_block as $text)
        || ', and its source, which was read to a later time, has no request for that'""",
    ),
    Rule(
        "END_WITHOUT_CREATION",
        """m.source_block is null and (m.executions > 0 or m.cancelled_unasked)
        and s.block_time > coalesce(m.executed_time, m.cancelled_time) + :max_lag""",
        _NEVER_CREATED,
    ),
    # An honest destination marks any header as expired; an honest source lets any account cancel what names it as sender.
    Rule(
        "NEVER_SENT",
        """m.source_block is null and m.executions = 0 and not m.cancelled_unasked
        and s.block_time > coalesce(m.expired_time, m.cancelled_time) + :max_lag""",
        _NEVER_CREATED,
    ),
    Rule(
        "RECEIPT_WITHOUT_CREATION",
        "m.source_block is null and s.block_time > m.received_time + :max_lag",
        "'received on the destination, but never routed on its source, which was read to a later time'",
    ),
    # A GMP can deliver only what it was given: one that the source never handed the message to has made it up.
    Rule(
        "RECEIPT_OVER_UNUSED_GMP",
        # The plus keeps SQLite from going through all that were created: the few that it looks for have an index of their own.
        "(m.received & ~m.dispatched) <> 0 and +m.source_block is not null and s.block_time > m.received_time + :max_lag",
        """'GMPs that delivered: bits ' || cast(m.received as $text) || ', GMPs that took it: bits '
        || cast(m.dispatched as $text)""",
    ),
    Rule(
        "SILENT",
        # Nothing can arrive while the lane is paused.
        """m.status = 'ROUTED' and m.outcome is null and m.attempted_block <= s.final_block and m.cancellation_id is null
        and d.block_time - m.attempted_time > :silence_after and d.block_time - m.attempted_time > coalesce(l.seconds, 0)
        and d.block_time - m.attempted_time - $lane_paused > :silence_after
        and d.block_time - m.attempted_time - $lane_paused > coalesce(l.seconds, 0)
        and (m.ttl = 0 or d.block_time <= m.sent_at + m.ttl)""",
        """'final on the source, and no GMP has delivered it ' || cast(d.block_time - m.attempted_time - $lane_paused as $text)
        || ' s after its last attempt, pauses of the lane left out'""",
    ),
    # Three rules, each of which an index answers: an `or` of all would have all messages gone through.
    Rule("OUTCOME_DIFFERS", "m.contradicted", _REPORT),
    Rule(
        "OUTCOME_DIFFERS",
        # Without `coalesce` SQLite would go through all executed messages instead of those few that were reported.
        """m.outcome is not null and not m.contradicted and coalesce(m.status, '') in ('EXECUTED', 'EXPIRED', 'CANCELLED')
        and m.status <> case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else '' end""",
        _REPORT,
    ),
    Rule(
        "OUTCOME_DIFFERS",
        """m.outcome is not null and not m.contradicted and m.executions = 0 and m.expired_block is null
        and m.cancelled_block is null and d.block_time > m.outcome_time + :max_lag""",
        f"""{_REPORT} || ', which was read to ' || cast(d.block_time - m.outcome_time as $text) || ' s after the report'""",
    ),
    Rule(
        "OUTCOME_DIFFERS",
        f"""m.outcome is not null and not m.contradicted and m.outcome_time < {_ENDED} and m.outcome_time + :max_lag < {_ENDED}""",
        f"""{_REPORT} || ', which it became ' || cast({_ENDED} - m.outcome_time as $text) || ' s after the report'""",
    ),
)

_OF_MORE: Final = (
    "executed_without_quorum",
    "duplicate_without_receipt",
    "receipt_from_unregistered_adapter",
    "received_twice",
    "taken_while_paused",
    "reported_before_end",
    "nonce_gap",
    "fan_out_differs",
)
"""Kinds that show in more than one row: each has its query in `transforms/sql/divergences`."""


def divergences(**values: str) -> str:
    """The query for engines that look each rule up in an index, or read a table many times at no cost.

    Takes `:max_lag` and `:silence_after`, seconds.

    Args:
        values: what stands for `messages`, `receipts`, `chains`, `limits`, `periods`, `registrations`; for `fan_outs`, the
            messages among which fan-outs are looked for; for `duplicates`, rows of `schemas.DUPLICATES`; for `reports`, messages
            that report the end of another; for `lane_paused`, `executed_paused` and `expired_paused`, seconds of
            the message `m`; for `pruned`, messages of the lane `m` that are not there any more; and `text`, the engine's word
            for a string.
    """
    of_one = [
        f"select '{rule.kind}' as kind, m.message_id, m.source_chain, m.destination_chain, {rule.evidence} as evidence"
        f"{_CONTEXT}where {rule.condition}"
        for rule in RULES_OF_ONE
    ]
    return " union all ".join([_filled(text, values) for text in of_one] + of_more(**values))


def of_one(**values: str) -> str:
    """The query for what one message shows, in one scan of all messages: for Spark, which plans each scan apart."""
    cases = [
        f"case when {rule.condition} then named_struct('kind', '{rule.kind}', 'evidence', {rule.evidence}) end"
        for rule in RULES_OF_ONE
    ]
    columns = "m.message_id, m.source_chain, m.destination_chain"
    return _filled(f"select {columns}, inline(array_compact(array({', '.join(cases)}))) {_CONTEXT}", values)


def of_more(**values: str) -> list[str]:
    """The queries for what shows in more than one row."""
    return [query(f"divergences/{name}", **values) for name in _OF_MORE]


def sent_together(messages: str) -> str:
    """The messages of transactions that sent several: an index, or a table of few columns, finds them without the others."""
    return f"""(
      select f.* from {messages} f
      join (select source_chain, source_transaction from {messages} one group by 1, 2 having count(*) > 1) several
        on several.source_chain = f.source_chain and several.source_transaction = f.source_transaction
    )"""  # noqa: S608  our own texts


def _filled(text: str, values: dict[str, str]) -> str:
    return Template(text).substitute(COLUMNS | values)
