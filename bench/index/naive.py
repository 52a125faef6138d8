"""A baseline: a Spark source that uses web3.py and yields a row per log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from web3 import HTTPProvider, Web3

from bridge.protocol.events import load_abi

_STEP: Final = 50  # blocks, with some 5,000 logs
COLUMNS: Final = {
    "block_number": "bigint",
    "log_index": "bigint",
    "block_hash": "binary",
    "transaction_hash": "binary",
    "event": "string",
    "message_id": "binary",
    "gmp": "int",
    "gmps": "int",
    "retriable": "boolean",
    "receipts": "int",
    "envelope": "binary",
}
_PARAMETERS: Final = {
    "message_id": "messageId",
    "gmp": "gmp",
    "gmps": "gmps",
    "retriable": "retriable",
    "receipts": "receipts",
    "envelope": "envelope",
}


class NaiveSource(DataSource):
    """The source, with the options `url`, `router` and `blocks`."""

    @classmethod
    def name(cls) -> str:
        """Returns the format name for `spark.read.format`."""
        return "naive"

    def schema(self) -> str:
        """Returns a subset of the columns of `indexer.model.schemas.EVENTS`."""
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: Any) -> NaiveReader:  # noqa: ARG002  Spark's interface
        """Returns a reader of all blocks."""
        return NaiveReader(self.options["url"], self.options["router"], int(self.options["blocks"]))


class NaiveReader(DataSourceReader):
    """Reads in two tasks."""

    def __init__(self, url: str, router: str, blocks: int) -> None:
        self._url, self._router, self._blocks = url, router, blocks

    def partitions(self) -> list[InputPartition]:
        """Returns two halves of the blocks."""
        half = self._blocks // 2
        return [InputPartition((0, half - 1)), InputPartition((half, self._blocks - 1))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yields a row per log, decoded by web3.py."""
        web3 = Web3(HTTPProvider(self._url))
        abi = load_abi("Router")
        contract = web3.eth.contract(Web3.to_checksum_address(self._router), abi=abi)
        known = [contract.events[part["name"]]() for part in abi if part["type"] == "event"]
        events = {bytes.fromhex(event.topic[2:]): event for event in known}
        first, last = partition.value
        for start in range(first, last + 1, _STEP):
            query = {"fromBlock": start, "toBlock": min(start + _STEP - 1, last), "address": contract.address}
            for log in web3.eth.get_logs(query):  # type: ignore[arg-type]  # a plain dict does
                event = events[bytes(log["topics"][0])].process_log(log)
                yield (
                    log["blockNumber"],
                    log["logIndex"],
                    bytes(log["blockHash"]),
                    bytes(log["transactionHash"]),
                    event["event"],
                    *(event["args"].get(parameter) for parameter in _PARAMETERS.values()),
                )
