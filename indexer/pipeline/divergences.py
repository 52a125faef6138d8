"""Divergences: rules for single messages, and queries that compare messages with receipts, router rules and each other.

The columns are those of `schemas.DIVERGENCES`. The meaning of each kind, and its next action, are in
`indexer/model/divergences.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Final

from bridge.protocol.message import Kind
from indexer.pipeline.queries import COLUMNS, CONFLICTS, query


@dataclass(frozen=True, slots=True)
class Rule:
    """A contradiction within one message, as SQL over the message `m` and the rows that `_CONTEXT` joins to it.

    Attributes:
        kind: kind of the divergence.
        condition: SQL condition on the message's row. The store has an index for the beginning of each
            condition (`indexer.store.tables`).
        evidence: SQL for the text of the evidence.
        when: SQL condition on clocks and limits.
        has_facts: whether `_FACTS` are appended to the evidence.
    """

    kind: str
    condition: str
    evidence: str
    when: str = ""
    has_facts: bool = False

    @property
    def is_there(self) -> str:
        """Returns the whole condition as SQL."""
        return f"{self.condition} and {self.when}" if self.when else self.condition


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
        Rule(kind, "m.conflicts <> 0", f"'{evidence}'", f"(m.conflicts & {conflict.value}) <> 0", has_facts=True)
        for conflict, (kind, evidence) in CONFLICTS.items()
    ],
    Rule(
        "EXECUTED_BEFORE_CREATION",
        "m.executions > 0 and m.executed_time < m.source_time",
        "'executed at ' || cast(m.executed_time as $text) || ', first dispatched at ' || cast(m.source_time as $text)",
        when="m.executed_time + :max_lag < m.source_time",
    ),
    Rule(
        "PAYLOAD_DIFFERS",
        "m.payload_differs",
        "'source, receipts and execution do not all name the same payload hash'",
    ),
    Rule(
        "EXECUTED_AFTER_EXPIRY",
        "m.ttl > 0 and m.executions > 0 and m.executed_time > m.sent_at + m.ttl",
        """'executed at ' || cast(m.executed_time as $text) || ', sent at ' || cast(m.sent_at as $text) || ' with a ttl of '
        || cast(m.ttl as $text) || ' s'""",
    ),
    Rule(
        "CANCELLED_WITHOUT_REQUEST",
        "m.cancelled_unasked and m.source_block is not null",
        """'cancelled in block ' || cast(m.cancelled_block as $text)
        || ', and its source, which was read to a later time, has no request for that'""",
        when="s.block_time > m.cancelled_time + :max_lag",
    ),
    Rule(
        "END_WITHOUT_CREATION",
        "m.source_block is null and (m.executions > 0 or m.cancelled_unasked)",
        _NEVER_CREATED,
        when="s.block_time > coalesce(m.executed_time, m.cancelled_time) + :max_lag",
    ),
    # An honest destination marks any header as expired; an honest source lets an account cancel any message that names it as sender.
    Rule(
        "NEVER_SENT",
        "m.source_block is null and m.executions = 0 and not m.cancelled_unasked",
        _NEVER_CREATED,
        when="s.block_time > coalesce(m.expired_time, m.cancelled_time) + :max_lag",
    ),
    Rule(
        "RECEIPT_WITHOUT_CREATION",
        "m.source_block is null",
        "'received on the destination, but never routed on its source, which was read to a later time'",
        when="s.block_time > m.received_time + :max_lag",
    ),
    # A GMP can deliver only what it was given. If the source never gave it the message, the GMP forged the delivery.
    Rule(
        "RECEIPT_OVER_UNUSED_GMP",
        # The plus keeps SQLite from scanning all created messages: the few that it looks for have their own index.
        "(m.received & ~m.dispatched) <> 0 and +m.source_block is not null",
        """'GMPs that delivered: bits ' || cast(m.received as $text) || ', GMPs that took it: bits '
        || cast(m.dispatched as $text)""",
        when="s.block_time > m.received_time + :max_lag",
    ),
    Rule(
        "SILENT",
        "m.status = 'ROUTED' and m.outcome is null and m.cancellation_id is null",
        """'final on the source, and no GMP has delivered it ' || cast(d.block_time - m.attempted_time as $text)
        || ' s after its last attempt'""",
        when="""m.attempted_block <= s.final_block
        and d.block_time - m.attempted_time > :silence_after and d.block_time - m.attempted_time > coalesce(l.seconds, 0)
        and (m.ttl = 0 or d.block_time <= m.sent_at + m.ttl)""",
    ),
    # Three rules, each of which uses an index; a single rule with `or` would scan all messages.
    Rule("OUTCOME_DIFFERS", "m.contradicted", _REPORT),
    Rule(
        "OUTCOME_DIFFERS",
        # Without `coalesce` SQLite would scan all executed messages instead of the few that were reported.
        """m.outcome is not null and not m.contradicted and coalesce(m.status, '') in ('EXECUTED', 'EXPIRED', 'CANCELLED')
        and m.status <> case m.outcome when 1 then 'EXECUTED' when 2 then 'EXPIRED' when 3 then 'CANCELLED' else '' end""",
        _REPORT,
    ),
    Rule(
        "OUTCOME_DIFFERS",
        """m.outcome is not null and not m.contradicted and m.executions = 0 and m.expired_block is null
        and m.cancelled_block is null and coalesce(m.status, '') not in ('EXECUTED', 'EXPIRED', 'CANCELLED')""",
        f"""{_REPORT} || ', which was read to ' || cast(d.block_time - m.outcome_time as $text) || ' s after the report'""",
        when="d.block_time > m.outcome_time + :max_lag",
    ),
    Rule(
        "OUTCOME_DIFFERS",
        f"m.outcome is not null and not m.contradicted and m.outcome_time < {_ENDED}",
        f"""{_REPORT} || ', which it became ' || cast({_ENDED} - m.outcome_time as $text) || ' s after the report'""",
        when=f"m.outcome_time + :max_lag < {_ENDED}",
    ),
)

_OF_RECEIPTS: Final = (
    "executed_without_quorum",
    "duplicate_without_receipt",
    "receipt_from_unregistered_adapter",
)
"""Kinds that follow from a message's receipts and the routers' rules at the time of each receipt."""

_OF_MESSAGES: Final = ("reported_before_end", "fan_out_differs")
"""Kinds that follow from several messages. Each has its own query in `pipeline/sql/divergences`."""


def divergences(**values: str) -> str:
    """Returns the query for the store, which has an index for each rule.

    Takes the parameters `:max_lag` and `:silence_after`, in seconds.

    Args:
        values: SQL that replaces the placeholders `messages`, `receipts`, `chains`, `limits`, `periods` and
            `registrations`; `fan_outs`, the messages (`with_ends`) among which fan-outs are searched; `duplicates`,
            rows of `schemas.DUPLICATES`; `reports`, messages that report the end of another message; `pruned`,
            messages of the lane of `m` that were pruned; and `text`, the engine's string type.
    """
    names = (*_OF_RECEIPTS, *_OF_MESSAGES, "nonce_gap")
    return " union all ".join([*_rules_of_one(values), *(query(f"divergences/{name}", **values) for name in names)])


def for_spark(**values: str) -> list[str]:
    """Returns the queries for Spark, whose union is the set of divergences. `values` is as for `divergences`."""
    names = (*_OF_RECEIPTS, *_OF_MESSAGES, "nonce_gap")
    return [_in_one_scan(values), *(query(f"divergences/{name}", **values) for name in names)]


def _in_one_scan(values: dict[str, str]) -> str:
    """Returns one query for all single-message rules.

    One scan finds the rules that apply, and builds evidence only for those.
    """
    rules = list(enumerate(RULES_OF_ONE))
    holding = ", ".join(f"case when {rule.is_there} then {number} end" for number, rule in rules)
    kinds = " ".join(f"when {number} then '{rule.kind}'" for number, rule in rules)
    evidence = " ".join(f"when {number} then {rule.evidence}" for number, rule in rules)
    with_facts = ", ".join(str(number) for number, rule in rules if rule.has_facts)
    return _filled(
        f"select case rule {kinds} end as kind, m.message_id, m.source_chain, m.destination_chain, "
        f"case rule {evidence} end || case when rule in ({with_facts}) then '' {_FACTS} else '' end as evidence "
        f"{_CONTEXT} lateral view explode(array_compact(array({holding}))) holding as rule",
        values,
    )


def _rules_of_one(values: dict[str, str]) -> list[str]:
    """Returns one query for each single-message rule."""
    return [
        _filled(
            f"select '{rule.kind}' as kind, m.message_id, m.source_chain, m.destination_chain, "
            f"{rule.evidence} {_FACTS if rule.has_facts else ''} as evidence {_CONTEXT} where {rule.is_there}",
            values,
        )
        for rule in RULES_OF_ONE
    ]


def reports(messages: str) -> str:
    """Returns SQL for the messages that report another message's outcome."""
    return f"(select * from {messages} report where kind = {Kind.REPORT:d})"


def sent_together(messages: str) -> str:
    """Returns SQL for the messages whose transaction sent several messages. It uses an index."""
    return f"""(
      select f.* from {messages} f
      join (select source_chain, source_transaction from {messages} one group by 1, 2 having count(*) > 1) several
        on several.source_chain = f.source_chain and several.source_transaction = f.source_transaction
    )"""


def with_ends(messages: str) -> str:
    """Returns SQL for messages with their outcome: the column `succeeded` or `failed` is 1."""
    ends = f"{COLUMNS['succeeded']} as succeeded, {COLUMNS['failed']} as failed"
    sent = "m.message_id, m.source_chain, m.destination_chain, m.source_transaction, m.sender, m.payload_hash"
    return f"select {sent}, {ends} from {messages} m where m.source_block is not null"


def _filled(text: str, values: dict[str, str]) -> str:
    return Template(text).substitute(COLUMNS | values)
