"""How long a message takes to arrive at least, so that one that could only expire is not paid for."""

from __future__ import annotations

from typing import Final

from bridge.client.requests import RouteRequest, TtlTooShortError
from bridge.policies import Reliability
from bridge.ports import Chain
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.message import Kind

USUAL_GMP_SECONDS: Final = Reliability().gmp_time
"""What a GMP usually takes once a message is final on its source, as relayers assume unless they are told otherwise."""


async def refuse_short_ttl(chain: Chain, source: ChainDeployment, request: RouteRequest) -> None:
    """Makes sure that a message can arrive within its TTL. Heartbeats are exempt: the next one replaces them.

    Raises:
        TtlTooShortError: it would expire before relayers could deliver it; nothing was sent.
        TransientError: the chain does not answer.
    """
    if request.ttl == 0 or request.kind is Kind.HEARTBEAT:
        return
    finality = await seconds_to_finality(chain, source)
    if request.ttl < finality + USUAL_GMP_SECONDS:
        raise TtlTooShortError(request.ttl, source.name, finality, USUAL_GMP_SECONDS)


async def seconds_to_finality(chain: Chain, deployed: ChainDeployment) -> float:
    """How long a chain's blocks take at present until relayers act on them: the age of the newest that they act on.

    Raises:
        TransientError: the chain does not answer.
    """
    head = await chain.head()
    height = head.number - deployed.confirmations
    if deployed.finality is not None:
        height = min(height, await chain.height_of(deployed.finality))
    final = await chain.block(max(height, 0))
    return 0.0 if final is None else float(head.timestamp - final.timestamp)
