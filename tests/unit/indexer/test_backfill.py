"""A backfill: ranges of final blocks that tasks read, none of which knows what another one's blocks say."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from indexer.jobs import backfill_task
from indexer.jobs.backfill_task import RangeReader
from indexer.model.errors import RangeGapError
from indexer.model.settings import SourceLimits
from indexer.pipeline import log_files
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainConfig, ChainReader
from tests.unit.indexer.endpoint import Endpoint, SimulatedExchange, chain_of
from tests.unit.indexer.logs import ALPHA, EMITTERS
from tests.unit.indexer.world import SimulatedChain
from tests.waiting import PATIENCE

BLOCKS = 8


def test_a_task_reads_several_ranges_at_once_and_leaves_out_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Meeting(chain_of(400, every=3), max_range=60)
    config = ChainConfig(chain_id=ALPHA, urls=("http://met",), start_block=0, emitters=EMITTERS[ALPHA])

    def reader(told: ChainConfig, limits: SourceLimits, ranges: AdaptiveRanges) -> ChainReader:
        return ChainReader(told, limits, connect=lambda url, policy: InThread(url, policy, endpoint), ranges=ranges)

    monkeypatch.setattr(backfill_task, "ChainReader", reader)
    lake = Lake(tmp_path / "lake")
    final = (400, endpoint.chain.blocks[400].hash)
    task = RangeReader(config, SourceLimits(), final, step=100, folder=lake.folder, at_once=4)
    starts = pa.RecordBatch.from_pydict({"id": [1, 101, 201, 301]})
    lake.add(pa.Table.from_batches(task([starts]), log_files.FILES), ALPHA, FinalBlocks(1, 400, final[1]))
    found = lake.events(ALPHA, 1, 400)["block_number"].to_pylist()
    assert sorted(found) == list(range(3, 401, 3))


class InThread(SimulatedExchange):
    """Lets several requests wait in the endpoint at once."""

    async def _fetch(self, body: bytes) -> tuple[int, str | None, bytes]:
        answer = await asyncio.to_thread(self.endpoint.handle, httpx.Request("POST", "http://met", content=body))
        return answer.status_code, answer.headers.get("retry-after"), answer.content


class Meeting(Endpoint):
    """Answers no logs before four ask at the same time."""

    def __init__(self, chain: SimulatedChain, max_range: int) -> None:
        super().__init__(chain, max_range=max_range)
        self.met = threading.Barrier(4)
        self.waiting = itertools.count(1)  # a reader waits with its first request

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        if next(self.waiting) <= 4:
            self.met.wait(timeout=PATIENCE)
        return Endpoint._eth_getLogs(self, query)


def test_a_range_without_logs_is_recorded(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    nothing = log_files.write(lake.folder, [], [])
    lake.add(nothing, ALPHA, FinalBlocks(1, 5, b"\x05" * 32))
    assert lake.last_known(ALPHA) == (5, b"\x05" * 32)
    with pytest.raises(RangeGapError):
        lake.add(nothing, ALPHA, FinalBlocks(7, 9, b"\x09" * 32))
