"""Reads logs as columns, from an `eth_getLogs` response or from the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from indexer.decode.hexadecimal import (
    Bytes,
    Flags,
    HexError,
    Integers,
    fixed_width,
    quantities,
    variable_width,
)

MAX_TOPICS: Final = 4


class MalformedLogsError(ValueError):
    """A response with a malformed log.

    It is the endpoint's fault and says nothing about the chain; the request is retried.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLogs:
    """Logs as columns. Every array except `data` has one row per log."""

    block_number: Integers
    block_hash: Bytes  # (logs, 32)
    block_time: Integers  # Unix seconds; -1 if the endpoint omits it
    transaction_hash: Bytes  # (logs, 32)
    log_index: Integers
    address: Bytes  # (logs, 20)
    topics: Bytes  # (logs, 4, 32); zeros beyond `topic_count`
    topic_count: Integers
    data: Bytes  # of all logs, one after another
    data_offsets: Integers  # (logs + 1)

    def __len__(self) -> int:
        return len(self.block_number)

    def emitted_by(self, address: bytes) -> Flags:
        """Returns which logs were emitted by the contract with the given 20-byte address."""
        return np.asarray(np.ascontiguousarray(self.address).view("V20").ravel() == np.frombuffer(address, "V20")[0])

    def only(self, chosen: Flags) -> RawLogs:
        """Returns the selected logs."""
        lengths = np.diff(self.data_offsets)
        arrays = {name: getattr(self, name)[chosen] for name in _PER_LOG}
        offsets = np.zeros(int(chosen.sum()) + 1, np.int64)
        np.cumsum(lengths[chosen], out=offsets[1:])
        return RawLogs(**arrays, data=self.data[np.repeat(chosen, lengths)], data_offsets=offsets)


_PER_LOG: Final = tuple(field.name for field in fields(RawLogs) if not field.name.startswith("data"))


def logs_of_rows(rows: pa.Table) -> RawLogs:
    """Reads logs from rows of the lake.

    Args:
        rows: rows of `schemas.LOGS` from one chain.
    """
    topics, topic_offsets = _flat(rows["topics"])
    data, data_offsets = _flat(rows["data"])
    counts = np.diff(topic_offsets) // 32
    return RawLogs(
        block_number=rows["block_number"].to_numpy(),
        block_hash=_flat(rows["block_hash"])[0].reshape(-1, 32),
        block_time=rows["block_time"].to_numpy(),
        transaction_hash=_flat(rows["transaction_hash"])[0].reshape(-1, 32),
        log_index=rows["log_index"].to_numpy(),
        address=_flat(rows["address"])[0].reshape(-1, 20),
        topics=_padded(topics.reshape(-1, 32), counts),
        topic_count=counts,
        data=data,
        data_offsets=data_offsets,
    )


def _padded(topics: Bytes, counts: Integers) -> Bytes:
    """Returns an array of shape (logs, 4, 32) with the topics of each log, followed by zeros."""
    padded = np.zeros((len(counts), MAX_TOPICS, 32), np.uint8)
    padded[np.arange(MAX_TOPICS) < counts[:, None]] = topics
    return padded


def _flat(column: pa.ChunkedArray) -> tuple[Bytes, Integers]:
    """Returns the concatenated values of a binary column, and the offset of each."""
    whole = pa.concat_arrays(
        [chunk.cast(pa.large_binary()) for chunk in column.chunks] or [pa.array([], pa.large_binary())]
    )
    _, offsets_buffer, data_buffer = whole.buffers()
    offsets = np.frombuffer(offsets_buffer or bytes(8), np.int64)[whole.offset : whole.offset + len(whole) + 1]
    flat = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return flat, offsets - offsets[0]


def raw_logs(logs: Sequence[Mapping[str, Any]]) -> RawLogs:
    """Decodes the logs in a response's `result`.

    Raises:
        MalformedLogsError: a log lacks a field or has an invalid one.
    """
    try:
        topics = [log["topics"] for log in logs]
        counts = np.fromiter(map(len, topics), np.int64, len(logs))
        if (counts > MAX_TOPICS).any():
            raise MalformedLogsError(f"a log has more than {MAX_TOPICS} topics")
        data, data_offsets = variable_width([log["data"] for log in logs])
        return RawLogs(
            block_number=quantities([log["blockNumber"] for log in logs]),
            block_hash=fixed_width([log["blockHash"] for log in logs], 32),
            block_time=quantities_or(-1, [log.get("blockTimestamp") for log in logs]),
            transaction_hash=fixed_width([log["transactionHash"] for log in logs], 32),
            log_index=quantities([log["logIndex"] for log in logs]),
            address=fixed_width([log["address"] for log in logs], 20),
            topics=_padded(fixed_width(list(chain.from_iterable(topics)), 32), counts),
            topic_count=counts,
            data=data,
            data_offsets=data_offsets,
        )
    except (HexError, KeyError, TypeError, AttributeError) as error:
        raise MalformedLogsError(f"a log has a missing or invalid field: {error}") from error


def quantities_or(default: int, values: Sequence[str | None]) -> Integers:
    """Decodes quantities; missing ones become `default`."""
    known = [value for value in values if value is not None]
    numbers = np.full(len(values), default, np.int64)
    numbers[[value is not None for value in values]] = quantities(known)
    return numbers
