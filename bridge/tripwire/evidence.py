"""Verifies a suspected forgery by reading both facts again: the receipt on the destination, and the source router's record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bridge.evm.finality import FinalityRule
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER, topic
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import (
    Event,
    MessageReceived,
    MessageRetried,
    MessageRouted,
    MessageUnfunded,
    decode_event,
    topic_of,
)
from bridge.protocol.gmps import gmp_label
from bridge.protocol.indexed import EventRecord, Index, IndexSource, ReceiptRecord
from bridge.protocol.message import decode_envelope
from bridge.protocol.ports import Block, Chain, TransientError, read_view
from bridge.store.accusations import Accusation

_T = TypeVar("_T")
_NOBODY: Final = 0
_PEER_SET: Final = topic("PeerSet(uint64,bytes32)")
_RANGE: Final = 2_000  # blocks per request

WITHOUT_CREATION: Final = "RECEIPT_WITHOUT_CREATION"
OVER_UNUSED_GMP: Final = "RECEIPT_OVER_UNUSED_GMP"
PAYLOAD_DIFFERS: Final = "PAYLOAD_DIFFERS"
LIES: Final = (WITHOUT_CREATION, OVER_UNUSED_GMP, PAYLOAD_DIFFERS)
"""Kinds of divergence that only a faulty GMP can cause."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A divergence that a forgery would explain, with the index's records about the message."""

    kind: str
    message_id: bytes
    source_chain: int
    receipts: tuple[ReceiptRecord, ...]
    events: tuple[EventRecord, ...]


class Evidence:
    """Proves accusations against GMPs, using only facts that enough endpoints of each chain confirm.

    The absence of a fact is weaker evidence than its presence, because an endpoint or the index may have missed
    a log. A message therefore counts as never created only if the router's own count of the lane's messages
    equals the index's count at a final block.
    """

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        index: IndexSource,
        *,
        max_clock_skew: float,
    ) -> None:
        """Stores the dependencies. `max_clock_skew` is in seconds; see `TripwireSettings`."""
        self._deployment = deployment
        self._chains = chains
        self._index = index
        self._skew = max_clock_skew
        self._heads: dict[tuple[bytes, int], int] = {}  # source head at first suspicion, by message and GMP

    async def suspicions(self, known: Iterable[tuple[int, int, bytes]]) -> list[Suspicion]:
        """Returns the index's divergences that a forgery would explain and that have receipts not in `known`."""
        return await self._ask(lambda index: list(self._find(index, frozenset(known))))

    def _find(self, index: Index, known: frozenset[tuple[int, int, bytes]]) -> Iterable[Suspicion]:
        served = set(self._chains)
        for record in index.divergences():
            if record.kind not in LIES or record.message_id is None or record.source_chain not in served:
                continue
            fresh = tuple(
                receipt
                for receipt in index.receipts(record.message_id)
                if receipt.received_chain in served
                and receipt.received_block is not None
                and (receipt.received_chain, receipt.gmp, receipt.message_id) not in known
            )
            if fresh:
                events = tuple(index.events(record.message_id))
                yield Suspicion(record.kind, record.message_id, record.source_chain, fresh, events)

    async def accusations(self, suspicion: Suspicion, now: float) -> list[Accusation]:
        """Returns accusations against the GMPs proven to have forged a message.

        Raises:
            TransientError: a chain or the index did not respond.
        """
        source = self._deployment.chain(suspicion.source_chain)
        accusations = []
        for receipt in suspicion.receipts:
            received = await self._received(receipt)
            if received is None:
                continue  # the block was reorganised away, or the endpoints do not confirm it
            event, block = received
            proof = await self._lie(suspicion, receipt, event, block, source)
            if proof is not None:
                assert receipt.received_chain is not None
                evidence = {
                    "kind": suspicion.kind,
                    "messageId": f"0x{suspicion.message_id.hex()}",
                    "gmp": gmp_label(receipt.gmp),
                    "source": source.name,
                    "destination": self._deployment.chain(receipt.received_chain).name,
                    "receiptBlock": block.number,
                    "receiptTransaction": f"0x{(receipt.received_transaction or b'').hex()}",
                    **proof,
                }
                accusations.append(
                    Accusation(
                        chain_id=receipt.received_chain,
                        gmp=receipt.gmp,
                        message_id=suspicion.message_id,
                        kind=suspicion.kind,
                        evidence=evidence,
                        found_at=now,
                    )
                )
        return accusations

    async def _lie(
        self,
        suspicion: Suspicion,
        receipt: ReceiptRecord,
        event: MessageReceived,
        block: Block,
        source: ChainDeployment,
    ) -> dict[str, Any] | None:
        """Returns the proof that a GMP delivered a message that its source did not send, or None if there is none."""
        final = await self._covering(suspicion, receipt, block, source)
        if final is None or await self._has_other_peer(receipt, source):
            return None
        chain, message_id = self._chains[source.chain_id], suspicion.message_id
        sender, attempts = await read_view(chain, ROUTER, source.router, "sentMessage", message_id, block=final.number)
        proof = {"finalSourceBlock": final.number, "finalSourceHash": f"0x{final.hash.hex()}"}
        if suspicion.kind == WITHOUT_CREATION:
            is_absent = int(sender, 16) == _NOBODY and await self._is_lane_complete(receipt, source, final.number)
            return proof if is_absent else None
        events = [event for _, event in await self._sent(suspicion, source, final.number)]
        created = [event for event in events if isinstance(event, MessageRouted | MessageUnfunded)]
        if not created:
            return None
        if suspicion.kind == PAYLOAD_DIFFERS:
            sent = decode_envelope(created[0].envelope).message
            is_same = (sent.payload_hash, sent.destination_chain) == (event.payload_hash, receipt.received_chain)
            return None if is_same else {**proof, "payloadHash": f"0x{sent.payload_hash.hex()}"}
        dispatches = [event for event in events if isinstance(event, MessageRouted | MessageRetried)]
        retries = [dispatch for dispatch in dispatches if isinstance(dispatch, MessageRetried)]
        is_complete = len(retries) == attempts and any(isinstance(dispatch, MessageRouted) for dispatch in dispatches)
        used = any(dispatch.gmps >> (receipt.gmp - 1) & 1 for dispatch in dispatches)
        return {**proof, "attempts": attempts} if is_complete and not used else None

    async def _received(self, receipt: ReceiptRecord) -> tuple[MessageReceived, Block] | None:
        """Returns the receipt and its block as the destination's endpoints report them now, or None."""
        assert receipt.received_chain is not None
        assert receipt.received_block is not None
        here, chain = self._deployment.chain(receipt.received_chain), self._chains[receipt.received_chain]
        block = await chain.block(receipt.received_block)
        events = await self._read(chain, here.router, [receipt.received_block], [topic_of("MessageReceived")])
        for block_hash, event in events:
            if block is None or block_hash != block.hash or not isinstance(event, MessageReceived):
                continue
            if (event.message_id, event.gmp) == (receipt.message_id, receipt.gmp):
                return event, block
        return None

    async def _sent(self, suspicion: Suspicion, source: ChainDeployment, final: int) -> list[tuple[bytes, Event]]:
        """Returns the message's creation and dispatches, read again in the blocks that the index recorded."""
        numbers = {
            event.block_number
            for event in suspicion.events
            if event.chain_id == source.chain_id and event.block_number <= final
        }
        topics = [topic_of(event) for event in ("MessageRouted", "MessageUnfunded", "MessageRetried")]
        read = await self._read(self._chains[source.chain_id], source.router, sorted(numbers), topics)
        return [(at, event) for at, event in read if event.message_id == suspicion.message_id]

    @staticmethod
    async def _read(
        chain: Chain, router: str, numbers: Sequence[int], topics: Sequence[bytes]
    ) -> list[tuple[bytes, Event]]:
        """Returns the router's events in the given blocks with their block hashes."""
        logs = await asyncio.gather(*(chain.logs(number, number, [router], topics) for number in numbers))
        decoded = ((log.block_hash, decode_event(log.topics, log.data)) for block_logs in logs for log in block_logs)
        return [(at, event) for at, event in decoded if event is not None]

    async def _covering(
        self, suspicion: Suspicion, receipt: ReceiptRecord, block: Block, source: ChainDeployment
    ) -> Block | None:
        """Returns the source's final block once it covers every message that an honest receipt could be for, or None.

        Such a message is not above the source's head as read after the receipt, and is not later than the
        receipt by more than the chains' clock skew.
        """
        chain, rule = self._chains[source.chain_id], FinalityRule.of(source)
        head, tagged = await asyncio.gather(chain.head(), rule.tagged(chain))
        seen = self._heads.setdefault((suspicion.message_id, receipt.gmp), head.number)
        number = rule.last(head, tagged)
        if number < seen:
            return None
        final = await chain.block(number)
        return final if final is not None and final.timestamp >= block.timestamp + self._skew else None

    async def _is_lane_complete(self, receipt: ReceiptRecord, source: ChainDeployment, block: int) -> bool:
        """Returns whether the index has all messages of a lane up to a block, and lacks the receipt's message.

        It has all of them if it has as many as the lane's router counts.
        """
        assert receipt.received_chain is not None
        destination, router = receipt.received_chain, to_bytes32(source.router)
        counted, _ = await read_view(
            self._chains[source.chain_id], ROUTER, source.router, "sentTo", destination, block=block
        )

        def compare(index: Index) -> bool:
            read_to = next((chain.block for chain in index.chains() if chain.chain_id == source.chain_id), -1)
            message = index.message(receipt.message_id)
            is_unknown = message is not None and message.source_block is None
            indexed = index.created_up_to(source.chain_id, router, destination, block)
            return read_to >= block and is_unknown and indexed == counted

        return await self._ask(compare)

    async def _has_other_peer(self, receipt: ReceiptRecord, source: ChainDeployment) -> bool:
        """Returns whether the destination ever trusted another router on the source, which the index does not read."""
        assert receipt.received_chain is not None
        here, chain = self._deployment.chain(receipt.received_chain), self._chains[receipt.received_chain]
        ours, head = to_bytes32(source.router), await chain.head()
        for first in range(here.start_block, head.number + 1, _RANGE):
            logs = await chain.logs(first, min(first + _RANGE - 1, head.number), [here.router], [_PEER_SET])
            if any(int.from_bytes(log.topics[1], "big") == source.chain_id and log.topics[2] != ours for log in logs):
                return True
        return False

    async def _ask(self, question: Callable[[Index], _T]) -> _T:
        def ask() -> _T:
            with self._index() as index:
                if index is None:
                    raise TransientError("the index has not run yet: start `waybill index run`")
                return question(index)

        return await asyncio.to_thread(ask)
