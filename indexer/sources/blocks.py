"""Reads one chain's headers, and the events that Waybill's contracts emitted in its blocks.

Responses that contain anything that was not requested are rejected.

The relayer's finality rule (`bridge.evm.finality`) is different: the relayer acts on blocks after the number of
confirmations in the deployments file. The lake is append-only, so here the chain's tag `finalized` decides, or
a fixed depth if a node does not support the tag.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import structlog
from eth_utils.crypto import keccak

from bridge.evm.rpc_answers import (
    RangeTooLargeError,
    RefusedError,
    Request,
    RpcError,
    TransientRpcError,
    UnknownBlockError,
)
from indexer.decode.events import Emitters, events_table, registered_adapters
from indexer.decode.hexadecimal import HexError, fixed_width, quantity
from indexer.decode.logs import MalformedLogsError, RawLogs, raw_logs
from indexer.model import schemas
from indexer.sources.position import Header
from indexer.sources.transport import ChainRpc

_TAIL: Final = 8
"""Number of newest blocks of a range whose logs are requested one by one, by block hash, since nodes lag there most often."""

_SET_UP: Final = 1_000
"""Number of blocks after the first in which a router's own events are searched."""

log = structlog.get_logger(__name__)

Logs = TypeVar("Logs", bound=Sized)

_FIRST_STEP: Final = 100  # blocks
_TARGET: Final = 5_000  # logs in one answer
_TRY_AGAIN: Final = 32  # pieces after which a larger range is tried again; twice as many after each rejection
_MOSTLY: Final = 0.75  # share of an answer's blocks that its logs must prove, so that no further request is needed

_BITS: Final = 2048


class Headers:
    """Reads headers, and checks that each response is for the requested block."""

    def __init__(self, rpc: ChainRpc, finality_depth: int) -> None:
        """Creates the reader.

        If a node does not support the tag `finalized`, blocks deeper than `finality_depth` count as final.
        """
        self._rpc = rpc
        self._finality_depth = finality_depth
        self._knows_finalized = True

    def head(self) -> Header:
        """Returns the newest block.

        Raises:
            RpcError: no endpoint gave a usable response.
        """
        return self._rpc.call("eth_getBlockByNumber", "latest", False, read=header_of)

    def newest(self) -> tuple[Header, Header | None]:
        """Returns the newest block and the last final block, with a single HTTP request.

        The last final block is None if no block is final yet.

        Raises:
            RpcError: no endpoint returned them.
        """
        if self._knows_finalized:
            try:
                head, final = self._rpc.call_together([_block_request("latest"), _block_request("finalized")])
            except RefusedError:  # in the words and with the code of a wrong method, tag or argument
                self._knows_finalized = False
            else:
                return header_of(head), None if final is None else header_of(final)
        newest = self.head()
        return newest, self.final(newest)

    def at(self, number: int, *, final: bool = False) -> Header:
        """Returns the block at a height on the current chain.

        Args:
            number: block height.
            final: whether the block is final, so that a node without it must be lagging.

        Raises:
            UnknownBlockError: there is no such block.
        """
        header = self._rpc.call("eth_getBlockByNumber", hex(number), False, read=header_of, is_final=final)
        return _expected(number, header)

    def between(self, first: int, last: int, known: Header) -> list[Header]:
        """Returns blocks `first`…`last` of the current chain. `known` is not read again.

        Raises:
            UnknownBlockError: a block is missing or is not the child of the previous one, so the chain is changing.
        """
        headers = self.of([number for number in range(first, last + 1) if number != known.number])
        headers += [known] if known.number == last else []
        for parent, child in itertools.pairwise(headers):
            if child.parent_hash != parent.hash:
                raise UnknownBlockError(
                    f"block {child.number} is not a child of block {parent.number}: the chain changed while it was read"
                )
        return headers

    def of(self, numbers: Sequence[int]) -> list[Header]:
        """Returns the blocks at several heights.

        Raises:
            UnknownBlockError: one of the blocks does not exist.
        """
        blocks = self._rpc.call_together([_block_request(hex(number)) for number in numbers])
        return [_expected(number, header_of(block)) for number, block in zip(numbers, blocks, strict=True)]

    def final(self, head: Header) -> Header | None:
        """Returns the last final block, or None if there is none."""
        if self._knows_finalized:
            try:
                return self._rpc.call("eth_getBlockByNumber", "finalized", False, read=header_of)
            except UnknownBlockError:
                return None
            except RefusedError:  # in the words and with the code of a wrong method, tag or argument
                self._knows_finalized = False
        number = head.number - self._finality_depth
        return self.at(number) if number >= 0 else None


def _block_request(tag: str) -> Request:
    return Request("eth_getBlockByNumber", [tag, False])


def _bloom(text: Any) -> bytes:
    """Returns a block's bloom filter, or empty bytes if the endpoint omits it. The filter only saves requests."""
    try:
        return fixed_width([text], 256).tobytes()
    except (HexError, TypeError):
        return b""


def _expected(number: int, header: Header) -> Header:
    if header.number != number:
        raise TransientRpcError(f"requested block {number}, but got block {header.number}")
    return header


def header_of(block: Any) -> Header:
    """Decodes the result of `eth_getBlockByNumber`.

    Raises:
        UnknownBlockError: there is no such block.
        TransientRpcError: a field is missing or invalid.
    """
    if block is None:
        raise UnknownBlockError("the endpoint does not have the requested block")
    try:
        hash_, parent = fixed_width([block["hash"], block["parentHash"]], 32)
        return Header(
            number=quantity(block["number"]),
            hash=hash_.tobytes(),
            parent_hash=parent.tobytes(),
            time=quantity(block["timestamp"]),
            bloom=_bloom(block.get("logsBloom")),
        )
    except (HexError, KeyError, TypeError) as error:
        raise TransientRpcError(f"a block header has a missing or invalid field: {error}") from error


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A range of blocks whose logs are requested.

    Attributes:
        first: first block.
        last: last block (inclusive).
        header: header of the last block; None if the logs in the response must prove how far the node has read.
        final: whether the blocks are final.
    """

    first: int
    last: int
    header: Header | None
    final: bool


class EventReader:
    """Reads the events of Waybill's contracts on one chain."""

    def __init__(
        self,
        rpc: ChainRpc,
        headers: Headers,
        emitters: Emitters,
        start_block: int,
        ranges: AdaptiveRanges | None = None,
    ) -> None:
        """Creates the reader of the logs of `emitters`. The router was deployed in `start_block` or soon after it.

        Readers of the same endpoint may share `ranges`.
        """
        self._rpc = rpc
        self._headers = headers
        self._emitters = emitters
        self._since: dict[bytes, int] = {}  # of adapters that were registered in what was read: the block
        self._start_block = start_block
        self._ranges = ranges or AdaptiveRanges()
        self._logs_prove_it = True  # whether the logs of the last range proved most of it
        self._blooms = Blooms()
        self._has_tried_blooms = False

    def read(
        self,
        first: int,
        last: int,
        headers: Sequence[Header],
        *,
        final: int | None = None,
        table: Callable[[RawLogs, Emitters], pa.Table] = events_table,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yields the events of blocks `first`…`last`.

        Args:
            first: the first block.
            last: the last block (inclusive).
            headers: headers of the newest blocks of the range, up to `last`. Logs from different blocks at
                these heights are rejected.
            final: last known final block, if the whole range is final.
            table: function that converts the logs: `events_table` decodes them, `logs_table` does not.

        Yields:
            Pairs of the last block read and the events since the previous pair.

        Raises:
            UnknownBlockError: the chain changed while it was read.
            RpcError: no endpoint gave a usable response.
        """
        by_number = {header.number: header for header in headers}
        by_hash = headers[-_TAIL:]
        last_in_ranges = by_hash[0].number - 1 if by_hash else last

        def read(start: int, end: int) -> tuple[int, RawLogs]:
            if (
                final is not None
                and self._logs_prove_it
                and (proven := self._proven(start, end, last, final)) is not None
            ):
                return proven
            header = by_number.get(end) or self._headers.at(end, final=final is not None)
            logs = self._logs(_Blocks(start, end, header, final is not None))
            self._logs_prove_it = _proven_by(logs, start, end) is not None
            return end, logs

        for end, logs in self._ranges.read(first, last_in_ranges, read):
            known = by_number.get(end)
            if known is not None and self._headers.at(end).hash != known.hash:
                raise self._changed(end)
            yield end, table(self._dated(logs, by_number), self._emitters)
        if by_hash and not self._has_tried_blooms:
            self._has_tried_blooms = True
            self._try_blooms(last)
        for header in by_hash:
            if self._blooms.rule_out(header, self._emitters.addresses):
                yield header.number, schemas.EVENTS.empty_table()
                continue
            logs = self._logs(_Blocks(header.number, header.number, header, final is not None))
            self._blooms.compare(
                header, {address for address in self._emitters.addresses if logs.emitted_by(address).any()}
            )
            yield header.number, table(self._dated(logs, by_number), self._emitters)

    def _try_blooms(self, last: int) -> None:
        """Checks the bloom filter of a block in which the router was set up.

        An idle chain has no other block to check. Runs only once. After an error, the next event serves the
        same purpose.
        """
        end = min(self._start_block + _SET_UP, last)
        router = {"address": "0x" + self._emitters.router.hex()}

        def read(start: int, stop: int) -> tuple[int, RawLogs]:
            return stop, self._answer(router, _Blocks(start, stop, self._headers.at(stop), final=False))

        try:
            logs = next((raw for _, raw in AdaptiveRanges().read(self._start_block, end, read) if len(raw)), None)
            if logs is not None:
                header = self._headers.at(int(logs.block_number[0]))
                if header.hash == logs.block_hash[0].tobytes():
                    self._blooms.compare(header, {self._emitters.router})
        except RpcError as error:
            log.debug("bloom filters not verified", chain=self._emitters.chain_id, error=str(error))

    @property
    def emitters(self) -> Emitters:
        """Returns the contracts whose logs are read, including adapters whose registration has been read so far."""
        return self._emitters

    def _changed(self, number: int) -> UnknownBlockError:
        return UnknownBlockError(
            f"chain {self._emitters.chain_id} reorganised at block {number} during the read: try again"
        )

    def _proven(self, first: int, end: int, last: int, final: int) -> tuple[int, RawLogs] | None:
        """Returns the logs of blocks `first`…`end` up to the last proven block, or None if they prove too little.

        A lagging node omits the blocks that it does not have, and a provider that truncates long responses
        omits the last logs. In both cases, all blocks before that of the last log are complete. So one request
        suffices, and the next starts with that block. The last request of a range extends beyond its end, up to
        the `final` block, so that later logs prove the rest.
        """
        if end == last:
            end = min(first + self._ranges.step - 1, final)
        logs = self._logs(_Blocks(first, end, None, final=True))
        if (proven := _proven_by(logs, first, min(end, last))) is None:
            return None
        return proven, logs.only(logs.block_number <= proven)

    def _logs(self, blocks: _Blocks) -> RawLogs:
        raw = self._asked(blocks)
        taken = registered_adapters(raw, self._emitters.router)
        if new := {adapter: block for adapter, block in taken.items() if adapter not in self._emitters.adapters}:
            # This answer does not contain the new adapter's events.
            self._emitters = self._emitters.with_adapters(new)
            self._since.update(new)
            raw = self._asked(blocks)
        # Events before its registration do not count, regardless of how the ranges are split.
        ours = np.ones(len(raw), bool)
        for adapter, block in self._since.items():
            ours &= ~raw.emitted_by(adapter) | (raw.block_number >= block)
        return raw if ours.all() else raw.only(ours)

    def _asked(self, blocks: _Blocks) -> RawLogs:
        return self._answer({"address": ["0x" + address.hex() for address in self._emitters.addresses]}, blocks)

    def _answer(self, query: Mapping[str, Any], blocks: _Blocks) -> RawLogs:
        """Returns the logs of a range from a node that has its last block.

        A lagging node returns the logs that it has, but reports an unknown block when queried for the last
        block by number or by hash. All three queries are sent in one HTTP request, and their results must agree
        about that block. Few load balancers split a batch, and if one does, this is noticed when a lagging node
        gets two of the three queries.
        """
        ranged = {**query, "fromBlock": hex(blocks.first), "toBlock": hex(blocks.last)}
        if blocks.header is None:
            return self._checked(
                self._rpc.call("eth_getLogs", ranged, is_final=blocks.final), blocks.first, blocks.last
            )
        by_hash = {**query, "blockHash": "0x" + blocks.header.hash.hex()}
        if blocks.first == blocks.last and not blocks.final:
            return self._checked(
                self._rpc.call("eth_getLogs", by_hash, is_final=blocks.final), blocks.last, blocks.last
            )
        # The range comes last, since it is long; two nodes that take turns give it to the one that was asked for the number.
        requests = [
            _block_request(hex(blocks.last)),
            Request("eth_getLogs", [by_hash]),
            Request("eth_getLogs", [ranged]),
        ]
        block, of_last, logs = self._rpc.call_together(requests, is_final=blocks.final)
        self._check_last(block, blocks.header, blocks)
        last, raw = self._checked(of_last, blocks.last, blocks.last), self._checked(logs, blocks.first, blocks.last)
        there = raw.block_number == blocks.last
        if (raw.block_hash[there] != np.frombuffer(blocks.header.hash, np.uint8)).any():
            raise self._changed(blocks.last)
        if not np.array_equal(np.sort(raw.log_index[there]), np.sort(last.log_index)):
            raise TransientRpcError(
                f"{self._where(blocks.first, blocks.last)}: the result has {int(there.sum())} logs of block {blocks.last}, "
                f"which has {len(last)}: the node that answers range queries is lagging"
            )
        return raw

    def _check_last(self, block: Any, known: Header, blocks: _Blocks) -> None:
        if block is None:
            raise TransientRpcError(
                f"{self._where(blocks.first, blocks.last)}: one request of a batch was answered by a node "
                f"without block {blocks.last}: a load balancer splits batches, and one of its nodes is lagging"
            )
        if header_of(block).hash != known.hash:
            raise self._changed(blocks.last)

    def _checked(self, logs: Any, first: int, last: int) -> RawLogs:
        where = self._where(first, last)
        raw = self._parsed(logs, last, where)
        if wrong := self._not_asked_for(raw, first, last):
            raise TransientRpcError(f"{where}: the result contains {wrong}")
        return raw

    def _where(self, first: int, last: int) -> str:
        return f"chain {self._emitters.chain_id}: eth_getLogs {first}…{last}"

    def _parsed(self, logs: Any, last: int, where: str) -> RawLogs:
        if not isinstance(logs, list):
            raise TransientRpcError(f"{where}: the result is not a list of logs")
        try:
            raw = raw_logs(logs)
        except MalformedLogsError as error:
            raise TransientRpcError(f"{where}: {error}") from error
        if any(log.get("removed") for log in logs):
            raise self._changed(last)
        return raw

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

    def _dated(self, raw: RawLogs, headers: Mapping[int, Header]) -> RawLogs:
        """Returns the logs with block times. Rejects logs of blocks that differ from the headers."""
        for row in np.flatnonzero(np.isin(raw.block_number, list(headers))).tolist():
            number = int(raw.block_number[row])
            if headers[number].hash != raw.block_hash[row].tobytes():
                raise self._changed(number)
        return self._with_times(raw, headers)

    def _with_times(self, raw: RawLogs, headers: Mapping[int, Header]) -> RawLogs:
        """Reads the block times, for an endpoint that omits them from its logs."""
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


def _proven_by(logs: RawLogs, first: int, last: int) -> int | None:
    """Returns the last block of a range that a response's last log proves, or None if it proves too little."""
    if not len(logs):
        return None
    proven = min(int(logs.block_number.max()) - 1, last)
    return proven if proven - first + 1 >= _MOSTLY * (last - first + 1) else None


class AdaptiveRanges:
    """Reads a long range of blocks in pieces that the endpoint accepts. Threads may share it.

    After a rejection, a larger piece is not requested again until `_TRY_AGAIN` pieces were read, and this
    number doubles with each further rejection. If the endpoint limits the number of blocks, each such request
    would be wasted, and billed.
    """

    def __init__(self, first_step: int = _FIRST_STEP) -> None:
        """Starts with ranges of `first_step` blocks."""
        self._lock = threading.Lock()
        self._step = first_step
        self._taken = 0  # blocks of the last piece that was read
        self._most: int | None = None  # maximum blocks per range, according to rejections
        self._read_since = 0  # pieces since then
        self._try_after = _TRY_AGAIN  # pieces

    @property
    def step(self) -> int:
        """Returns the number of blocks in the next range."""
        return self._step

    def read(self, first: int, last: int, read: Callable[[int, int], tuple[int, Logs]]) -> Iterator[tuple[int, Logs]]:
        """Reads blocks `first`…`last`.

        Args:
            first: the first block.
            last: the last block (inclusive).
            read: function that requests the logs of a range (inclusive), and returns the last block covered,
                and the logs.

        Yields:
            Pairs of the last block read and the logs since the previous pair.

        Raises:
            RangeTooLargeError: the endpoint rejects even a single block.
        """
        while first <= last:
            end = min(first + self._step - 1, last)
            try:
                read_to, logs = read(first, end)
            except RangeTooLargeError as error:
                with self._lock:
                    self._shrink(end - first + 1, error)
                continue
            yield read_to, logs
            with self._lock:
                self._grow(len(logs), end - first + 1)
            first = read_to + 1

    def _shrink(self, failed: int, error: RangeTooLargeError) -> None:
        if failed == 1:
            raise error
        if self._most is not None and self._read_since >= self._try_after:
            self._try_after *= 2
        # Some providers suggest exactly the range that they have just rejected.
        if error.hint is not None and 0 < error.hint < failed:
            self._step = self._most = error.hint
        else:
            self._step = self._taken if failed // 2 < self._taken < failed else failed // 2
            self._most = failed - 1 if self._most is None else min(self._most, failed - 1)
        self._read_since = self._taken = 0

    def _grow(self, logs: int, blocks: int) -> None:
        self._taken = blocks
        self._read_since += 1
        if self._most is not None and blocks > self._most:
            self._most = None
        if logs > 2 * _TARGET:
            self._step = max(1, blocks * _TARGET // logs)
        elif logs < _TARGET and blocks == self._step:
            if self._most is None or self._read_since >= self._try_after:
                self._step *= 2
            elif self._most - self._step > self._step // 8:  # close enough: each rejection on the way costs a request
                self._step = min(2 * self._step, (self._step + self._most) // 2)


class Blooms:
    """Uses the bloom filters in one chain's headers, so that no logs are requested for blocks without any of our logs.

    See the Ethereum yellow paper, section 4.4.1. Some chains leave the filters empty. So they are trusted only
    once a filter has matched logs that were read, and never again after a filter omitted such logs.
    """

    def __init__(self) -> None:
        """Starts without trusting the chain's filters."""
        self._hold: bool | None = None

    def rule_out(self, header: Header, addresses: Iterable[bytes]) -> bool:
        """Returns whether a block has no log from any of these contracts (20 bytes each)."""
        return bool(self._hold) and bool(header.bloom) and not any(_has(header.bloom, one) for one in addresses)

    def compare(self, header: Header, emitted: Iterable[bytes]) -> None:
        """Compares a block's filter with the addresses that emitted its logs."""
        found = [bool(header.bloom) and _has(header.bloom, address) for address in emitted]
        if found:
            self._hold = all(found) and self._hold is not False


def _has(bloom: bytes, address: bytes) -> bool:
    return all(bloom[place] & bit for place, bit in _bits(address))


@functools.lru_cache(maxsize=1024)
def _bits(address: bytes) -> tuple[tuple[int, int], ...]:
    """Returns the three filter bits of an address, each as the byte's position and the bit within that byte."""
    digest = keccak(address)
    numbers = [int.from_bytes(digest[start : start + 2]) % _BITS for start in (0, 2, 4)]
    return tuple(((_BITS - 1 - number) // 8, 1 << number % 8) for number in numbers)
