"""The Spark session of the index."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from indexer.java import java_home
from indexer.sources.evm import EvmDataSource

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Times are integers, Unix seconds; nothing depends on it, but a report must not differ between machines.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Micro-batches are small and the checkpoint is made new at every start: nothing in it is worth keeping.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    # Spark remembers a thousand jobs for its pages, which are off. An index has that many in half an hour, and what is kept for
    # so long is garbage of the kind that a JVM rather grows than looks for.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.ui.enabled": "false",
    # Code that is written and compiled for each plan pays off from thousands of rows on. A micro-batch has some ten, and
    # what has many is read by Spark's tasks without its SQL (docs/decisions/0025, with what was measured and what was not).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # Plain files without checksums: nobody ever reads what this checkpoint says.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A task of a backfill frees and takes the same megabytes for each answer: glibc would give them back to the system, which
    # has to clear them each time (docs/decisions/0023). 32 MB is as far as it goes with what it maps; other C libraries ignore it.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

_ON_THIS_MACHINE = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # On one machine the JVM distributes work that DuckDB, numpy and Python do: its second compiler and a collector with threads
    # of its own only take cores from them. It needs 70 MB, and starts with 192 whatever the machine has (docs/decisions/0025).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms192m -XX:MetaspaceSize=128m",
}

_LOCAL = "local[2]"


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """Starts Spark with the `evm` source, and stops it at the end.

    Args:
        master: of a cluster, such as ``spark://host:7077``. None is what `spark-submit` was told if it started this process,
            else two threads on this machine. On a cluster, memory, cores and hosts are what the cluster's own settings or
            `PYSPARK_SUBMIT_ARGS` say, and executors run `PYSPARK_PYTHON`, by default the path of this Python.

    Raises:
        JavaNotFound: there is no Java to run it.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = master is None and not submitted
    if not submitted:
        os.environ["JAVA_HOME"] = str(java_home())
    if is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("waybill-index")
    if told := _LOCAL if is_local else master:
        builder = builder.master(told)
    for name, value in (_SETTINGS | (_ON_THIS_MACHINE if is_local else {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(EvmDataSource)
    try:
        yield session
    finally:
        session.stop()
