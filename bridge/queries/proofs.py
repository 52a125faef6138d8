"""A proof of what happened to a message, made of what its chains answer; `bridge.protocol.proof` checks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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


async def prove_message(
    deployment: Deployment, chains: Mapping[int, EvmChain], message: Message, known: Collection[EventRecord]
) -> MessageProof:
    """Proves a message's creation, each receipt and its execution, as far as it has come.

    Args:
        deployment: of the network.
        chains: the message's two.
        message: the message.
        known: its events as the index has them: a chain of which it has some is not searched. Empty without an index.

    Raises:
        TransientError: a chain does not answer, or its answers do not give its blocks' hashes.
    """
    source, destination = (deployment.chain(one) for one in (message.source_chain, message.destination_chain))
    created = await _logs(chains[source.chain_id], source, message.id, _CREATED, known)
    if not created:
        raise UnansweredError(
            f"the index knows the message's creation, and {source.name} has no such event: ask again later"
        )
    delivered = await _logs(chains[destination.chain_id], destination, message.id, _DELIVERED, known)
    return MessageProof(message.id, (created[0], *delivered))


async def _logs(
    chain: EvmChain,
    deployed: ChainDeployment,
    message_id: bytes,
    events: Iterable[type[Event]],
    known: Collection[EventRecord],
) -> list[LogProof]:
    """Proofs of a message's events on a chain, the oldest first."""
    names, topics = {event.__name__ for event in events}, [topic_of(event) for event in events]
    blocks = {one.block_number for one in known if one.chain_id == deployed.chain_id and one.event in names}
    if not blocks:  # an index may be behind on one of the chains
        head = (await chain.head()).number
        for start in range(deployed.start_block, head + 1, _LOG_RANGE):
            found = await chain.logs(start, min(start + _LOG_RANGE - 1, head), [deployed.router], topics)
            blocks.update(log.block_number for log in found if log.topics[1] == message_id)
    wanted = {"0x" + topic.hex() for topic in topics}

    def is_chosen(log: Mapping[str, Any]) -> bool:
        of_router = log["address"].lower() == deployed.router.lower()
        return of_router and log["topics"][0] in wanted and log["topics"][1] == "0x" + message_id.hex()

    return [proof for block in sorted(blocks) for proof in await chain.prove_logs(block, is_chosen)]
