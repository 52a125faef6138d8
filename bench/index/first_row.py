"""(d) A new process, a new session, and the first row from a chain: `python -m bench.index.first_row URL`."""

from __future__ import annotations

import sys
import tempfile

from bench.index.history import ROUTER, SOURCE
from indexer.decode.events import Emitters
from indexer.jobs.backfill_task import RangeReader
from indexer.model.settings import SourceLimits
from indexer.model.spark_types import spark_schema
from indexer.model.storage_location import StorageLocation
from indexer.pipeline import log_files
from indexer.sources.chain import ChainConfig
from indexer.spark.session import spark_session


def main() -> None:
    """Exits after the first row."""
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    chain = ChainConfig(chain_id=SOURCE, urls=(sys.argv[1],), start_block=0, emitters=emitters)
    with tempfile.TemporaryDirectory() as folder, spark_session() as spark:
        task = RangeReader(chain, SourceLimits(), (1, (1).to_bytes(32)), step=2, folder=StorageLocation(folder))
        rows = spark.range(0, 1, 1, 1).mapInArrow(task, spark_schema(log_files.FILES)).take(1)
        assert len(rows) == 1


if __name__ == "__main__":
    main()
