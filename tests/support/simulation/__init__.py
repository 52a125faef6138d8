"""A deterministic, seeded world around the real core: simulated chains and GMPs, virtual time, crashes at any call."""

from __future__ import annotations

from tests.support.simulation.chain import Faults, SimulatedChain
from tests.support.simulation.power import Power, PowerCut
from tests.support.simulation.relayer import SimulatedRelayer
from tests.support.simulation.time import StandstillError, VirtualClock, run_in_virtual_time
from tests.support.simulation.world import DAPP, RELAYER, World

__all__ = [
    "DAPP",
    "RELAYER",
    "Faults",
    "Power",
    "PowerCut",
    "SimulatedChain",
    "SimulatedRelayer",
    "StandstillError",
    "VirtualClock",
    "World",
    "run_in_virtual_time",
]
