"""Runs the index. Catches up, then either follows the chains until stopped, or stops at their heads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from bridge.protocol.deployment import Deployment
from indexer.jobs.backfill import backfill, fill_store
from indexer.jobs.lock import exclusive
from indexer.jobs.promotion import kept_in_lake, lost_blocks, promote
from indexer.jobs.refresh_process import RefreshProcess
from indexer.jobs.stream import Stream
from indexer.model.settings import INDEX_POLICY, IndexSettings
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainConfig, ChainReader, chain_config
from indexer.spark.outage import SPARK_ERRORS, SparkOutage
from indexer.spark.session import spark_session
from indexer.store.retention import prune
from indexer.store.retries import request_retries
from indexer.store.store import Store, adapters_of

log = structlog.get_logger(__name__)

_MOST_FAILURES_AT_ONCE = 5  # of Spark in a row, for a run that ends at the heads


class Index:
    """The store, the lake and the chains of one deployment, with a Spark session."""

    def __init__(
        self,
        deployment: Deployment,
        settings: IndexSettings,
        spark: SparkSession,
        clock: Callable[[], float] = time.time,
        outage: SparkOutage | None = None,
    ) -> None:
        """Opens store and lake.

        Args:
            deployment: deployment whose chains are indexed.
            settings: settings of the index.
            spark: Spark session with the `evm` source registered.
            clock: returns Unix seconds.
            outage: counts Spark's failures across sessions.

        Raises:
            IndexerError: the store can't be used.
        """
        self._chains = [
            chain_config(chain, settings.endpoints.get(chain.chain_id, INDEX_POLICY)) for chain in deployment.chains
        ]
        self._settings = settings
        self._spark = spark
        self._clock = clock
        self._outage = outage or SparkOutage()
        self._lake = Lake(settings.folder.lake)
        self._store = Store(settings.folder.store_url)
        self._store.save_policy(settings.stall)

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def run_once(self) -> None:
        """Reads up to the chains' current heads, and refreshes the tables.

        Raises:
            IndexerError: a chain can't be read.
        """
        self._catch_up()
        self._stream().run_to_heads()
        self._finish()
        with closing(RefreshProcess(self._settings.refresh_command)) as process:
            process.run()

    def run(self, stop: threading.Event) -> None:
        """Follows the chains until `stop` is set.

        Raises:
            IndexerError: the index can't continue.
        """
        self._catch_up()
        self._stream().follow(stop)
        self._finish()

    def _stream(self) -> Stream:
        return Stream(
            self._spark,
            self._chains,
            self._settings,
            store=self._store,
            lake=self._lake,
            clock=self._clock,
            outage=self._outage,
        )

    def _catch_up(self) -> None:
        """Backfills through the lake; the stream reads the rest."""
        if recomputed := self._store.recompute_if_outdated():
            log.info("statuses recomputed after a change of version", messages=recomputed)
        self._follow_adapters()
        self._store.halt({chain.chain_id: None for chain in self._chains})
        promote(self._store, self._lake, start_blocks(self._chains))
        lacking = lost_blocks(self._store, self._lake, start_blocks(self._chains))
        backfill(self._spark, self._chains, self._settings, self._lake, lacking)
        fill_store(self._chains, self._settings, self._store, self._lake)
        prune(self._store.engine, int(self._clock()) - self._settings.keep_ended, kept_in_lake(self._store, self._lake))
        self._follow_adapters()

    def _follow_adapters(self) -> None:
        """Adds the adapters that routers registered after the deployment, because these emit Waybill's events too."""
        taken = adapters_of(self._store.engine)
        self._chains = [chain.with_adapters(taken.get(chain.chain_id, ())) for chain in self._chains]

    def _finish(self) -> None:
        promote(self._store, self._lake, start_blocks(self._chains))
        request_retries(self._store.engine, self._settings.stall, self._clock())


def start_blocks(chains: list[ChainConfig]) -> dict[int, int]:
    """Returns each chain's first block to read."""
    return {chain.chain_id: chain.start_block for chain in chains}


def check_chains(deployment: Deployment, settings: IndexSettings) -> None:
    """Reads each chain's head, to report a wrong URL before Spark starts.

    Raises:
        WrongChainError: an endpoint serves a different chain.
        RpcError: a chain can't be reached.
    """
    for chain in deployment.chains:
        with ChainReader(
            chain_config(chain, settings.endpoints.get(chain.chain_id, INDEX_POLICY)), settings.limits
        ) as reader:
            head = reader.head()
        log.info("chain reached", chain=chain.name, chain_id=chain.chain_id, head=head.number)


def run_index(
    deployment: Deployment,
    settings: IndexSettings,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    master: str | None = None,
) -> None:
    """Runs the index in its own Spark session. After an outage, continues in a new session.

    Args:
        deployment: deployment whose chains are indexed.
        settings: settings of the index.
        once: whether to stop at the chains' heads.
        stop: event that stops the index; if None, the index runs until it fails.
        master: master URL of a Spark cluster; see `spark_session`.

    Raises:
        IndexerError: the index can't start or continue, or another index is using its folder.
    """
    stop = stop or threading.Event()
    check_chains(deployment, settings)
    with _alone_in(settings.folder.path):
        log.info("starting Spark", folder=str(settings.folder.path))
        outage = SparkOutage(most=_MOST_FAILURES_AT_ONCE if once else None)
        while not stop.is_set():
            try:
                with spark_session(master, log_file=settings.folder.path / "spark.log") as spark:
                    if stop.is_set():
                        break
                    log.info("Spark has started")
                    index = Index(deployment, settings, spark, outage=outage)
                    with closing(index):
                        index.run_once() if once else index.run(stop)
                    break
            except SPARK_ERRORS as error:
                outage.failed(error)
                stop.wait(outage.wait)
        log.info("stopped")


def run_backfill(deployment: Deployment, settings: IndexSettings, *, master: str | None = None) -> None:
    """Reads all final blocks of each chain into the lake, and stops.

    Args:
        deployment: deployment whose chains are indexed.
        settings: settings of the index.
        master: master URL of a Spark cluster; see `spark_session`.

    Raises:
        IndexerError: the index is running in the same folder, or a chain can't be read.
    """
    check_chains(deployment, settings)
    with (
        _alone_in(settings.folder.path),
        spark_session(master, log_file=settings.folder.path / "spark.log") as spark,
    ):
        lake = Lake(settings.folder.lake)
        chains = [
            chain_config(chain, settings.endpoints.get(chain.chain_id, INDEX_POLICY)) for chain in deployment.chains
        ]
        backfill(spark, chains, settings, lake, lacking=[chain.chain_id for chain in chains])


def _alone_in(folder: Path) -> AbstractContextManager[None]:
    """Locks the index's folder, because two processes would overwrite each other's stream files."""
    return exclusive(folder / "index.lock", "an index", "end it first, or name another WAYBILL_HOME")
