"""A local network: anvil chains with the GMPs' real contracts.

Waybill signs as the GMPs' validators, signers and guardians, with well-known test keys. Never use these keys on
a network with real value.
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
