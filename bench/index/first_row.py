"""(d) A new process, a new session, and the first row from a chain: `python -m bench.index.first_row URL`."""

from __future__ import annotations

import sys

from bench.index.history import ROUTER, SOURCE
from indexer.decode.events import Emitters
from indexer.model import schemas
from indexer.model.settings import SourceLimits
from indexer.model.spark_types import spark_schema
from indexer.sources.backfill_task import RangeReader
from indexer.sources.chain import ChainConfig
from indexer.spark.session import spark_session


def main() -> None:
    """Exits after the first row."""
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    chain = ChainConfig(chain_id=SOURCE, urls=(sys.argv[1],), start_block=0, emitters=emitters)
    with spark_session() as spark:
        task = RangeReader(chain, SourceLimits(), final=(1, (1).to_bytes(32)), step=2)
        rows = spark.range(0, 1, 1, 1).mapInArrow(task, spark_schema(schemas.LOGS)).take(1)
        assert len(rows) == 1


if __name__ == "__main__":
    main()
