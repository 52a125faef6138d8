"""Backfill: Spark reads long final ranges in parallel into `bronze.logs`, and the store is filled from there."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from bridge.evm.endpoint_policy import EndpointPolicy
from indexer.jobs.backfill_task import RangeReader
from indexer.jobs.repair import lake_mismatch
from indexer.model.errors import FinalityViolatedError
from indexer.model.settings import IndexSettings, SourceLimits
from indexer.model.spark_types import spark_schema
from indexer.pipeline import log_files
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.sources.position import HASH_PREFIX, ChainPosition
from indexer.store.blocks import BlockRange
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_BLOCKS_IN_A_COMMIT: Final = 200_000  # blocks of the first commit; later commits take about this many seconds
_COMMIT_SECONDS: Final = 60.0
_BLOCKS_IN_A_TASK: Final = 10_000
_FEWEST_IN_A_TASK: Final = 1_000
_TASKS_PER_CORE: Final = 2
_TRY_SECONDS: Final = 30.0  # of a task's request: a final failure costs everything that the commit has read
_BLOCKS_IN_A_FILL: Final = 50_000
_MORE_THAN_CORES: Final = 100_000
_ANSWER_SECONDS: Final = 0.3  # maximum response time of a commercial endpoint


def backfill(
    spark: SparkSession,
    chains: Sequence[ChainConfig],
    settings: IndexSettings,
    lake: Lake,
    lacking: Collection[int] = (),
) -> None:
    """Reads each chain that is far behind its last final block into the lake.

    Executors fetch logs and write them to Parquet files, which the driver adds to the table. A commit holds about a
    minute's work, so an interruption loses at most that.

    Args:
        spark: Spark session.
        chains: chains to read.
        settings: settings of the index.
        lake: the lake to extend.
        lacking: chains whose lake has lost blocks that the store has partly pruned. They are read even if only
            few blocks are missing.
    """
    for chain in chains:
        with ChainReader(chain, settings.limits) as reader:
            final = reader.final()
            there = lake.last_block(chain.chain_id)
            first = chain.start_block if there is None else there + 1
            if final is None or (final.number - first < settings.backfill_blocks and chain.chain_id not in lacking):
                continue
            if (mismatch := lake_mismatch(reader, lake)) is not None:
                log.error("lake not extended", chain=chain.chain_id, reason=mismatch)
                continue
            found, size = chain, _BLOCKS_IN_A_COMMIT
            while first <= final.number:
                last, begun = min(first + size - 1, final.number), time.monotonic()
                blocks = FinalBlocks(first, last, reader.header(last).hash)
                found = _read_into_lake(spark, found, settings.limits, lake, blocks)
                log.info("read final blocks", chain=chain.chain_id, block=last, last_final=final.number)
                first, size = last + 1, next_commit(last - first + 1, time.monotonic() - begun)


def next_commit(blocks: int, seconds: float) -> int:
    """Returns the number of blocks in the next commit, between half and twice that of the last one."""
    fitting = int(blocks * _COMMIT_SECONDS / max(seconds, 0.001))
    return max(_FEWEST_IN_A_TASK, min(2 * blocks, max(blocks // 2, fitting)))


class TaskPlan(NamedTuple):
    """The distribution of blocks over `tasks` tasks.

    Each reads ranges of `step` blocks, `at_once` ranges concurrently.
    """

    step: int
    tasks: int
    at_once: int

    @classmethod
    def of(cls, blocks: int, cores: int, policy: EndpointPolicy) -> TaskPlan:
        """Plans the distribution of a number of blocks over a number of cores, under an endpoint's policy.

        Without a rate limit, the cores are the bottleneck, so each core gets several tasks of one range. With a
        rate limit, the plan reads just enough ranges concurrently to keep the endpoint busy, in no more tasks
        than there are cores, because a waiting task would hold a share of the limit.
        """
        at_once = ranges_at_once(policy)
        shares = _TASKS_PER_CORE * max(1, cores) if at_once is None else at_once
        step = max(_FEWEST_IN_A_TASK, -(-blocks // shares))
        if at_once is None:
            step = min(_BLOCKS_IN_A_TASK, step)
            return cls(step, tasks=-(-blocks // step), at_once=1)
        ranges = -(-blocks // step)
        tasks = min(ranges, cores)
        return cls(step, tasks, at_once=-(-ranges // tasks))


def ranges_at_once(policy: EndpointPolicy) -> int | None:
    """Returns how many concurrent requests keep a rate-limited endpoint busy, or None without a rate limit."""
    rate = policy.requests_per_second
    return None if rate is None else math.ceil(rate * _ANSWER_SECONDS)


def _read_into_lake(
    spark: SparkSession, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
) -> ChainConfig:
    """Reads blocks into the lake, and returns the chain with the adapters that its router registered in them.

    Searching for registrations first would request every range twice. Most deployment files list all adapters.
    If one does not, the blocks are read again with the adapters found, since a task does not know the registrations
    in another task's blocks.
    """
    while True:
        files = _read(spark, chain, limits, lake, blocks)
        new = log_files.adapters_in(files) - chain.emitters.adapters
        if not new:
            lake.add(files, chain.chain_id, blocks)
            return chain
        log_files.delete(lake.folder, files)
        log.info("reading again with adapters missing from the deployment", chain=chain.chain_id, adapters=len(new))
        chain = chain.with_adapters(new)


def _read(spark: SparkSession, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks) -> pa.Table:
    """Returns the files with the logs of a range, as `log_files.FILES`. Executors read the chain and write the files."""
    plan = TaskPlan.of(blocks.last - blocks.first + 1, _cores(spark), chain.endpoints)
    task = RangeReader(
        chain=replace(chain, endpoints=replace(chain.endpoints.shared_by(plan.tasks), try_seconds=_TRY_SECONDS)),
        limits=limits,
        final=(blocks.last, blocks.last_hash),
        step=plan.step,
        folder=lake.folder,
        at_once=plan.at_once,
    )
    starts = spark.range(blocks.first, blocks.last + 1, plan.step, plan.tasks)
    return starts.mapInArrow(task, spark_schema(log_files.FILES)).toArrow()


def _cores(spark: SparkSession) -> int:
    """Returns the number of tasks that run concurrently. Spark splits a range into as many partitions."""
    return spark.range(_MORE_THAN_CORES).select(spark_partition_id()).distinct().count()


def fill_store(chains: Sequence[ChainConfig], settings: IndexSettings, store: Store, lake: Lake) -> None:
    """Fills the store from the lake.

    Replaces the store's blocks that were not final, because the chain may have reorganised meanwhile. Before
    that, checks the last final blocks of lake and store against the chain.

    Args:
        chains: chains to read.
        settings: settings of the index.
        store: the store to fill.
        lake: the lake to read.

    Raises:
        FinalityViolatedError: a chain has the store's last final block, but not the lake's last block.
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
            if (mismatch := lake_mismatch(reader, lake)) is not None:
                raise FinalityViolatedError(mismatch)
            if last <= position.final_block:
                continue
            parent = position.known_hash(position.final_block)
            for start in range(position.final_block + 1, last + 1, _BLOCKS_IN_A_FILL):
                end = min(start + _BLOCKS_IN_A_FILL - 1, last)
                range_ = _final_range(reader, start, end, last, parent)
                store.apply(lake.events(chain.chain_id, start, end), {chain.chain_id: range_})
                parent = range_.block_hash[:HASH_PREFIX]
                log.info("filled the store from the lake", chain=chain.chain_id, block=end, last_block=last)
            store.note_lake({chain.chain_id: last})


def _has_final(reader: ChainReader, position: ChainPosition) -> bool:
    """Returns whether the chain has the store's last final block.

    If it does not, the stream will halt the chain and report the reason.
    """
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
