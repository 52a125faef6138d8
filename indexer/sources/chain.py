"""Reads one chain's events. Each result belongs to a single branch, that of its last block."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import pyarrow as pa
from eth_utils.address import to_checksum_address

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import KnownBlock
from bridge.evm.rpc_answers import Request, TransientRpcError, UnknownBlockError
from bridge.evm.transport import Connect, HttpExchange
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.indexed import Payment
from indexer.decode.events import Emitters, logs_table
from indexer.decode.hexadecimal import HexError, quantity
from indexer.model import schemas
from indexer.model.errors import FinalityViolatedError
from indexer.model.settings import INDEX_POLICY, SourceLimits
from indexer.sources.blocks import AdaptiveRanges, EventReader, Headers
from indexer.sources.position import HASH_PREFIX, ChainPosition, Header
from indexer.sources.transport import ChainRpc

_WINDOW: Final = 32  # number of heads from which the block time is computed
_EARLIER: Final = 1 / 1024  # share of a block time by which a poll moves earlier after one that found a block
_LATER: Final = 1 / 16  # share of a block time by which later polls move after one that found none
_ENOUGH: Final = 3  # number of block intervals from which a chain's block time is computed
_SLOWEST: Final = 30.0  # maximum block interval, in seconds, for a single wait
_SLOWER: Final = 1.05  # factor by which each wait for an irregular block grows
_RAREST: Final = 12  # maximum wait, as a multiple of the shortest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainConfig:
    """A chain's endpoints and contracts."""

    chain_id: int
    urls: tuple[str, ...]
    start_block: int
    emitters: Emitters
    endpoints: EndpointPolicy = INDEX_POLICY

    @property
    def called(self) -> str:
        """Returns the chain's name for errors."""
        return self.endpoints.called(self.chain_id)

    def with_adapters(self, adapters: Iterable[bytes]) -> ChainConfig:
        """Returns the configuration with adapters that the router registered after its deployment."""
        return replace(self, emitters=self.emitters.with_adapters(adapters))


def chain_config(chain: ChainDeployment, endpoints: EndpointPolicy = INDEX_POLICY) -> ChainConfig:
    """Returns the configuration of one chain in the deployment."""
    return ChainConfig(
        chain_id=chain.chain_id,
        urls=chain.rpc_urls,
        start_block=chain.start_block,
        emitters=Emitters(
            chain_id=chain.chain_id,
            router=bytes.fromhex(chain.router[2:]),
            adapters=frozenset(bytes.fromhex(address[2:]) for address in chain.adapters.values()),
        ),
        endpoints=endpoints,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The result of a poll. Blocks `first`…`position.block` and their events replace everything from `first` on."""

    first: int
    parent_hash: bytes | None  # prefix of the hash of block `first` - 1; None if the chain is read from `first` on
    position: ChainPosition
    last: Header
    head_block: int
    events: pa.Table


class ChainReader:
    """Follows one chain. Use it from one thread at a time."""

    def __init__(
        self,
        config: ChainConfig,
        limits: SourceLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        connect: Connect = HttpExchange,
        ranges: AdaptiveRanges | None = None,
    ) -> None:
        """Connects lazily.

        Args:
            config: the chain.
            limits: limits on requests and batches.
            clock: monotonic clock in seconds, to measure how long a lower head has lasted.
            connect: creates the transport for a URL.
            ranges: the endpoint's range limit, if shared with other readers.
        """
        self.config = config
        self._limits = limits
        self._clock = clock
        policy = replace(config.endpoints, request_seconds=limits.rpc_timeout, branch_seconds=limits.failover_patience)
        self._rpc = ChainRpc(config.chain_id, config.urls, policy, connect, clock=clock)
        self._headers = Headers(self._rpc, limits.finality_depth)
        self._schedule = PollSchedule(limits.poll_interval)
        self._next_look = limits.poll_interval
        self._events = EventReader(self._rpc, self._headers, config.emitters, config.start_block, ranges)
        self._lower_head_since: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._rpc.close()

    @property
    def adapters(self) -> frozenset[bytes]:
        """Returns the adapters (20 bytes each), including those whose registration has been read so far."""
        return self._events.emitters.adapters

    def head(self) -> Header:
        """Returns the newest block.

        Raises:
            RpcError: no endpoint gave a usable response.
        """
        return self._headers.head()

    def final(self) -> Header | None:
        """Returns the last final block, or None if there is none."""
        final = self._headers.final(self._headers.head())
        if final is not None:
            self.follow((final.number, final.hash))
        return final

    def follow(self, final: tuple[int, bytes]) -> None:
        """From now on, uses only endpoints that have this final block (number and hash).

        Assumes that the current endpoint has it.
        """
        self._rpc.must_have(KnownBlock(*final), KnownBlock(*final))

    def header(self, number: int) -> Header:
        """Returns the header of the block at a height on the current chain.

        Raises:
            UnknownBlockError: there is no such block.
        """
        return self._headers.at(number)

    def has(self, number: int, block_hash: bytes) -> bool:
        """Returns whether any endpoint has a block. Prefers such an endpoint from then on.

        Raises:
            RpcError: no endpoint has the block, but not all of them have a different block at its height, so it
                may still exist.
        """
        return self._rpc.anyone_has(KnownBlock(number, block_hash))

    def call_at(self, block_hash: bytes, calls: Sequence[bytes]) -> list[bytes]:
        """Calls the router at one block.

        Args:
            block_hash: hash of the block. A number could refer to a different block by the time the endpoint reads it.
            calls: data of each call.

        Returns:
            The results in order. Each is empty if the router does not exist yet.

        Raises:
            StateUnavailableError: the endpoint has pruned that block's state.
            UnknownBlockError: the block is not on the chain.
            RpcError: no endpoint gave a usable response.
        """
        router = "0x" + self.config.emitters.router.hex()
        block = {"blockHash": "0x" + block_hash.hex(), "requireCanonical": True}
        requests = [Request("eth_call", [{"to": router, "data": "0x" + data.hex()}, block]) for data in calls]
        answers = self._rpc.call_together(requests)
        try:
            return [bytes.fromhex(answer.removeprefix("0x")) for answer in answers]
        except (AttributeError, ValueError) as error:
            raise TransientRpcError(f"{self.config.called}: eth_call did not return bytes: {error}") from error

    def costs(self, transactions: Sequence[bytes]) -> dict[bytes, Payment]:
        """Returns the costs of transactions. Unknown transactions are omitted.

        Raises:
            RpcError: no endpoint gave a usable response.
        """
        asked = [["0x" + transaction.hex()] for transaction in transactions]
        receipts = self._rpc.call_together([Request("eth_getTransactionReceipt", hashes) for hashes in asked])
        bodies = self._rpc.call_together([Request("eth_getTransactionByHash", hashes) for hashes in asked])
        try:
            return {
                transaction: Payment(
                    gas=quantity(receipt["gasUsed"]),
                    gas_paid=quantity(receipt["gasUsed"]) * quantity(receipt["effectiveGasPrice"]),
                    value=int(body["value"], 16),
                    payer=to_checksum_address(body["from"]),
                )
                for transaction, receipt, body in zip(transactions, receipts, bodies, strict=True)
                if receipt is not None and body is not None
            }
        except (AttributeError, HexError, KeyError, TypeError, ValueError) as error:
            raise TransientRpcError(
                f"{self.config.called}: a transaction or receipt has a missing or invalid field: {error}"
            ) from error

    @property
    def waits(self) -> bool:
        """Whether the last poll found a lower head, so that the reader waits to see whether it persists."""
        return self._lower_head_since is not None

    @property
    def next_look(self) -> float:
        """Returns the seconds between the start of the last `advance` and the next one."""
        return self._next_look

    def advance(self, position: ChainPosition, target: int | None = None) -> Advance | None:
        """Reads the blocks after `position`. Returns None if there are none.

        Args:
            position: the chain's position.
            target: the last block to read.

        Raises:
            RpcError: no endpoint gave a usable response, or the chain changed while it was read. Can be retried.
            FinalityViolatedError: the chain no longer has a block that it had reported as final.
        """
        self._next_look = self._limits.poll_interval
        self._rpc.must_have(*_ours(position))
        head, final = self._headers.newest()
        self._next_look = self._schedule.wait_after(head)
        if self._lags(position, head):
            self._next_look = self._limits.poll_interval
            return None
        fork = self._fork(position, head)
        last = head.number if target is None else min(head.number, max(target, fork))
        if fork == position.block and last <= fork:
            return None
        last = min(last, fork + self._limits.max_blocks_per_batch)
        advance = self._read(position.back_to(fork), last, head, final)
        if advance.position.block < head.number:
            self._next_look = 0
        return advance

    def read_final(self, first: int, last: int) -> Iterator[pa.Table]:
        """Yields the events of a range of final blocks, in pieces.

        Args:
            first: the first block.
            last: the last block (inclusive).

        Raises:
            RpcError: no endpoint gave a usable response.
        """
        for _, events in self._events.read(first, last, [], final=last):
            yield events

    def read_final_logs(self, first: int, last: int, final: int) -> Iterator[pa.Table]:
        """Yields the raw logs of a range of final blocks, as `schemas.LOGS`."""
        for _, logs in self._events.read(first, last, [], final=final, table=logs_table):
            yield logs

    def _lags(self, position: ChainPosition, head: Header) -> bool:
        """Returns whether a lower head means that the endpoint is lagging. If the head stays lower, it is a rollback.

        If the index trusted a lagging endpoint, it would forget deliveries and request retries that cost money.
        """
        if head.number >= position.block:
            self._lower_head_since = None
            return False
        lags = TransientRpcError(
            f"{self.config.called}: the endpoint's newest block is {head.number}, below block {position.block} "
            "that was already read: the endpoint is lagging"
        )
        if position.final_hash and head.number < position.final_block:
            self._rpc.gives_way(KnownBlock(position.final_block, position.final_hash), lags)
            raise lags
        now = self._clock()
        if self._lower_head_since is None:
            self._lower_head_since = now
        if now - self._lower_head_since < self._limits.rollback_patience:
            return True
        last, _ = _ours(position)
        return last is not None and self._rpc.gives_way(last, lags)

    def _fork(self, position: ChainPosition, head: Header) -> int:
        """Returns the last block of `position` that the chain still has."""
        if not position.hashes:
            return position.block
        if position.has(head):
            return head.number
        if head.number == position.block + 1 and head.parent_hash[:HASH_PREFIX] == position.hash_at(position.block):
            return position.block
        highest = min(position.block, head.number)
        bottom = max(position.first_remembered, position.final_block if position.final_hash else 0)
        reach = 1
        while highest >= bottom:
            lowest = max(bottom, highest - reach + 1)
            for header in reversed(self._headers.of(range(lowest, highest + 1))):
                if position.has(header):
                    return header.number
            highest, reach = lowest - 1, reach * 8
        return self._final_fork(position, head)

    def _final_fork(self, position: ChainPosition, head: Header) -> int:
        """Returns the final block, for when the chain has no remembered block left.

        Blocks that are not final can be read again.
        """
        number = position.final_block
        if not position.final_hash:
            return number
        if number <= head.number and self._headers.at(number).hash == position.final_hash:
            return number
        text = (
            f"{self.config.called} no longer has block {number} with hash 0x{position.final_hash.hex()}, which it "
            "had called final: it was rewritten, or the endpoint now serves another chain with the same id. Run `waybill index "
            "verify --repair`. If this is a devnet that was started again, delete the index's folder"
        )
        forked = TransientRpcError(f"{text}. Another endpoint has it")
        if self._rpc.gives_way(KnownBlock(number, position.final_hash), forked):
            raise forked
        raise FinalityViolatedError(text)

    def _read(self, base: ChainPosition, last: int, head: Header, final: Header | None) -> Advance:
        first = base.block + 1
        if last < first:
            return self._taken_back(base, head)
        tail = self._headers.between(max(first, last - self._limits.hash_window + 1), last, head)
        parts: list[pa.Table] = []
        count = 0
        for end, events in self._events.read(first, last, tail):
            parts.append(events)
            count += len(events)
            if count >= self._limits.max_logs_per_batch and end < last:
                tail = [header for header in tail if header.number <= end] or [self._headers.at(end)]
                break
        self._check_base(base, tail[0])
        position = base.extended(tail, self._limits.hash_window)
        return Advance(
            first=first,
            parent_hash=base.known_hash(base.block),
            position=self._finalised(position, tail[-1], final),
            last=tail[-1],
            head_block=head.number,
            events=pa.concat_tables(parts),
        )

    def _taken_back(self, base: ChainPosition, head: Header) -> Advance:
        """Returns an advance that only removes blocks, because nothing has replaced them yet."""
        return Advance(
            first=base.block + 1,
            parent_hash=base.known_hash(base.block),
            position=base,
            last=self._headers.at(base.block),
            head_block=head.number,
            events=schemas.EVENTS.empty_table(),
        )

    def _check_base(self, base: ChainPosition, next_header: Header) -> None:
        """Checks that the blocks that were just read still follow the position."""
        known = base.known_hash(base.block)
        if known is None:
            return
        adjoins = next_header.number == base.block + 1
        hash_now = next_header.parent_hash if adjoins else self._headers.at(base.block).hash
        if hash_now[:HASH_PREFIX] != known:
            raise UnknownBlockError(f"{self.config.called} reorganised during the read: try again")

    def _finalised(self, position: ChainPosition, last: Header, final: Header | None) -> ChainPosition:
        if final is None or final.number <= position.final_block:
            return position
        reached = final if final.number <= last.number else last
        if position.hash_at(reached.number) not in (None, reached.hash[:HASH_PREFIX]):
            raise UnknownBlockError(f"{self.config.called} reorganised during the read: try again")
        return replace(position, final_block=reached.number, final_hash=reached.hash)


def _ours(position: ChainPosition) -> tuple[KnownBlock | None, KnownBlock | None]:
    """Returns the last block read and the last final block, each with its known hash or hash prefix."""
    last = position.hash_at(position.block)
    final = KnownBlock(position.final_block, position.final_hash) if position.final_hash else None
    return KnownBlock(position.block, last) if last else final, final


class PollSchedule:
    """Schedules the polls of one chain.

    A chain with regular blocks is polled once per block. Each poll starts slightly earlier than the last one
    until a poll finds no block; the next one then starts slightly later. So polls follow blocks closely, even
    if the chain's clock and this machine's clock differ.
    """

    def __init__(self, shortest: float) -> None:
        """Starts without known heads. `shortest` is the minimum interval in seconds."""
        self._shortest = shortest
        self._heads: deque[Header] = deque(maxlen=_WINDOW)
        self._unchanged = 0  # consecutive polls without a new block

    @property
    def block_time(self) -> float | None:
        """Returns the block time in seconds, from block timestamps, or None until two heads are known."""
        gaps = self._gaps()
        if not gaps:
            return None
        median = statistics.median(gaps)
        if median >= 1:
            return median  # a missed block does not shift the others
        first, last = self._heads[0], self._heads[-1]
        return (last.time - first.time) / (last.number - first.number)  # block times are whole seconds

    def _gaps(self) -> list[float]:
        return [
            (after.time - before.time) / (after.number - before.number)
            for before, after in itertools.pairwise(self._heads)
        ]

    def _is_regular(self, block_time: float) -> bool:
        """Returns whether blocks come at regular intervals. They do not if the chain mines a block per transaction."""
        gaps = self._gaps()
        return len(gaps) >= _ENOUGH and block_time <= _SLOWEST and max(gaps) <= 2 * block_time + 1

    def wait_after(self, head: Header) -> float:
        """Returns the seconds until the next poll, after a poll that found `head`."""
        last = self._heads[-1] if self._heads else None
        if last is not None and head.hash == last.hash:
            self._unchanged += 1
        else:
            if last is not None and (head.number <= last.number or head.time < last.time):
                self._heads.clear()  # a reorg: schedule by the new blocks
            self._heads.append(head)
            self._unchanged = 0
        block_time = self.block_time
        if block_time is None:
            return self._shortest * min(_RAREST, 1.5**self._unchanged)
        if not self._is_regular(block_time):
            return self._shortest * min(_RAREST, _SLOWER**self._unchanged)
        if not self._unchanged:
            return max(self._shortest, block_time * (1 - _EARLIER))
        wait = block_time * (1 + _LATER) * 1.25 ** (self._unchanged - 1)
        return max(self._shortest, min(wait, 2 * block_time))
