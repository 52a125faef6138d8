"""(g) A commercial endpoint: how close a backfill gets to its limits, against cryo and a web3.py loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from web3 import HTTPProvider, Web3

from bench.index.endpoint import BLOCKS_FOR_LOGS, CALLS_PER_SECOND, MOST_BLOCKS, endpoint
from bench.index.history import LOGS_OF_A_BLOCK, ROUTER, SOURCE
from bench.index.ingest import cryo_is_there, run_cryo
from indexer.decode.events import Emitters
from indexer.jobs.backfill import backfill
from indexer.lake.lake import Lake
from indexer.model.settings import INDEX_POLICY, IndexFolder, IndexSettings
from indexer.sources.chain import ChainConfig

_LOOP_SHARE: Final = 4  # the loop reads the first blocks of so many


def from_sold_endpoint(spark: SparkSession, folder: Path, logs: int) -> dict[str, Any]:
    """Returns logs per second of each reader in turn, and the index's share of the endpoint's limit.

    The limit is `CALLS_PER_SECOND` answers of `MOST_BLOCKS` blocks each. The index and the loop must have every log;
    cryo may skip
    failed ranges, and then gets no figure.

    Args:
        spark: Session of the index.
        folder: Folder for output.
        logs: Approximate number of logs.
    """
    blocks = -(-logs // LOGS_OF_A_BLOCK // (MOST_BLOCKS // BLOCKS_FOR_LOGS)) * MOST_BLOCKS
    found = blocks // BLOCKS_FOR_LOGS * LOGS_OF_A_BLOCK
    allowed = found / (blocks / MOST_BLOCKS / CALLS_PER_SECOND)
    lake, out = Lake(folder / "lake"), folder / "cryo"
    rates: dict[str, float] = {}
    missing: int | None = None
    with endpoint(blocks, sold=True) as url:
        rates["sold"] = found / _seconds(partial(_backfill, spark, url, folder, lake))
    if (logs_read := _logs_of(DeltaTable(lake.folder.root).file_uris())) != found:
        raise AssertionError(f"the lake has {logs_read} logs, not {found}")
    with endpoint(blocks, sold=True) as url:
        if cryo_is_there():
            begun = time.monotonic()
            is_whole = run_cryo(url, blocks, out, range_=MOST_BLOCKS, rate=CALLS_PER_SECOND)
            taken = time.monotonic() - begun
            missing = found - _logs_of([f"{out}/*.parquet"] if any(out.glob("*.parquet")) else [])
            if is_whole and not missing:
                rates["sold_cryo"] = found / taken
    with endpoint(blocks, sold=True) as url:
        few = max(MOST_BLOCKS, blocks // _LOOP_SHARE // MOST_BLOCKS * MOST_BLOCKS)
        read: list[int] = []
        taken = _seconds(lambda: read.append(_loop(url, few)))
        rates["sold_loop"] = read[0] / taken
        if read[0] != few // BLOCKS_FOR_LOGS * LOGS_OF_A_BLOCK:
            raise AssertionError(f"the loop has {read[0]} logs of {few} blocks")
    return {f"{name}_logs_per_s": round(rate) for name, rate in rates.items()} | {
        "sold_allowed_logs_per_s": round(allowed),
        "sold_cryo_missing_logs": missing,
        "endpoint_fraction": round(rates["sold"] / allowed, 3),
        **{f"{name}_fraction": round(rate / allowed, 3) for name, rate in rates.items() if name != "sold"},
    }


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _backfill(spark: SparkSession, url: str, folder: Path, lake: Lake) -> None:
    """Runs a backfill with the one setting that an operator takes from the provider's price list."""
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    policy = replace(INDEX_POLICY, requests_per_second=float(CALLS_PER_SECOND))
    config = ChainConfig(chain_id=SOURCE, urls=(url,), start_block=0, emitters=emitters, endpoints=policy)
    backfill(spark, [config], IndexSettings(folder=IndexFolder(path=folder), backfill_blocks=1), lake)


def _loop(url: str, blocks: int) -> int:
    """Returns the number of logs read by a simple loop over ranges that retries after errors."""
    web3, count = Web3(HTTPProvider(url)), 0
    for first in range(0, blocks, MOST_BLOCKS):
        query = {"fromBlock": first, "toBlock": first + MOST_BLOCKS - 1, "address": Web3.to_checksum_address(ROUTER)}
        while True:
            try:
                count += len(web3.eth.get_logs(query))  # type: ignore[arg-type]  # a plain dict does
                break
            except OSError:  # of the HTTP client: a status that is an error
                time.sleep(1)
    return count


def _logs_of(files: list[str]) -> int:
    """Returns the number of distinct logs in files."""
    if not files:
        return 0
    with duckdb.connect() as connection:
        text = "select count(distinct (block_number, log_index)) from read_parquet($files)"
        (found,) = connection.execute(text, {"files": files}).fetchall()[0]
    return int(found)
