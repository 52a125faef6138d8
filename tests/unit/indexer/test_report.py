"""The report: what it reads from the lake's tables, and how it shows that."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli.report import tables
from bridge.protocol.numbers import percentile
from indexer.jobs.report import Report, read_report
from indexer.model.errors import QueryError
from indexer.pipeline.bronze import Lake
from tests.unit.cli.network import write_network
from tests.unit.indexer.lakes import write_table
from tests.unit.indexer.logs import ALPHA, BETA

DAY = 86_400
LANE: dict[str, Any] = {"source_chain": ALPHA, "destination_chain": BETA}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def report(lake: Lake) -> Report:
    """Three messages: one retried after a failure, one executed twice, one that waits."""
    first, second, third, unknown = (bytes([number]) * 32 for number in (1, 2, 3, 4))
    created: dict[str, Any] = {
        "source_block": 1,
        "attempts": 0,
        "executions": 1,
        "failures": 0,
        "duplicates": 0,
        "status": "EXECUTED",
    }
    messages: list[dict[str, Any]] = [
        created | {"message_id": first, "attempts": 1, "failures": 1, "duplicates": 2},
        created | {"message_id": second, "executions": 2, "status": "DIVERGED"},
        created | {"message_id": third, "executions": 0, "status": "ROUTED"},
        {"message_id": unknown, "status": "UNKNOWN", "executions": 1},
    ]
    write_table(lake, "silver.messages", [LANE | row for row in messages])
    counts: dict[str, Any] = {"dispatches": 1, "duplicates": 0}
    receipts = [
        counts | {"message_id": first, "gmp": 1, "received_block": 5, "dispatches": 2, "duplicates": 2},
        counts | {"message_id": second, "gmp": 2, "received_block": 6},
        counts | {"message_id": third, "gmp": 2},
    ]
    write_table(lake, "silver.receipts", receipts)
    absorbed = [{"message_id": first, "gmp": 1, "block_time": time} for time in (DAY - 1, DAY, DAY + 1)]
    write_table(lake, "gold.duplicates", absorbed)
    write_table(lake, "gold.lanes", [LANE | {"late_receipts": 3}, LANE | {"late_receipts": 4}])
    stages = [LANE | {"stage": stage, "messages": 2, "p50": 7} for stage in ("executed", "quorum", "delivered")]
    write_table(lake, "gold.latencies", stages)
    write_table(lake, "gold.divergences", [])
    return read_report(lake.place)


def test_report_counts_the_messages_that_were_created(report: Report) -> None:
    assert report.totals == {
        "messages": 3,
        "executed": 2,
        "executed_twice": 1,
        "retries_sent": 1,
        "retries_executed": 1,
        "execution_failures_recovered": 1,
        "duplicates_absorbed": 2,
        "late_receipts": 7,
    }
    assert report.by_status == {"DIVERGED": 1, "EXECUTED": 1, "ROUTED": 1}
    assert [tuple(row.values()) for row in report.gmps] == [(1, 2, 1, 2), (2, 2, 1, 0)]
    days = [(row["gmp"], row["day"], row["duplicates"]) for row in report.duplicates]
    assert days == [(1, date(1970, 1, 1), 1), (1, date(1970, 1, 2), 2)]


def test_report_shows_the_tables_that_have_rows(report: Report, tmp_path: Path) -> None:
    shown = {
        str(one.title): [list(column.cells) for column in one.columns]
        for one in tables(report, write_network(tmp_path))
    }
    lanes, stages, messages, *percentiles = shown["Latency, in seconds from the route"]
    assert (lanes[0], stages, messages) == ("alpha → beta", ["delivered", "quorum", "executed"], ["2", "2", "2"])
    assert percentiles == [["7", "7", "7"], [""] * 3, [""] * 3]
    assert list(map(len, (columns[0] for columns in shown.values()))) == [2, 3, 2]


def test_report_without_tables_names_the_command_that_makes_them(lake: Lake) -> None:
    with pytest.raises(QueryError, match="waybill index refresh"):
        read_report(lake.place)


@given(st.lists(st.integers(), min_size=1), st.floats(0, 1))
def test_percentile_is_the_least_value_with_its_share_below(values: list[int], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
