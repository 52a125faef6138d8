"""Lists every metric, with its name, its labels, and the question that it answers.

The reference page is generated from this list. Alert rules and the dashboard must not use other metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricType(StrEnum):
    """The type of a metric in Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: the exposed name; counters end in ``_total``.
        type: the type in Prometheus.
        labels: the label names, in order.
        question: the question that the metric answers.
        meaning: the exact definition, with the unit.
    """

    name: str
    type: MetricType
    labels: tuple[str, ...]
    question: str
    meaning: str


_LANE = ("source", "destination")
_QUEUE = (*_LANE, "gmp")
_ACCOUNT = ("chain", "account")
_GAUGE, _COUNTER, _HISTOGRAM = MetricType.GAUGE, MetricType.COUNTER, MetricType.HISTOGRAM

METRICS: Final = (
    Metric("waybill_build_info", _GAUGE, ("version", "network"), "Which version runs?", "Always 1."),
    Metric(
        "waybill_scrape_problem",
        _GAUGE,
        ("part",),
        "Can the numbers be believed?",
        "1 for a part whose figures could not be read for this scrape: `store`, `dead letters`, `streams`, `index`, or a chain's name.",
    ),
    # the outbox
    Metric(
        "waybill_outbox_entries",
        _GAUGE,
        (*_QUEUE, "state"),
        "How many deliveries wait, are under way, are done, or are dead?",
        "Outbox entries in a state: PENDING, CLAIMED, DELIVERED or DEAD.",
    ),
    Metric(
        "waybill_outbox_stuck_entries",
        _GAUGE,
        _QUEUE,
        "Which deliveries go back and forth without progress?",
        "Entries with at least 20 setbacks whose cause is not the message, such as failing endpoints, that are not final.",
    ),
    Metric(
        "waybill_outbox_oldest_seconds",
        _GAUGE,
        _QUEUE,
        "How long has the oldest delivery waited?",
        "Age in seconds of the oldest entry that is PENDING or CLAIMED; absent if there is none.",
    ),
    Metric(
        "waybill_lag_messages",
        _GAUGE,
        _QUEUE,
        "How far is the relayer behind?",
        "Entries observed and not acknowledged yet: PENDING and CLAIMED.",
    ),
    Metric(
        "waybill_observed_total",
        _COUNTER,
        _QUEUE,
        "How much comes in?",
        "Dispatches ever written to the outbox; again after a reorg took one back.",
    ),
    Metric(
        "waybill_deliveries_total",
        _COUNTER,
        _QUEUE,
        "How much gets through?",
        "Deliveries acknowledged, ever, by us or by others.",
    ),
    Metric(
        "waybill_delivery_seconds",
        _HISTOGRAM,
        _QUEUE,
        "How fast does it get through?",
        "Seconds from the observation of a dispatch to its acknowledged delivery.",
    ),
    Metric(
        "waybill_delivery_failures_total",
        _COUNTER,
        (*_QUEUE, "kind", "code"),
        "What fails, and how?",
        "Tries that ended without a delivery, by code and kind. The kind decides whether the relayer retries: TRANSIENT, REFUSED, "
        "UNANSWERED, INTERRUPTED, UNDONE, TERMINAL. UNKNOWN stands for failures that are not in the table of error codes.",
    ),
    Metric(
        "waybill_delivery_retries_total",
        _COUNTER,
        _QUEUE,
        "How much is tried again?",
        "Failed tries after which the delivery was retried, ever: all but the last one of a dead delivery.",
    ),
    Metric(
        "waybill_dead_letters",
        _GAUGE,
        _QUEUE,
        "Which dead letters wait for a decision?",
        "Dead letters PENDING_REVIEW; 0 once all are decided. Deliveries DEAD are in `waybill_outbox_entries`.",
    ),
    Metric(
        "waybill_dead_letters_entered_total",
        _COUNTER,
        _QUEUE,
        "How many deliveries became dead letters?",
        "Dead letters written, ever; a letter that returns after another try of its delivery counts again.",
    ),
    Metric(
        "waybill_commits_total",
        _COUNTER,
        ("destination", "result"),
        "Does the store accept the outcomes of deliveries?",
        "Commits of deliveries' outcomes, ever: success, or failure, which is retried. Written to the store every 5 s.",
    ),
    Metric(
        "waybill_unrecognised_dispatches_total",
        _COUNTER,
        ("chain",),
        "Did a message leave that the relayer can't deliver?",
        "Dispatches that only the router or only the GMP reports. Each is counted again when its block is read again. "
        "The log names its transaction.",
    ),
    Metric(
        "waybill_dedup_messages",
        _GAUGE,
        (),
        "How full is the store?",
        "Different messages in the deduplication window: all that have a delivery in the store. Counted once a "
        "minute at most.",
    ),
    Metric(
        "waybill_dedup_capacity_messages",
        _GAUGE,
        (),
        "When is it full?",
        "Messages that the window holds (`reliability.dedup_capacity`); when it is full, no new message is accepted.",
    ),
    # transactions
    Metric(
        "waybill_nonce_oldest_open_seconds",
        _GAUGE,
        _ACCOUNT,
        "How long has a nonce been stuck?",
        "Age in seconds of the oldest nonce that no block has used; absent if there is none.",
    ),
    Metric("waybill_account_balance_wei", _GAUGE, _ACCOUNT, "Can the account pay?", "Its balance, in wei."),
    Metric(
        "waybill_spend_reserved_wei",
        _GAUGE,
        (*_LANE, "chain"),
        "What does a lane cost today?",
        "Wei of its transactions since midnight UTC, on the chain that they are paid on: value, and gas limit times the highest "
        "fee signed for. Once included, the gas used times that fee. An upper bound.",
    ),
    Metric(
        "waybill_spend_limit_wei",
        _GAUGE,
        (*_LANE, "chain"),
        "How much may a lane cost per day?",
        "`spending.lane_per_day`, in wei; absent until the lane has cost something today.",
    ),
    Metric(
        "waybill_spend_blocked",
        _GAUGE,
        (*_LANE, "bound"),
        "What waits because it would cost too much?",
        "Deliveries and executions that a spending bound blocks, by its setting. `waybill message show` prints the figures.",
    ),
    # chains
    Metric("waybill_chain_up", _GAUGE, ("chain",), "Does the chain answer?", "1 if an endpoint gave its head, else 0."),
    Metric(
        "waybill_chain_head_age_seconds",
        _GAUGE,
        ("chain",),
        "Does the chain, or its endpoint, stand still?",
        "Seconds since the timestamp of its newest block.",
    ),
    Metric(
        "waybill_chain_read_lag_blocks",
        _GAUGE,
        ("chain",),
        "How far is the relayer's reading behind?",
        "Blocks between head and cursor; it never falls below the chain's confirmations.",
    ),
    Metric(
        "waybill_endpoint_up",
        _GAUGE,
        ("chain", "endpoint"),
        "Which endpoint fails?",
        "1 for an RPC endpoint in use, 0 for one that rests after a failure.",
    ),
    # decisions
    Metric(
        "waybill_breaker_open",
        _GAUGE,
        ("gmp", "destination"),
        "Which GMP is left alone?",
        "Circuit breaker: 0 closed, 0.5 half-open, 1 open; absent for a GMP that was not tried lately.",
    ),
    Metric(
        "waybill_lane_held",
        _GAUGE,
        (*_LANE, "state"),
        "Which lane is held?",
        "1 for a lane that is PAUSED or HALTED; absent for one that runs.",
    ),
    Metric(
        "waybill_tripwire_look_timestamp_seconds",
        _GAUGE,
        (),
        "Does the tripwire watch?",
        "When the tripwire last compared all divergences, Unix seconds; absent if it has never run on this store.",
    ),
    Metric(
        "waybill_tripwire_accusations",
        _GAUGE,
        ("chain",),
        "Has a GMP lied?",
        "Receipts on a destination that the tripwire proved to be forged, ever.",
    ),
    # state changes
    Metric(
        "waybill_sync_lag_seconds",
        _GAUGE,
        _LANE,
        "How long has a state change been final on its source but not applied on its destination?",
        "Seconds since the oldest message of the pending sync queue became final; 0 if none waits.",
    ),
    Metric(
        "waybill_sync_messages",
        _GAUGE,
        (*_LANE, "state"),
        "Which destinations have diverged from their source?",
        "Messages of the pending sync queue that are not applied: PENDING, or DIVERGED after repeated failure.",
    ),
    # the index
    Metric(
        "waybill_retry_requests",
        _GAUGE,
        ("state",),
        "What became of the index's retry requests?",
        "Requests copied, by state: OPEN, SENDING, SENT, NOT_NEEDED, IMPOSSIBLE.",
    ),
    Metric(
        "waybill_index_lag_seconds",
        _GAUGE,
        ("chain",),
        "How far is the index behind?",
        "Seconds since the timestamp of the last block indexed.",
    ),
    Metric(
        "waybill_index_halted",
        _GAUGE,
        ("chain",),
        "Has the index stopped reading a chain?",
        "1 for a chain that the index no longer reads because of a reorg past finality; absent otherwise.",
    ),
    Metric(
        "waybill_messages", _GAUGE, ("status",), "Where are the messages?", "Messages in the index, by their status."
    ),
    Metric(
        "waybill_divergences",
        _GAUGE,
        ("severity",),
        "Do the chains contradict each other?",
        "Divergences of the index, by severity. `critical` and `high`: facts that can't both be right; must be 0. `medium`: "
        "messages that no GMP has delivered for a day or longer.",
    ),
    # streams out
    Metric(
        "waybill_stream_waiting_records",
        _GAUGE,
        (),
        "How much is not published yet?",
        "Records of the streams that are not in their topics yet.",
    ),
    Metric(
        "waybill_stream_oldest_seconds",
        _GAUGE,
        (),
        "How far behind are the streams?",
        "Age in seconds of the oldest record that waits; 0 if none does.",
    ),
    Metric(
        "waybill_stream_records_total",
        _COUNTER,
        ("stream",),
        "How much was published?",
        "Records that are in their topics, by stream; `refused`: those that are in the dead-letter topic instead.",
    ),
    Metric(
        "waybill_stream_halted",
        _GAUGE,
        (),
        "Has publishing halted?",
        "1 while publishing waits for `waybill lane resume --streams`, else 0.",
    ),
)
