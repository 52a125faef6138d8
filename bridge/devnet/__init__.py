"""A network on this machine: anvil chains with the real GMPs' contracts on them.

Waybill signs here as the GMPs' validators, signers and guardians, with well-known test keys:
nothing of this is for a network that is worth anything.
"""

from bridge.devnet.anvil import ChainState, ChainStatus, PortTakenError
from bridge.devnet.errors import DevnetError
from bridge.devnet.gmps import devnet_attesters
from bridge.devnet.network import Devnet, down, status, up

__all__ = [
    "ChainState",
    "ChainStatus",
    "Devnet",
    "DevnetError",
    "PortTakenError",
    "devnet_attesters",
    "down",
    "status",
    "up",
]
