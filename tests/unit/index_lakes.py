"""What the tests of the lake put into it."""

from __future__ import annotations

from indexer.sinks.lake import FinalBlocks
from tests.unit.index_world import SimulatedChain, new_world, routed, sent_message


def chain_with_events(blocks: int) -> SimulatedChain:
    chain, _ = new_world()
    for number in range(1, blocks + 1):
        chain.mine(routed(sent_message(number, gas_limit=2**64 - number)))
    return chain


def final(chain: SimulatedChain, first: int, last: int) -> dict[int, FinalBlocks]:
    return {chain.chain_id: FinalBlocks(first, last, chain.blocks[last].hash)}
