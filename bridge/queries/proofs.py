"""A proof of what happened to a message, made of what its chains answer; `bridge.protocol.proof` checks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.domain.ports import UnansweredError
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import (
    Event,
    MessageExecuted,
    MessageReceived,
    MessageRouted,
    MessageUnfunded,
    topic_of,
)
from bridge.protocol.indexed import EventRecord
from bridge.protocol.message import Message
from bridge.protocol.proof import LogProof, MessageProof

_CREATED: Final = (MessageRouted, MessageUnfunded)
_DELIVERED: Final = (MessageReceived, MessageExecuted)
_LOG_RANGE: Final = 5_000  # blocks
_SKEW: Final = 3_600  # seconds between two chains' clocks at most


async def prove_message(
    deployment: Deployment,
    chains: Mapping[int, EvmChain],
    message: Message,
    known: Collection[EventRecord],
    read_to: Mapping[int, int],
) -> MessageProof:
    """Proves a message's creation, each receipt and its execution, as far as it has come.

    Args:
        deployment: of the network.
        chains: the message's two.
        message: the message.
        known: its events as the index has them; empty without an index.
        read_to: the block up to which the index has read a chain: later ones are searched. Of a chain that is not in it, those
            are searched that are not older than the message.

    Raises:
        TransientError: a chain does not answer, or its answers do not give its blocks' hashes.
    """
    source, destination = (
        _Search(chains[one.chain_id], one, message, known, read_to.get(one.chain_id))
        for one in (deployment.chain(message.source_chain), deployment.chain(message.destination_chain))
    )
    created = await source.logs(_CREATED)
    if not created:
        name = deployment.chain(message.source_chain).name
        raise UnansweredError(f"{name} does not have the message's creation in its blocks now: ask again later")
    return MessageProof(message.id, (created[0], *await destination.logs(_DELIVERED)))


@dataclass(frozen=True, slots=True)
class _Search:
    """For a message's events on one of its chains."""

    chain: EvmChain
    deployed: ChainDeployment
    message: Message
    known: Collection[EventRecord]
    read_to: int | None

    async def logs(self, events: Iterable[type[Event]]) -> list[LogProof]:
        """Proofs of its events of these kinds, the oldest first."""
        names, topics = {event.__name__ for event in events}, [topic_of(event) for event in events]
        here = self.deployed.chain_id
        blocks = {one.block_number for one in self.known if one.chain_id == here and one.event in names}
        head = (await self.chain.head()).number
        first = await self._first_block(head) if self.read_to is None else self.read_to + 1
        for start in range(first, head + 1, _LOG_RANGE):
            found = await self.chain.logs(start, min(start + _LOG_RANGE - 1, head), [self.deployed.router], topics)
            blocks.update(log.block_number for log in found if log.topics[1] == self.message.id)
        wanted = {_hex(topic) for topic in topics}

        def is_chosen(log: Mapping[str, Any]) -> bool:
            first_two = [topic.lower() for topic in log["topics"][:2]]
            is_of_router = log["address"].lower() == self.deployed.router.lower()
            return (
                is_of_router
                and len(first_two) == 2
                and first_two[0] in wanted
                and first_two[1] == _hex(self.message.id)
            )

        return [proof for block in sorted(blocks) for proof in await self.chain.prove_logs(block, is_chosen)]

    async def _first_block(self, head: int) -> int:
        """A block before which the message did not exist, by the chain's own clock and an hour between the clocks."""
        first, last = self.deployed.start_block, head
        while first < last:
            middle = (first + last) // 2
            block = await self.chain.block(middle)
            if block is None or block.timestamp >= self.message.sent_at - _SKEW:
                last = middle
            else:
                first = middle + 1
        return first


def _hex(data: bytes) -> str:
    return "0x" + data.hex()
