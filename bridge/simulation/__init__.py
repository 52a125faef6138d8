"""A deterministic, seeded world around the real core: simulated chains and GMPs, virtual time, crashes at any call."""

from __future__ import annotations

from bridge.simulation.bridge import SimulatedBridge
from bridge.simulation.chain import Faults, SimulatedChain
from bridge.simulation.power import Power, PowerCut
from bridge.simulation.time import VirtualClock, run_in_virtual_time
from bridge.simulation.world import DAPP, RELAYER, World

__all__ = [
    "DAPP",
    "RELAYER",
    "Faults",
    "Power",
    "PowerCut",
    "SimulatedBridge",
    "SimulatedChain",
    "VirtualClock",
    "World",
    "run_in_virtual_time",
]
