"""The Spark session of the index."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from indexer.java import java_home
from indexer.sinks.lake_format import LakeDataSource
from indexer.sources.evm import EvmDataSource

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Times are integers, Unix seconds; nothing depends on it, but a report must not differ between machines.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Micro-batches are small and the checkpoint is made new at every start: nothing in it is worth keeping.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}


@contextmanager
def spark_session(master: str = "local[2]") -> Iterator[SparkSession]:
    """Starts Spark with the `evm` source and the `waybill_lake` sink, and stops it at the end.

    Raises:
        JavaNotFound: there is no Java to run it.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("waybill-index")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(EvmDataSource)
    session.dataSource.register(LakeDataSource)
    try:
        yield session
    finally:
        session.stop()
