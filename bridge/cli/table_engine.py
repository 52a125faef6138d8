"""What computes the index's tables: Spark, unless DuckDB is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.output import CliError, UsageError, progress
from indexer.model.settings import TableEngineName

if TYPE_CHECKING:
    from indexer.model.storage_location import StorageLocation
    from indexer.model.tables import TableEngine


Engine = Annotated[
    TableEngineName,
    typer.Option(
        "--engine",
        envvar="WAYBILL_INDEX_ENGINE",
        help="What computes the tables. spark: this machine's cores or a cluster; starting it takes some seconds. "
        "duckdb: one process, for a quick look. Both give the same rows.",
    ),
]

Explain = Annotated[
    bool, typer.Option("--explain", help="Print the engine's plan of each query on stderr before it runs.")
]


@contextmanager
def opened(
    engine: TableEngineName, master: str | None, lake: StorageLocation, *, explain: bool, is_for_new: bool = False
) -> Iterator[TableEngine]:
    """The engine that was asked for, ready to compute.

    Args:
        engine: which one.
        master: of a Spark cluster; None is this machine, or what `spark-submit` was told.
        lake: whose events there are to compute from.
        explain: print each plan.
        is_for_new: compute from the events that the lake's tables lack, not from all.

    Raises:
        UsageError: a cluster was named for DuckDB, which works in this process alone.
        CliError: Spark did not start.
    """
    show = _show if explain else None
    if engine is TableEngineName.DUCKDB:
        if master is not None:
            raise UsageError(
                f"--engine duckdb computes in this process, not on {master}",
                next_step="leave out --master and WAYBILL_SPARK_MASTER, or --engine duckdb",
            )
        from indexer.lake.lake_tables import DuckdbEngine

        yield DuckdbEngine(show)
        return
    progress(f"starting Spark {'on this machine' if master is None else f'at {master}'}")
    # Spark takes a second to import, which no other command has to wait for.
    from indexer.lake.increment import events_to_read
    from indexer.lake.lake import events_in
    from indexer.spark.java import JavaNotFoundError
    from indexer.spark.outage import SPARK_ERRORS, reason_of
    from indexer.spark.session import batch_session
    from indexer.spark.tables import SparkEngine

    events = events_to_read(lake) if is_for_new else events_in(lake)
    with ExitStack() as stack:
        try:
            spark = stack.enter_context(batch_session(master, events=events))
        except (JavaNotFoundError, *SPARK_ERRORS) as error:
            raise CliError(
                f"Spark did not start: {reason_of(error)}",
                next_step="the same command with --engine duckdb needs no Spark",
            ) from error
        yield SparkEngine(spark, show)


def _show(name: str, plan: str) -> None:
    progress(f"plan of {name}:\n{plan}")
