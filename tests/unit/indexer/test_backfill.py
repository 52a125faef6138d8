"""A backfill: ranges of final blocks that tasks read, none of which knows what another one's blocks say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from indexer.jobs import backfill
from indexer.jobs.backfill_task import read_into_files
from indexer.lake.lake import FinalBlocks, Lake
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from tests.unit.indexer.endpoint import Endpoint
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


def in_ranges(reader: Callable[[ChainConfig, SourceLimits], ChainReader]) -> Callable[..., list[dict[str, Any]]]:
    """Stands in for Spark: a range after the other, each by a reader of its own, as in tasks of their own."""

    def read(
        _spark: object, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for first in range(blocks.first, blocks.last + 1, STEP):
            with reader(chain, limits) as opened:
                found += read_into_files(opened, lake.folder, first, min(first + STEP - 1, blocks.last))
        return found

    return read
