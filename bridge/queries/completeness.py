"""Whether the relayer has found every message that the routers have counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import CallRevertedError, Chain, TransientError, read_view
from bridge.store import Store


@dataclass(frozen=True, slots=True)
class Counted:
    """The messages of one lane, up to the block that the relayer has read.

    Attributes:
        destination: the destination chain.
        block: up to which block of the source.
        found: messages that the relayer has found there.
        created: messages that the router has counted there; None if no endpoint says.
        why: the endpoints' error, if none says.
    """

    destination: int
    block: int
    found: int
    created: int | None
    why: str = ""


async def counted_lanes(
    deployed: ChainDeployment, chain: Chain, destinations: Sequence[int], store: Store
) -> list[Counted]:
    """Compares the lanes from one chain; none if the relayer has not read it yet."""
    cursor = store.observations.cursor(deployed.chain_id)
    if cursor is None:
        return []
    block, lanes = cursor.position.number, list[Counted]()
    for destination in destinations:
        found = store.observations.created_on(deployed.chain_id, destination)  # after the cursor: none is missed
        try:
            created, _ = await read_view(chain, ROUTER, deployed.router, "sentTo", destination, block=block)
        except (CallRevertedError, TransientError) as error:
            lanes.append(Counted(destination, block, found, None, str(error)))
        else:
            lanes.append(Counted(destination, block, found, created))
    return lanes
