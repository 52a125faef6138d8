"""The index against real routers: its lanes add up to what they count, and a message that it lost is found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import delete

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from indexer.jobs.history import History
from indexer.jobs.promotion import promote
from indexer.jobs.verify import LaneCheck, Verdict, correct, verify
from indexer.model.settings import SourceLimits
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainReader, chain_config
from indexer.sources.position import ChainPosition
from indexer.store import tables
from indexer.store.blocks import BlockRange
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.anvil.rpc import rpc
from tests.anvil.traffic import World

pytestmark = pytest.mark.long


class Index:
    """Store and lake of the devnet's chains, filled without Spark."""

    def __init__(self, devnet: Devnet, folder: Path, stack: ExitStack) -> None:
        self.url = f"sqlite:///{folder / 'index.db'}"
        self.store = Store(self.url)
        self.lake = Lake(folder / "lake")
        self.configs = [chain_config(chain) for chain in devnet.deployment.chains]
        self.readers = [stack.enter_context(ChainReader(config, SourceLimits())) for config in self.configs]
        stack.callback(self.store.close)

    def read(self) -> None:
        for reader in self.readers:
            chain, start = reader.config.chain_id, ChainPosition.before(reader.config.start_block)
            while (found := reader.advance(self.store.positions().get(chain, start))) is not None:
                range_ = BlockRange(
                    first=found.first,
                    parent_hash=found.parent_hash,
                    position=found.position,
                    block_hash=found.last.hash,
                    block_time=found.last.time,
                    head_block=found.head_block,
                )
                self.store.apply(found.events, {chain: range_})
        promote(self.store, self.lake, {config.chain_id: config.start_block for config in self.configs})

    def check(self) -> list[LaneCheck]:
        return verify(self.readers, History(self.store.engine, self.lake))


@pytest.fixture
def index(devnet: Devnet, tmp_path: Path) -> Iterator[Index]:
    with ExitStack() as stack:
        yield Index(devnet, tmp_path, stack)


async def test_index_of_real_routers_is_verified_and_repaired(
    devnet: Devnet, chains: Mapping[int, EvmChain], index: Index
) -> None:
    world = World(devnet.deployment, chains)
    for _ in range(3):
        await world.send(Gmp.HYPERLANE)
    for dispatch in (await world.dispatches(Gmp.HYPERLANE))[:2]:
        await world.deliver(Gmp.HYPERLANE, dispatch)
    for chain in devnet.chains:
        rpc(chain.url, "anvil_mine", hex(4))  # two blocks make one final
    index.read()
    checks = index.check()
    assert {check.verdict for check in checks} == {Verdict.EQUAL}
    alpha, beta = (chain.chain_id for chain in devnet.deployment.chains)
    counted = {(check.chain_id, check.direction.value): check.indexed and check.indexed.count for check in checks}
    assert counted == {(alpha, "sent"): 3, (alpha, "executed"): 0, (beta, "sent"): 0, (beta, "executed"): 2}
    with IndexReader(index.url, clock=lambda: 0) as reader:
        assert reader.divergences() == []

    place = tables.events.c
    before = History(index.store.engine, index.lake).events(beta, 0, 10**9)
    lost = next(row["block_number"] for row in before.to_pylist() if row["event"] == "MessageExecuted")
    index.lake.replace(beta, lost, lost, before.slice(0, 0), "lost by a broken disk")
    with index.store.engine.begin() as connection:
        connection.execute(delete(tables.events).where(place.chain_id == beta, place.block_number == lost))
    (wrong,) = [check for check in index.check() if check.verdict is Verdict.DIFFERENT]
    assert (wrong.chain_id, wrong.direction.value) == (beta, "executed")
    (range_,) = wrong.wrong
    assert range_.first <= lost <= range_.last
    correct(index.store, index.lake, range_)
    assert {check.verdict for check in index.check()} == {Verdict.EQUAL}
    assert History(index.store.engine, index.lake).events(beta, 0, 10**9) == before
