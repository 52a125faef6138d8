"""A message that nobody sent, and how a GMP's adapter brings it to a router."""

from __future__ import annotations

import time

from bridge.devnet.accounts import DAPP_KEY, account
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message


def message_from(source: ChainDeployment, destination: ChainDeployment, nonce: int = 1_000_000) -> Message:
    """One that nobody sent."""
    return Message(
        source_chain=source.chain_id,
        source_router=to_bytes32(source.router),
        sender=to_bytes32(account(DAPP_KEY).address),
        nonce=nonce,
        destination_chain=destination.chain_id,
        destination_router=to_bytes32(destination.router),
        recipient=to_bytes32(destination.examples["inbox"]),
        gas_limit=100_000,
        sent_at=int(time.time()),
        ttl=0,
        kind=Kind.PLAIN,
        quorum=2,
        replaces=bytes(32),
        payload=b"all your funds",
    )


def forgery(message: Message, destination: ChainDeployment, gmp: Gmp) -> tuple[str, bytes]:
    """The account of the adapter that lies, and what it calls the destination's router with."""
    data = ROUTER.encode("receiveMessage", message.source_chain, message.encode())
    return destination.adapter(gmp), data
