"""Reads what the routers of one chain say, block after block, and what fell again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog
from eth_utils.address import to_checksum_address

from bridge.domain.finality import FinalityRule
from bridge.domain.observations import BlockRef
from bridge.domain.ports import Block, CallRevertedError, Log, TransientError, read_view
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER, topic
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.events import (
    EventDecodingError,
    LateReceipt,
    MessageExecuted,
    MessageReceived,
    MessageRetried,
    MessageRouted,
    MessageUnfunded,
    OfMessage,
    decode_event,
    topic_of,
)
from bridge.protocol.message import EnvelopeError, decode_envelope
from bridge.tripwire.store import Reading, TripwireStore

_log = structlog.get_logger(__name__)

_PEER_SET: Final = topic("PeerSet(uint64,bytes32)")
_TOPICS: Final = (
    *map(topic_of, (MessageRouted, MessageUnfunded, MessageRetried, MessageReceived, LateReceipt, MessageExecuted)),
    _PEER_SET,
)

_NEAR: Final = 32  # blocks below the newest that are read one by one


@dataclass(slots=True)
class _Rows:
    """What the store keeps of some logs, see `Reading`."""

    creations: list[dict[str, Any]] = field(default_factory=list)
    hand_overs: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    executions: list[dict[str, Any]] = field(default_factory=list)
    peers: list[dict[str, Any]] = field(default_factory=list)


class ChainReader:
    """One chain, as source and as destination."""

    def __init__(self, chain: EvmChain, deployed: ChainDeployment, store: TripwireStore, *, block_range: int) -> None:
        """Reads nothing yet.

        Args:
            chain: which; as many of its endpoints must agree as the operator says.
            deployed: where its router is, and when its blocks are final.
            store: where it is kept.
            block_range: blocks asked for at once.
        """
        self.chain = chain
        self.deployed = deployed
        self._store = store
        self._block_range = block_range
        self._finality = FinalityRule.of(deployed)
        self._tips: dict[int, Block] = {}  # that were read to, from the final one up; all of the chain as it is now
        self.final: Block | None = None
        """The newest final block that was read to."""
        self.newest: Block | None = None
        """The newest block seen."""
        self.asked_at = 0.0
        """When it was asked for, seconds of the event loop's clock: what a chain had before that is not above it."""
        self.is_current = False
        """Whether all is read up to the newest block seen before, and nothing has been taken back since."""
        self.version = 0
        """Changes with the blocks that are known, and with the final one."""
        self._taken_back = 0  # how often

    async def step(self, progressed: Callable[[], None]) -> bool:
        """Reads up to the newest block, or so far as one question goes; says whether there is more.

        Args:
            progressed: is called when there is a new final block, before the newest ones are read.

        Raises:
            TransientError: the endpoints do not answer, do not agree, or were about to change their chain.
            StoreError: nothing can be kept.
        """
        chain_id = self.chain.chain_id
        routers = self._store.peers(chain_id) | {to_checksum_address(self.deployed.router)}
        if self._store.know(chain_id, routers):
            self._forget(-1)
        asked_at = asyncio.get_running_loop().time()
        head, tagged = await asyncio.gather(self.chain.head(), self._finality.tagged(self.chain))
        base = await self._standing(head)
        self.newest, self.asked_at, taken_back = head, asked_at, self._taken_back
        last_final = self._finality.last(head, tagged)
        if base is not None and await self._note_final(min(last_final, base.number)):
            progressed()
        if base is not None and base.number >= head.number:
            self.is_current = True
            return False
        first = self.deployed.start_block if base is None else base.number + 1
        if head.number - first < _NEAR and base is not None:
            blocks, logs = await self._read_near(base, head, sorted(routers))
        else:
            last = min(max(head.number - _NEAR, first), first + self._block_range - 1, head.number)
            blocks, logs = await self._read_range(base, first, last, sorted(routers))
        reading = await self._interpret(logs, blocks)
        if self._taken_back != taken_back:
            raise TransientError(f"chain {chain_id} was taken back while it was read")
        self._store.apply(reading)
        self._tips |= {block.number: block for block in blocks}
        self.version += 1
        await self._note_final(min(last_final, blocks[-1].number))
        self.is_current = blocks[-1].number == head.number
        return not self.is_current

    async def _read_near(self, base: Block, head: Block, routers: Sequence[str]) -> tuple[list[Block], list[Log]]:
        """The blocks above one, up to the newest, each by its hash: an endpoint that lags can't hide what is in them."""
        between = await asyncio.gather(*map(self._block, range(base.number + 1, head.number)))
        blocks, before = [*between, head], base
        for block in blocks:
            if block.parent_hash != before.hash:
                raise TransientError(f"chain {self.chain.chain_id} reorganised while it was read")
            before = block
        logs = await asyncio.gather(*(self.chain.logs_of(block.hash, routers, _TOPICS) for block in blocks))
        return blocks, [log for of_block in logs for log in of_block]

    async def _read_range(
        self, base: Block | None, first: int, last: int, routers: Sequence[str]
    ) -> tuple[list[Block], list[Log]]:
        """Many blocks at once, and the last of them. They are of one branch, since both ends still stand afterwards."""
        tip = await self._block(last)
        logs = await self.chain.logs(first, last, routers, _TOPICS)
        await asyncio.gather(*(self._must_stand(end) for end in (base, tip) if end is not None))
        return [tip], logs

    def read_again(self, *, from_start: bool = False) -> None:
        """Something is missing: it is read again from where it was complete, or from the start."""
        self._forget(-1)
        self._store.read_again(self.chain.chain_id, from_start=from_start)

    def covering(self, height: int, time: float) -> Block | None:
        """The first block known to be of the chain that is not below a height, nor before a time in Unix seconds."""
        tips = (self._tips[number] for number in sorted(self._tips))
        return next((tip for tip in tips if tip.number >= height and tip.timestamp >= time), None)

    async def lacks(self, destination: int, routers: Sequence[str], message_id: bytes) -> str | None:
        """What this chain's routers have counted and nobody here has read, or None if nothing is missing.

        A state of a block that an endpoint does not have yet is no answer: endpoints that lag can't hide a message.

        Raises:
            TransientError: the endpoints do not answer, or were about to change their chain.
        """
        chain_id = self.chain.chain_id
        base = await self._standing()
        if base is None:
            return "nothing is read yet"
        for router in routers:
            try:
                (counted, _), (_, attempts) = await asyncio.gather(
                    read_view(self.chain, ROUTER, router, "sentTo", destination, block=base.number),
                    read_view(self.chain, ROUTER, router, "sentMessage", message_id, block=base.number),
                )
            except CallRevertedError as error:
                raise TransientError(
                    f"router {router} on chain {chain_id} does not say what it sent: {error}"
                ) from error
            if (await self._block(base.number)).hash != base.hash:
                raise TransientError(f"chain {chain_id} reorganised while it was asked")
            found = self._store.count_created(chain_id, router, destination, base.number)
            if found != counted:
                return f"router {router} has created {counted} messages to {destination} at block {base.number}, read: {found}"
            retries = self._store.count_retries(chain_id, message_id)
            if attempts > retries:
                return f"router {router} has retried 0x{message_id.hex()} {attempts} times, read: {retries}"
        return None

    async def who_says(self, block: BlockRef, transaction: bytes | None = None) -> tuple[str, ...]:
        """The endpoints that say that a block is the chain's, or that it includes a transaction: so many as have to agree.

        Raises:
            TransientError: they do not answer, do not agree, or say otherwise by now.
        """
        if transaction is None:
            found, names = await self.chain.witnessed_block(block.number)
            is_so = found is not None and found.hash == block.hash
        else:
            receipt, names = await self.chain.witnessed_receipt(transaction)
            is_so = receipt is not None and receipt.block_hash == block.hash
        if not is_so:
            raise TransientError(f"chain {self.chain.chain_id} has another block {block.number} by now")
        return names

    async def _note_final(self, number: int) -> bool:
        """Keeps the final block; says whether it is a new one."""
        if number < 0 or (self.final is not None and self.final.number >= number):
            return False
        self.final = self._tips[number] = self._tips.get(number) or await self._block(number)
        self._tips = {at: tip for at, tip in self._tips.items() if at >= number}
        self.version += 1
        return True

    async def _standing(self, head: Block | None = None) -> Block | None:
        """The newest block that was read and has not fallen. What is above it is taken back.

        Args:
            head: the newest block, which may show without a question that ours stands.

        Raises:
            TransientError: the chain has no block there at the moment, and nothing shows that ours fell: the endpoints lag.
        """
        newest = self._tips[max(self._tips)] if self._tips else None
        if newest is not None and head is not None and newest.hash in (head.hash, head.parent_hash):
            return newest
        chain_id, has_fallen = self.chain.chain_id, False
        known = self._store.blocks(chain_id)
        for base in known:
            found = await self.chain.block(base.number)
            has_fallen |= found is not None and found.hash != base.hash
            if found is None or found.hash != base.hash:
                continue
            if base is not known[0]:
                self._take_back(known[0], base.number, has_fallen=has_fallen)
            self._tips[found.number] = found
            return found
        if known:
            self._take_back(known[0], self.deployed.start_block - 1, has_fallen=has_fallen)
        return None

    def _take_back(self, newest: BlockRef, number: int, *, has_fallen: bool) -> None:
        chain_id = self.chain.chain_id
        if not has_fallen:
            raise TransientError(f"chain {chain_id} has no block {newest.number} at the moment")
        _log.warning("reorg", chain=chain_id, down_to=number, read_to=newest.number)
        if self.final is not None and self.final.number > number:
            self.final = None  # deeper than the deployments file expects
        self._forget(number)
        self._store.rewind(chain_id, number)

    def _forget(self, number: int) -> None:
        """What is above a height is to be read again."""
        self.is_current = False
        self.version += 1
        self._taken_back += 1
        self._tips = {at: tip for at, tip in self._tips.items() if at <= number}

    async def _block(self, number: int) -> Block:
        found = await self.chain.block(number)
        if found is None:
            raise TransientError(f"chain {self.chain.chain_id} has no block {number} at the moment")
        return found

    async def _must_stand(self, block: Block) -> None:
        if (await self._block(block.number)).hash != block.hash:
            raise TransientError(f"chain {self.chain.chain_id} reorganised while it was read")

    async def _interpret(self, logs: Sequence[Log], known: Sequence[Block]) -> Reading:
        chain_id = self.chain.chain_id
        rows = _Rows()
        for log in logs:
            try:
                self._add(rows, log)
            except (EventDecodingError, EnvelopeError) as error:  # no honest router emits it: the index tells of it
                _log.error("an event that can't be read", chain=chain_id, block=log.block_number, error=str(error))
        blocks = {block.number: block for block in known}
        numbers = {row["block"] for row in rows.receipts} - blocks.keys()
        blocks |= {block.number: block for block in await asyncio.gather(*map(self._block, numbers))}
        for row in rows.receipts:
            block = blocks[row["block"]]
            if block.hash != row["block_hash"]:
                raise TransientError(f"chain {chain_id} reorganised while it was read")
            row["block_time"] = block.timestamp
        tips = [BlockRef(block.number, block.hash) for block in known]
        return Reading(chain_id=chain_id, tips=tips, **asdict(rows))

    def _add(self, rows: _Rows, log: Log) -> None:
        place = {"chain_id": self.chain.chain_id, "block": log.block_number, "block_hash": log.block_hash}
        if log.topics[0] == _PEER_SET and len(log.topics) == 3:  # the event has two indexed values
            source, router = int.from_bytes(log.topics[1], "big"), to_checksum_address(log.topics[2][-20:])
            rows.peers.append({"chain_id": self.chain.chain_id, "source_chain": source, "router": router})
            return
        event = decode_event(log.topics, log.data)
        if not isinstance(event, OfMessage):
            return
        place |= {"message_id": event.message_id, "log_index": log.log_index}
        match event:
            case MessageRouted() | MessageUnfunded():
                payload_hash = decode_envelope(event.envelope).message.payload_hash
                if not (isinstance(event, MessageRouted) and self._is_funding(rows.creations, event)):
                    made = {"router": log.address, "destination": event.destination_chain, "payload_hash": payload_hash}
                    rows.creations.append(place | made)
                if isinstance(event, MessageRouted):
                    rows.hand_overs.append(place | {"gmps": event.gmps, "is_retry": 0})
            case MessageRetried():
                rows.hand_overs.append(place | {"gmps": event.gmps, "is_retry": 1})
            case MessageReceived() | LateReceipt():
                said = {
                    "gmp": event.gmp,
                    "source_chain": event.source_chain,
                    "payload_hash": getattr(event, "payload_hash", None),
                    "transaction": log.transaction_hash,
                }
                rows.receipts.append(place | said)
            case MessageExecuted():
                rows.executions.append(place)

    def _is_funding(self, created: Sequence[dict[str, Any]], event: MessageRouted) -> bool:
        """Whether a message was created before, and is funded now: `MessageUnfunded` was its creation."""
        if any(row["message_id"] == event.message_id for row in created):
            return True
        known = self._store.creations(self.chain.chain_id, event.message_id)
        return any(not one.is_orphaned for one in known)
