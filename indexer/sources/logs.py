"""The events of a range of blocks; an answer that holds anything but the logs asked for is no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from indexer.decode.events import REGISTRATIONS, Emitters, events_table, registered_adapters
from indexer.decode.logs import MalformedLogsError, RawLogs, raw_logs
from indexer.decode.scan import scan
from indexer.sources.answers import TransientRpcError, UnknownBlockError, parsed_result
from indexer.sources.headers import Headers
from indexer.sources.position import Header
from indexer.sources.ranges import AdaptiveRanges
from indexer.sources.rpc import ChainRpc

_TAIL: Final = 8
"""Newest blocks of a range whose logs are asked for by block hash: an endpoint whose other half lags behind answers a range
of numbers with the logs it has, but refuses a hash that it does not know."""


class EventReader:
    """Reads events of Waybill's contracts on one chain."""

    def __init__(self, rpc: ChainRpc, headers: Headers, emitters: Emitters) -> None:
        """Reads logs of `emitters` through `rpc`."""
        self._rpc = rpc
        self._headers = headers
        self._emitters = emitters
        self._ranges = AdaptiveRanges()

    def read(self, first: int, last: int, headers: Sequence[Header]) -> Iterator[tuple[int, pa.Table]]:
        """The events of blocks `first`…`last`.

        Args:
            first: the first block.
            last: the last block, included.
            headers: of the newest blocks of the range, up to `last`; logs of other blocks of that height are refused.

        Yields:
            Up to which block has been read, and the events since the last pair.

        Raises:
            UnknownBlockError: the chain changed while it was read.
            RpcError: no usable answer.
        """
        by_number = {header.number: header for header in headers}
        by_hash = headers[-_TAIL:]
        last_in_ranges = by_hash[0].number - 1 if by_hash else last
        for end, logs in self._ranges.read(first, last_in_ranges, self._logs_between):
            known = by_number.get(end)
            if known is not None and self._headers.at(end).hash != known.hash:
                raise self._changed(end)
            yield end, self._events(logs, by_number)
        for header in by_hash:
            logs = self._logs({"blockHash": "0x" + header.hash.hex()}, header.number, header.number)
            yield header.number, self._events(logs, by_number)

    def adapters(self, first: int, last: int) -> frozenset[bytes]:
        """The adapters that the router took in these blocks, asked for alone: far fewer logs than all.

        Raises:
            RpcError: no usable answer.
        """
        query = {
            "address": "0x" + self._emitters.router.hex(),
            "topics": [["0x" + topic.hex() for topic in REGISTRATIONS]],
        }
        found: set[bytes] = set()
        for _, logs in AdaptiveRanges().read(
            first, last, lambda start, end: self._answer(_between(start, end) | query, start, end)
        ):
            found |= registered_adapters(logs, self._emitters.router).keys()
        return frozenset(found)

    def _changed(self, number: int) -> UnknownBlockError:
        return UnknownBlockError(f"chain {self._emitters.chain_id} changed at block {number} while it was read")

    def _logs_between(self, first: int, last: int) -> RawLogs:
        return self._logs(_between(first, last), first, last)

    def _logs(self, blocks: Mapping[str, str], first: int, last: int) -> RawLogs:
        raw = self._asked(blocks, first, last)
        taken = registered_adapters(raw, self._emitters.router)
        new = {adapter: block for adapter, block in taken.items() if adapter not in self._emitters.adapters}
        if not new:
            return raw
        # What a new adapter has emitted is not in this answer; what it emitted before it was taken is none of ours, however
        # the range happens to be cut.
        self._emitters = self._emitters.with_adapters(new)
        raw = self._asked(blocks, first, last)
        ours = np.ones(len(raw), bool)
        for adapter, block in new.items():
            ours &= ~raw.emitted_by(adapter) | (raw.block_number >= block)
        return raw.only(ours)

    def _asked(self, blocks: Mapping[str, str], first: int, last: int) -> RawLogs:
        addresses = ["0x" + address.hex() for address in self._emitters.addresses]
        return self._answer({**blocks, "address": addresses}, first, last)

    def _answer(self, query: Mapping[str, Any], first: int, last: int) -> RawLogs:
        where = f"chain {self._emitters.chain_id}: eth_getLogs {first}…{last}"
        logs = self._rpc.call_and_read(_scanned_or_parsed, "eth_getLogs", query)
        raw = logs if isinstance(logs, RawLogs) else self._parsed(logs, last, where)
        if wrong := self._not_asked_for(raw, first, last):
            raise TransientRpcError(f"{where}: the result holds {wrong}")
        return raw

    def _parsed(self, logs: Any, last: int, where: str) -> RawLogs:
        if not isinstance(logs, list) or not all(isinstance(log, dict) for log in logs):
            raise TransientRpcError(f"{where}: the result is no list of logs")
        if any(log.get("removed") for log in logs):
            raise self._changed(last)
        try:
            return raw_logs(logs)
        except MalformedLogsError as error:
            raise TransientRpcError(f"{where}: {error}") from error

    def _not_asked_for(self, raw: RawLogs, first: int, last: int) -> str | None:
        if ((raw.block_number < first) | (raw.block_number > last)).any():
            return "logs of other blocks"
        ours = np.zeros(len(raw), bool)
        for address in self._emitters.addresses:
            if ours.all():
                break
            ours |= raw.emitted_by(address)
        if not ours.all():
            return "logs of other contracts"
        order = np.lexsort((raw.log_index, raw.block_number))
        same = (np.diff(raw.block_number[order]) == 0) & (np.diff(raw.log_index[order]) == 0)
        return "a log twice" if same.any() else None

    def _events(self, raw: RawLogs, headers: Mapping[int, Header]) -> pa.Table:
        for row in np.flatnonzero(np.isin(raw.block_number, list(headers))).tolist():
            number = int(raw.block_number[row])
            if headers[number].hash != raw.block_hash[row].tobytes():
                raise self._changed(number)
        return events_table(self._with_times(raw, headers), self._emitters)

    def _with_times(self, raw: RawLogs, headers: Mapping[int, Header]) -> RawLogs:
        """Fills in block times where the endpoint leaves them out of its logs."""
        missing = raw.block_time < 0
        if not missing.any():
            return raw
        numbers = np.unique(raw.block_number[missing]).tolist()
        asked = self._headers.of([number for number in numbers if number not in headers])
        known = {**headers, **{header.number: header for header in asked}}
        times = raw.block_time.copy()
        for number in numbers:
            times[missing & (raw.block_number == number)] = known[number].time
        return replace(raw, block_time=times)


def _scanned_or_parsed(body: bytes, request_id: int, where: str) -> Any:
    """The logs in an answer as columns if the scanner is sure of them, else the parsed result."""
    scanned = scan(body)
    if scanned is not None and parsed_result(scanned.rest, request_id, where) == []:
        return scanned.logs
    return parsed_result(body, request_id, where)


def _between(first: int, last: int) -> dict[str, Any]:
    return {"fromBlock": hex(first), "toBlock": hex(last)}
