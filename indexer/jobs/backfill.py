"""Long final ranges: Spark reads them in parallel straight into the lake, and the store is filled from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from bridge.rpc.policy import EndpointPolicy
from indexer.jobs.backfill_task import MANIFEST, RangeReader
from indexer.jobs.maintain import let_go_of_ended
from indexer.jobs.repair import misfit_of_lake
from indexer.lake.lake import FinalBlocks, Lake
from indexer.model.errors import FinalityViolatedError
from indexer.model.settings import IndexSettings, SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.sources.position import HASH_PREFIX, ChainPosition
from indexer.store.blocks import BlockRange
from indexer.store.store import Store
from indexer.transforms.arrow import map_in_arrow

log = structlog.get_logger(__name__)

_BLOCKS_IN_A_COMMIT: Final = 200_000
_BLOCKS_IN_A_TASK: Final = 10_000
_FEWEST_IN_A_TASK: Final = 1_000
_TASKS_PER_CORE: Final = 2
_BLOCKS_IN_A_FILL: Final = 50_000
_MORE_THAN_CORES: Final = 100_000


def backfill(spark: SparkSession, chains: Sequence[ChainConfig], settings: IndexSettings, lake: Lake) -> None:
    """Brings the lake up to the last final block of each chain that is far behind it.

    Executors fetch, decode and write Parquet; the driver makes one commit per chain and 200,000 blocks. No event passes
    through the JVM: Spark distributes ranges of blocks and collects what the files are called.
    """
    for chain in chains:
        with ChainReader(chain, settings.limits) as reader:
            final = reader.final()
            there = lake.last_block(chain.chain_id)
            first = chain.start_block if there is None else there + 1
            if final is None or final.number - first < settings.backfill_blocks:
                continue
            if (misfit := misfit_of_lake(reader, lake)) is not None:
                log.error("nothing is added to the lake", chain=chain.chain_id, reason=misfit)
                continue
            found = chain
            for start in range(first, final.number + 1, _BLOCKS_IN_A_COMMIT):
                last = min(start + _BLOCKS_IN_A_COMMIT - 1, final.number)
                blocks = FinalBlocks(start, last, reader.header(last).hash)
                found = _read_into_lake(spark, found, settings.limits, lake, blocks)
                log.info("read final blocks", chain=chain.chain_id, block=last, of=final.number)


def blocks_in_a_task(blocks: int, cores: int) -> int:
    """How many of these blocks one task reads, so that every core has something to do and no task is worth nothing."""
    shared = -(-blocks // (_TASKS_PER_CORE * max(1, cores)))
    return min(_BLOCKS_IN_A_TASK, max(_FEWEST_IN_A_TASK, shared))


def tasks_at_once(ranges: int, policy: EndpointPolicy, cores: int) -> int:
    """Into how many tasks so many ranges are put: where an endpoint has a limit, only as many as really run at once."""
    if policy.concurrency is None and policy.requests_per_second is None:
        return ranges
    return max(1, min(ranges, cores, policy.concurrency or cores))


def _read_into_lake(
    spark: SparkSession, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
) -> ChainConfig:
    """Returns the chain with the adapters that its router took in these blocks.

    Looking for these first would ask for every range twice. Most deployments name all of them, and those that do not are read
    again: a task does not know what another one's blocks have registered.
    """
    manifests = _read(spark, chain, limits, lake, blocks)
    while new := {adapter for one in manifests for adapter in one["new_adapters"]} - chain.emitters.adapters:
        log.info(
            "reading again with adapters that the deployment does not name", chain=chain.chain_id, adapters=len(new)
        )
        chain = chain.with_adapters(new)
        manifests = _read(spark, chain, limits, lake, blocks)
    lake.commit(manifests, {chain.chain_id: blocks})
    return chain


def _read(
    spark: SparkSession, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
) -> list[dict[str, Any]]:
    """The manifests of files that hold the events of these blocks; no commit names them yet."""
    cores = _cores(spark)
    step = blocks_in_a_task(blocks.last - blocks.first + 1, cores)
    starts = range(blocks.first, blocks.last + 1, step)
    at_once = tasks_at_once(len(starts), chain.endpoints, cores)
    shared = replace(chain, endpoints=chain.endpoints.shared_by(at_once))
    task = RangeReader(shared, limits, lake.folder, (blocks.last, blocks.last_hash), step)
    tasks = spark.range(blocks.first, blocks.last + 1, step, at_once)
    return [row.asDict() for row in map_in_arrow(tasks, task, MANIFEST).collect()]


def _cores(spark: SparkSession) -> int:
    """How many tasks run at once, here or on the cluster: as many as parts that Spark puts a range in."""
    return spark.range(_MORE_THAN_CORES).select(spark_partition_id()).distinct().count()


def fill_store(
    chains: Sequence[ChainConfig], settings: IndexSettings, store: Store, lake: Lake, ended_before: int
) -> None:
    """Brings the store up to where the lake is; messages that had ended long before stay in the lake alone.

    The store's blocks that were not final are replaced, too: while nobody looked, the chain may have taken them back. Before
    anything is joined, the last final blocks of both, lake and store, are compared with the chain's.

    Args:
        chains: the chains.
        settings: how to read them.
        store: to be filled.
        lake: where from.
        ended_before: Unix seconds of block time; see `let_go_of_ended`.

    Raises:
        FinalityViolatedError: a chain does not have the lake's last block, though it has the store's last final one.
        RpcError: a chain can't be read.
    """
    positions = store.positions()
    for chain in chains:
        position = positions.get(chain.chain_id, ChainPosition.before(chain.start_block))
        last = lake.last_block(chain.chain_id)
        if last is None:
            continue
        with ChainReader(chain, settings.limits) as reader:
            if not _has_final(reader, position):
                continue
            if (misfit := misfit_of_lake(reader, lake)) is not None:
                raise FinalityViolatedError(misfit)
            if last <= position.final_block:
                continue
            parent = position.known_hash(position.final_block)
            for start in range(position.final_block + 1, last + 1, _BLOCKS_IN_A_FILL):
                end = min(start + _BLOCKS_IN_A_FILL - 1, last)
                range_ = _final_range(reader, start, end, last, parent)
                store.apply(lake.events(chain.chain_id, start, end), {chain.chain_id: range_})
                parent = range_.block_hash[:HASH_PREFIX]
                log.info("filled the store from the lake", chain=chain.chain_id, block=end, of=last)
            store.note_lake({chain.chain_id: last})
        let_go_of_ended(store, lake, ended_before)


def _has_final(reader: ChainReader, position: ChainPosition) -> bool:
    """Whether the chain has the store's last final block. If it has not, the stream halts the chain, and says why."""
    return not position.final_hash or reader.has(position.final_block, position.final_hash)


def _final_range(reader: ChainReader, first: int, last: int, head: int, parent: bytes | None) -> BlockRange:
    header = reader.header(last)
    return BlockRange(
        first=first,
        parent_hash=parent,
        position=ChainPosition(block=last, hashes=header.hash[:HASH_PREFIX], final_block=last, final_hash=header.hash),
        block_hash=header.hash,
        block_time=header.time,
        head_block=head,
    )
