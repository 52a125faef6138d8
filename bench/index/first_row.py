"""(d) A new process, a new session, and the first row from a chain: `python -m bench.index.first_row URL`."""

from __future__ import annotations

import json
import sys

from bench.index.history import ROUTER, SOURCE
from indexer.decode.events import Emitters
from indexer.model.settings import SourceLimits
from indexer.sources import evm, options
from indexer.sources.chain import ChainConfig
from indexer.spark.session import spark_session


def main() -> None:
    """Exits after the first row."""
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    chain = ChainConfig(chain_id=SOURCE, urls=(sys.argv[1],), start_block=0, emitters=emitters)
    with spark_session() as spark:
        rows = (
            spark.read.format(evm.FORMAT)
            .option(evm.CHAINS, options.encode_chains([chain]))
            .option(evm.LIMITS, options.encode_limits(SourceLimits()))
            .option(evm.RANGES, json.dumps([(SOURCE, 0, 1)]))
            .load()
            .take(1)
        )
        assert len(rows) == 1


if __name__ == "__main__":
    main()
