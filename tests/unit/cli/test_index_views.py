"""The lake for people who open it with tools of their own: what its tables mean, and ids that can be typed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from indexer.model.dictionary import TABLES
from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import SENT, Network, network, waybill
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.world import SimulatedChain, routed, sent_message

__all__ = ["network", "waybill"]  # fixtures


def test_every_table_and_column_of_the_lake_says_what_it_is(network: Network, waybill: Command) -> None:
    network.index()
    assert waybill("index", "tables", "--max-behind", "4000000000").code == 0
    for name, (schema, about) in TABLES.items():
        table = DeltaTable((network.workspace.lake / name).root)
        assert table.metadata().description == about
        comments = {field.name: field.metadata.get("comment") for field in table.schema().fields}
        assert list(comments) == schema.names
        assert all(comments.values()), name


def test_a_message_is_found_by_the_id_that_people_type(network: Network, waybill: Command) -> None:
    network.index()
    assert waybill("index", "tables", "--max-behind", "4000000000").code == 0
    views = waybill("index", "views").out
    with duckdb.connect() as connection:
        connection.execute(views)
        found = connection.execute(f"select status, nonce from messages where message_id = '0x{SENT.id.hex()}'")
        assert found.fetchall() == [("EXECUTED", SENT.nonce)]
        assert connection.execute("select count(*) from events where message_id like '0x%'").fetchone() == (4,)


def test_columns_that_are_always_null_cost_next_to_nothing(tmp_path: Path) -> None:
    chain = SimulatedChain(ALPHA)
    for number in range(1, 2_001):
        chain.mine(*[routed(sent_message(10 * number + one)) for one in range(10)])
    file = tmp_path / "events.parquet"
    events: pa.Table = chain.events(1, chain.head)
    pq.write_table(events, file, compression="zstd")
    rows = [pq.ParquetFile(file).metadata.row_group(0).column(one) for one in range(events.num_columns)]
    empty = [one for one in rows if one.statistics is not None and one.statistics.null_count == events.num_rows]
    assert len(empty) >= 15
    assert sum(one.total_compressed_size for one in empty) < 0.01 * file.stat().st_size


def test_a_home_with_a_space_in_its_path_is_read_like_any_other(
    tmp_path: Path, waybill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a home, and more"
    monkeypatch.setenv("WAYBILL_HOME", str(home))
    network = Network(home)
    try:
        network.index()
        fresh = ("--max-behind", "4000000000")
        for command in ("tables", "divergence", "verify"):
            ended = waybill("index", command, *fresh)
            assert ended.code == 0, ended.err
        for line in (("index", "rebuild"), ("index", "as-of", "--time", "4000000000"), ("report", *fresh)):
            ended = waybill(*line)
            assert ended.code == 0, ended.err
        with duckdb.connect() as connection:
            connection.execute(waybill("index", "views").out)
            assert connection.execute("select count(*) from messages").fetchone() == (1,)
    finally:
        network.close()
