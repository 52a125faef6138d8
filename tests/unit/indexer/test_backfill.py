"""A backfill: ranges of final blocks that tasks read, none of which knows what another one's blocks say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pyarrow as pa
import pytest

from indexer.jobs import backfill, backfill_task
from indexer.jobs.backfill_task import RangeReader, read_into_files
from indexer.lake.lake import FinalBlocks, Lake
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainConfig, ChainReader
from tests.unit.indexer.endpoint import Endpoint, chain_of
from tests.unit.indexer.logs import ADAPTERS, ALPHA, EMITTERS
from tests.unit.indexer.world import SimulatedChain, absorbed, adapter_replaced, sent_message

NEW = b"\xa3" * 20
BLOCKS = 8
REGISTERED = 2
STEP = 4


def test_what_an_adapter_emits_is_read_though_another_range_registers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = SimulatedChain(ALPHA)
    for number in range(1, BLOCKS + 1):
        by_new = absorbed(sent_message(number), 1, emitter=NEW)
        chain.mine(*([adapter_replaced(1, NEW, ADAPTERS[ALPHA])] if number == REGISTERED else [by_new]))
    config = ChainConfig(chain_id=ALPHA, urls=("http://simulated",), start_block=0, emitters=EMITTERS[ALPHA])
    endpoint = Endpoint(chain)
    endpoint.final = BLOCKS

    def reader(told: ChainConfig, limits: SourceLimits) -> ChainReader:
        return ChainReader(told, limits, transport=httpx.MockTransport(endpoint.handle))

    monkeypatch.setattr(backfill, "ChainReader", reader)
    monkeypatch.setattr(backfill, "_read", in_ranges(reader))
    lake = Lake(tmp_path / "lake")
    settings = IndexSettings(folder=IndexFolder(path=tmp_path), backfill_blocks=1)
    backfill.backfill(cast("Any", None), [config], settings, lake)
    events = lake.events(ALPHA, 0, BLOCKS).select(["block_number", "event"]).to_pylist()
    absorbed_in = [event["block_number"] for event in events if event["event"] == "DuplicateAbsorbed"]
    # What it emitted before it was registered counts for nothing, whether it is there or not.
    assert absorbed_in[-(BLOCKS - REGISTERED) :] == list(range(REGISTERED + 1, BLOCKS + 1))


def test_a_task_reads_several_ranges_at_once_and_leaves_out_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Meeting(chain_of(400, every=3), max_range=60)
    config = ChainConfig(chain_id=ALPHA, urls=("http://met",), start_block=0, emitters=EMITTERS[ALPHA])

    def reader(told: ChainConfig, limits: SourceLimits, ranges: AdaptiveRanges) -> ChainReader:
        return ChainReader(told, limits, transport=httpx.MockTransport(endpoint.handle), ranges=ranges)

    monkeypatch.setattr(backfill_task, "ChainReader", reader)
    lake = Lake(tmp_path / "lake")
    final = (400, endpoint.chain.blocks[400].hash)
    task = RangeReader(config, SourceLimits(), lake.folder, final, step=100, at_once=4)
    starts = pa.RecordBatch.from_pydict({"id": [1, 101, 201, 301]})
    manifests = [one for batch in task([starts]) for one in batch.to_pylist()]
    lake.commit(manifests, {ALPHA: FinalBlocks(1, 400, final[1])})
    found = lake.events(ALPHA, 1, 400)["block_number"].to_pylist()
    assert sorted(found) == list(range(3, 401, 3))


class Meeting(Endpoint):
    """Answers no logs before four ask at the same time."""

    def __init__(self, chain: SimulatedChain, max_range: int) -> None:
        super().__init__(chain, max_range=max_range)
        self.met = threading.Barrier(4)
        self.first = threading.local()

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        if not hasattr(self.first, "asked"):
            self.first.asked = True
            self.met.wait(timeout=20)
        return Endpoint._eth_getLogs(self, query)


def in_ranges(reader: Callable[[ChainConfig, SourceLimits], ChainReader]) -> Callable[..., list[dict[str, Any]]]:
    """Stands in for Spark: a range after the other, each by a reader of its own, as in tasks of their own."""

    def read(
        _spark: object, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for first in range(blocks.first, blocks.last + 1, STEP):
            with reader(chain, limits) as opened:
                found += read_into_files(opened, lake.folder, first, min(first + STEP - 1, blocks.last), blocks.last)
        return found

    return read
