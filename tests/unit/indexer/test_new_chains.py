"""Many chains are followed at once: one that joins is read from its beginning, the others from where they were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexer.jobs.stream import where_to_begin
from indexer.model import schemas
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainConfig
from indexer.sources.tail import ChainTail
from indexer.store.blocks import Batch
from indexer.store.store import Store
from tests.unit.indexer.endpoint import Endpoint, reader_of
from tests.unit.indexer.logs import ALPHA, BETA, EMITTERS
from tests.unit.indexer.world import SimulatedChain, contents, executed, new_world, received, routed, sent_message


def configs_of(chains: Iterable[SimulatedChain]) -> list[ChainConfig]:
    return [
        ChainConfig(chain_id=one.chain_id, urls=("http://simulated",), start_block=0, emitters=EMITTERS[one.chain_id])
        for one in chains
    ]


def follow(store: Store, *chains: SimulatedChain) -> dict[int, list[int]]:
    """Brings the store up to the chains' heads, and returns the blocks whose events each was asked for."""
    asked: dict[int, list[int]] = {chain.chain_id: [] for chain in chains}
    configs = configs_of(chains)
    tail = ChainTail(configs, SourceLimits())
    for chain in chains:

        def note(method: str, params: Any, chain: SimulatedChain = chain) -> None:
            if method == "eth_getLogs":
                (query,) = params
                if isinstance(query["address"], str):
                    return  # the router's own, from when it was set up: they show whether filters of headers hold
                hashes = [block.hash for block in chain.blocks]
                by_hash = "blockHash" in query and hashes.index(bytes.fromhex(query["blockHash"][2:]))
                asked[chain.chain_id].append(by_hash if "blockHash" in query else int(query["fromBlock"], 16))

        tail._readers[chain.chain_id] = reader_of(Endpoint(chain, misbehave=note), SourceLimits())
    try:
        while any(position.block < chain.head for chain, position in _positions(store, configs, chains)):
            _, batches = tail.read(where_to_begin(configs, store))
            batch = Batch.from_source(pa.Table.from_batches(batches, schemas.SOURCE))
            store.apply(batch.events, batch.ranges)
    finally:
        tail.close()
    return asked


def _positions(store: Store, configs: list[ChainConfig], chains: tuple[SimulatedChain, ...]) -> list[tuple[Any, Any]]:
    positions = where_to_begin(configs, store)
    return [(chain, positions[chain.chain_id]) for chain in chains]


def test_new_chain_starts_at_its_first_block(tmp_path: Path) -> None:
    alpha, beta = new_world()
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, 21)]
    for one in sent[:15]:
        alpha.mine(routed(one))
        beta.mine(received(one, 1), executed(one))
    grown, fresh = Store(f"sqlite:///{tmp_path / 'grown.db'}"), Store(f"sqlite:///{tmp_path / 'fresh.db'}")
    try:
        first = follow(grown, alpha)
        assert min(first[ALPHA]) <= 1
        for one in sent[15:]:
            alpha.mine(routed(one))
        asked = follow(grown, alpha, beta)
        assert min(asked[ALPHA]) == 16
        assert min(asked[BETA]) <= 1
        follow(fresh, alpha, beta)
        assert contents(grown) == contents(fresh)
        assert len(contents(grown)["events"]) == len(sent) + 2 * 15
    finally:
        grown.close()
        fresh.close()
