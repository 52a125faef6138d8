"""How far each lane is by the heartbeats that have arrived: read on the destinations alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from bridge.domain.lanes import Lane
from bridge.domain.ports import CallRevertedError, Chain, TransientError
from bridge.relayer.heartbeats import ArrivedHeartbeat, arrived


async def arrived_on(
    chain: Chain, contract: str, sources: Iterable[int], senders: Iterable[str]
) -> list[ArrivedHeartbeat]:
    """The newest heartbeat of each lane to a chain, of the relayers that are believed.

    Args:
        chain: the destination.
        contract: its `Heartbeats`.
        sources: ids of the other chains.
        senders: the relayers' accounts.

    Raises:
        CallRevertedError: that is another contract.
        TransientError: the chain does not answer.
    """
    lanes = [Lane(source, chain.chain_id) for source in sources if source != chain.chain_id]
    asked = [(lane, sender) for lane in lanes for sender in senders]
    answers = await asyncio.gather(*(arrived(chain, contract, lane, sender) for lane, sender in asked))
    newest: dict[Lane, ArrivedHeartbeat] = {}
    for found in answers:
        if found is not None and (found.lane not in newest or found.at > newest[found.lane].at):
            newest[found.lane] = found
    return [newest[lane] for lane in sorted(newest)]


async def arrived_everywhere(
    chains: Mapping[int, Chain], contracts: Mapping[int, str], senders: Iterable[str]
) -> tuple[list[ArrivedHeartbeat], dict[int, str]]:
    """The same for every chain that has the contract, and why a chain could not be read, by its id."""
    believed = sorted(senders)
    read = await asyncio.gather(
        *(arrived_on(chains[chain_id], contract, chains, believed) for chain_id, contract in contracts.items()),
        return_exceptions=True,
    )
    found: list[ArrivedHeartbeat] = []
    problems: dict[int, str] = {}
    for chain_id, there in zip(contracts, read, strict=True):
        if isinstance(there, TransientError | CallRevertedError):
            problems[chain_id] = str(there)
        elif isinstance(there, BaseException):
            raise there
        else:
            found += there
    return sorted(found, key=lambda one: one.lane), problems
