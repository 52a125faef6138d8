"""The demonstration's messages, sent in both directions, over every GMP and with every quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle

from eth_account.signers.local import LocalAccount

from bridge.client import Client, RouteRequest, Sent
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Chain

HYPERLANE, AXELAR, WORMHOLE = Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE

STALLED_GMP = AXELAR

# GMPs and quorum of messages that arrive while all GMPs work.
_HEALTHY: tuple[tuple[tuple[Gmp, ...], int], ...] = (
    ((HYPERLANE,), 1),
    ((WORMHOLE,), 1),
    ((AXELAR,), 1),
    ((HYPERLANE, WORMHOLE), 2),
    ((HYPERLANE, AXELAR), 2),
    ((HYPERLANE, AXELAR, WORMHOLE), 1),
    ((HYPERLANE, AXELAR, WORMHOLE), 2),
    ((HYPERLANE, AXELAR, WORMHOLE), 3),
)

# GMPs and quorum of messages that need the stalled GMP, and that a retry over another GMP can rescue.
_STALLING: tuple[tuple[tuple[Gmp, ...], int], ...] = (
    ((AXELAR,), 1),
    ((HYPERLANE, AXELAR), 2),
    ((AXELAR, WORMHOLE), 2),
)


Planned = tuple[str, RouteRequest]
"""Source chain and request of a message."""


def healthy(deployment: Deployment, count: int) -> list[Planned]:
    """Returns messages between the first two chains that arrive if every GMP works."""
    return _plan(deployment, _HEALTHY, count, "hello")


def stalling(deployment: Deployment, count: int) -> list[Planned]:
    """Returns messages between the first two chains that can't reach their quorum while `STALLED_GMP` is down."""
    return _plan(deployment, _STALLING, count, "patience")


def _plan(
    deployment: Deployment, ways: Sequence[tuple[tuple[Gmp, ...], int]], count: int, greeting: str
) -> list[Planned]:
    names = [chain.name for chain in deployment.chains[:2]]
    lanes = cycle([(source, destination) for source in names for destination in names if source != destination])
    # Cycle through the lanes with every message, and through the GMP sets with every round of lanes.
    rounds = len(names) * (len(names) - 1)
    planned = list[Planned]()
    for number in range(count):
        source, destination = next(lanes)
        gmps, quorum = ways[number // rounds % len(ways)]
        inbox, payload = deployment.chain(destination).examples["inbox"], f"{greeting} {number}".encode()
        request = RouteRequest(destination=destination, recipient=inbox, payload=payload, gmps=gmps, quorum=quorum)
        planned.append((source, request))
    return planned


async def send(
    deployment: Deployment,
    chains: Mapping[int, Chain],
    accounts: Sequence[LocalAccount],
    planned: Sequence[Planned],
) -> list[Sent]:
    """Sends messages from several accounts in parallel, one at a time per account and chain."""
    queues: dict[tuple[str, str], list[tuple[Client, Planned]]] = {}
    for number, item in enumerate(planned):
        account = accounts[number // 2 % len(accounts)]
        client = Client(deployment, chains, account)
        queues.setdefault((item[0], account.address), []).append((client, item))

    async def drain(queue: list[tuple[Client, Planned]]) -> list[Sent]:
        return [await client.route(*item) for client, item in queue]

    return [sent for batch in await asyncio.gather(*map(drain, queues.values())) for sent in batch]
