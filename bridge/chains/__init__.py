"""Chains behind JSON-RPC endpoints: what the core's `Chain` port looks like on the outside world."""

from bridge.chains.endpoint import WrongChainIdError
from bridge.chains.evm import EvmChain
from bridge.chains.network import open_chains
from bridge.chains.new_heads import NewHeads
from bridge.chains.policy import EndpointPolicy

__all__ = ["EndpointPolicy", "EvmChain", "NewHeads", "WrongChainIdError", "open_chains"]
