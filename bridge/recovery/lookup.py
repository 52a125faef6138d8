"""Finds a message by its id: in the store, or, if it was created before the store was, in the source's logs."""

from __future__ import annotations

from bridge.ports import Chain
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.events import EventDecodingError, MessageRouted, decode_event, topic_of
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.records.observations import Observations

_BLOCK_RANGE = 2_000


async def find_message(
    message_id: bytes, observations: Observations, chain: Chain, deployed: ChainDeployment, hint: int | None = None
) -> Message | None:
    """The message with that id, or None if the chain's router never routed it.

    Args:
        message_id: which one.
        observations: looked at first.
        chain: its source.
        deployed: what is on that chain.
        hint: a block that may hold it, looked at before all others.
    """
    observed = observations.message(message_id)
    if observed is not None:
        return observed.message
    if hint is not None:
        found = await _find(message_id, chain, deployed.router, hint, hint)
        if found is not None:
            return found
    head = await chain.head()
    for first in range(deployed.start_block, head.number + 1, _BLOCK_RANGE):
        found = await _find(message_id, chain, deployed.router, first, min(first + _BLOCK_RANGE - 1, head.number))
        if found is not None:
            return found
    return None


async def _find(message_id: bytes, chain: Chain, router: str, first: int, last: int) -> Message | None:
    for log in await chain.logs(first, last, [router], [topic_of(MessageRouted)]):
        try:
            event = decode_event(log.topics, log.data)
            if isinstance(event, MessageRouted) and event.message_id == message_id:
                message = decode_envelope(event.envelope).message
                return message if message.id == message_id else None
        except (EventDecodingError, EnvelopeError):
            continue
    return None
