"""Bronze: raw logs of final blocks. `indexer.lake` appends those that the running index has read, `append` those of a backfill."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from indexer.lake.lake import TABLE, FinalBlocks, Lake, commit_metadata
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation

_ALL_AT_ONCE = 2**31 - 1


def append(logs: DataFrame, lake: Lake, chain: int, blocks: FinalBlocks) -> None:
    """Adds final logs of one chain in one commit; the same call again changes nothing.

    Args:
        logs: `schemas.LOGS`.
        lake: the lake.
        chain: its id.
        blocks: whose logs they are.

    Raises:
        RangeGapError: the blocks do not begin behind those that are in the lake.
    """
    if lake.folder.is_bucket:  # Spark's own S3 client is not in its wheel
        lake.append(logs.toArrow(), {chain: blocks})
        return
    lake.check_follows({chain: blocks})
    (
        logs.select(*schemas.LOGS.names)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", str(chain))
        .option("txnVersion", blocks.last)
        .option("userMetadata", commit_metadata({chain: blocks}))
        .save(lake.folder.uri)
    )


def stream(spark: SparkSession, lake: StorageLocation) -> DataFrame:
    """The logs as a stream of Delta commits, `schemas.LOGS`.

    The first batch of a checkpoint has all logs that are there. Repairs are skipped: they have everything computed again.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _ALL_AT_ONCE)
    return reader.option("skipChangeCommits", "true").load(lake.table(TABLE).uri)
