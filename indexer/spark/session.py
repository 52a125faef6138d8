"""Spark sessions: one for the small batches of the running index, and one for the commands that compute tables."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from indexer.sources.evm import EvmDataSource
from indexer.spark.jars import delta_jars
from indexer.spark.java import java_home
from indexer.spark.outage import SPARK_ERRORS

_COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Times are integers, Unix seconds. Nothing depends on the time zone, but a report must not differ between machines.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The default of fifty partitions to read a table's log is meant for tables with many thousand files.
    "spark.databricks.delta.snapshotPartitions": "2",
}

# Generated code and adaptive plans pay off from thousands of rows on. With fewer, planning and compiling dominate.
_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

_STREAM = _FEW_ROWS | {
    # The checkpoint is created anew at every start, so nothing in it is worth keeping.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    # By default Spark keeps a thousand jobs for its UI. An index runs that many in half an hour.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
}

_TABLES = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.adaptive.enabled": "true",
    # The optimizer would infer constraints of some fifty columns through every join: minutes, for a plan that runs for seconds.
    "spark.sql.constraintPropagation.enabled": "false",
    # VACUUM lists a folder in that many tasks, by default ten thousand.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}

_ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

_STREAM_HERE = {
    # Hadoop's default writes a second file with checksums and starts a `chmod` process for each file of the checkpoint. Without it,
    # a micro-batch takes a third less time. Spark has checksums of its own.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

_TABLES_HERE = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}

# Java's second compiler competes with the queries for cores, and pays off only for long histories. A broadcast is a job of its
# own, and one partition needs neither broadcasts nor shuffles.
_SHORT_HISTORY_HERE = _FEW_ROWS | {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
LONG_HISTORY = 200_000  # events

_LOCAL, _ALL_CORES = "local[2]", "local[*]"
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_WORKER_PYTHON = Path(__file__).with_name("worker-python")


@contextmanager
def spark_session(master: str | None = None, *, log_file: Path | None = None) -> Iterator[SparkSession]:
    """Starts Spark with the source `evm`, and stops it at the end.

    A session whose JVM is gone is discarded, so that a new one can start.

    Args:
        master: master URL of a cluster, such as ``spark://host:7077``. None means the master of `spark-submit`
            if that started this process, otherwise two threads on this machine. On a cluster, memory, cores and
            hosts come from the cluster's own settings or `PYSPARK_SUBMIT_ARGS`, and executors run `PYSPARK_PYTHON`,
            by default the path of this Python.
        log_file: path of Spark's own log on this machine; None disables it. On a cluster, the cluster's
            configuration decides.

    Raises:
        JavaNotFoundError: no Java suitable for Spark was found.
    """
    here = {**_ON_THIS_MACHINE, **_STREAM_HERE, "spark.master": _LOCAL}
    with _started(master, _COMMON | _STREAM, here, log_file, starting=_own_interrupts()) as session:
        session.dataSource.register(EvmDataSource)
        yield session


@contextmanager
def batch_session(master: str | None = None, *, events: int = 0) -> Iterator[SparkSession]:
    """Starts a session that computes tables, on all cores of this machine.

    In a process that already has a session, such as a notebook, this is a new session of the same Spark, which
    keeps running afterwards.

    Args:
        master: as for `spark_session`; ``sc://host:15002`` is a Spark Connect server, which needs `pyspark[connect]`.
        events: approximate number of events. It determines how Spark compiles queries on this machine.

    Raises:
        JavaNotFoundError: no Java suitable for Spark was found.
    """
    short = _SHORT_HISTORY_HERE if events < LONG_HISTORY else {}
    if (active := SparkSession.getActiveSession()) is not None:
        session = active.newSession()
        for name, value in (_TABLES | short).items():
            if not name.startswith("spark.driver"):
                session.conf.set(name, value)
        yield session
        return
    here = {**_ON_THIS_MACHINE, **_TABLES_HERE, **short, "spark.master": _ALL_CORES}
    with _started(master, _COMMON | _TABLES, here, None) as session:
        yield session


@contextmanager
def _started(
    master: str | None,
    settings: dict[str, str],
    here: dict[str, str],
    log_file: Path | None,
    starting: AbstractContextManager[None] | None = None,
) -> Iterator[SparkSession]:
    """Yields a session. `here` are settings that apply only on this machine; `starting` is active during the start."""
    with starting or nullcontext():
        session = _start(master, settings, here, log_file)
    is_lost = False
    try:
        yield session
    except CapturedException as error:
        is_lost = True
        raise PySparkException(str(error)) from error  # it asks the session for its own text, and that ends now
    except SPARK_ERRORS:
        is_lost = True
        raise
    finally:
        _forget(session) if is_lost else session.stop()


def _start(master: str | None, settings: dict[str, str], here: dict[str, str], log_file: Path | None) -> SparkSession:
    is_local = is_here(master)
    if not _is_submitted():
        os.environ["JAVA_HOME"] = str(java_home())
    if is_local:
        os.environ["LOG4J_CONFIGURATION_FILE"] = str(_LOG_CONFIGURATION)
        os.environ["SPARK_LOG_FILE"] = str(log_file or os.devnull)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # else Spark warns of a host name that means this machine
        python = str(_WORKER_PYTHON) if os.access(_WORKER_PYTHON, os.X_OK) else sys.executable
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
        os.environ["PYTHON_OF_SPARK_WORKERS"] = sys.executable
    elif os.environ.get("PYSPARK_PYTHON") in (None, str(_WORKER_PYTHON)):  # of an earlier session on this machine
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("waybill-index")
    if master is None or not master.startswith("sc://"):  # a Connect server has its own
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in delta_jars()))
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in (settings | (here if is_local else {})).items():
        builder = builder.config(name, value)
    _silence_py4j()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return builder.getOrCreate()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Lets Ctrl-C reach only this process and its own handler.

    A terminal sends the signal to Java and its workers too, which would fail in the middle of their work. So
    they start with the signal blocked. PySpark's own handler would cancel all jobs, and raise a Java error in
    the threads that wait for a job.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def is_here(master: str | None) -> bool:
    """Returns whether Spark runs only on this machine. `master` is as for `spark_session`."""
    return master is None and not _is_submitted()


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _silence_py4j() -> None:
    """Suppresses the stack traces that py4j and PySpark's threads print when the JVM is gone.

    The error itself is still raised.
    """
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_not_py4j)
    setattr(AccumulatorTCPServer, "handle_error", lambda *_: None)  # noqa: B010  a method, as mypy sees it


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return "/py4j/" not in record.pathname


def _forget(session: SparkSession) -> None:
    """Discards a session whose JVM may be gone, so that PySpark starts a new JVM."""
    gateway = SparkContext._gateway
    with suppress(Exception):
        session.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        if (process := getattr(gateway, "proc", None)) is not None:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
