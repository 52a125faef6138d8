"""Disturbances of the demonstration: a closed inbox, repeated deliveries and a suspended node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
from eth_account.signers.local import LocalAccount
from eth_typing import HexStr
from web3 import AsyncHTTPProvider, AsyncWeb3

from bridge.client import transact
from bridge.devnet.anvil import ChainStatus
from bridge.protocol.contracts import INBOX
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import MessageReceived, decode_event, topic_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Chain, Log


async def close_inbox(
    chains: Mapping[int, Chain], target: ChainDeployment, owner: LocalAccount, *, closed: bool
) -> None:
    """Closes a chain's example inbox, which then rejects every message, or opens it."""
    call = Call(to=target.examples["inbox"], data=INBOX.encode("setClosed", closed))
    await transact(chains[target.chain_id], owner, call)


async def deliver_again(
    deployment: Deployment, chains: Mapping[int, Chain], stranger: LocalAccount, count: int
) -> None:
    """Repeats past deliveries with their original calldata.

    Only Wormhole deliveries are repeated, because its core accepts a VAA twice.
    """
    target = deployment.chains[0]
    chain = chains[target.chain_id]
    head = await chain.head()
    received = await chain.logs(target.start_block, head.number, [target.router], [topic_of(MessageReceived)])
    over_wormhole = [log for log in received if _gmp_of(log) == Gmp.WORMHOLE]
    provider = AsyncHTTPProvider(target.rpc_urls[0])
    try:
        for log in over_wormhole[:count]:
            original = await AsyncWeb3(provider).eth.get_transaction(HexStr(f"0x{log.transaction_hash.hex()}"))
            await transact(chain, stranger, Call(to=str(original["to"]), data=bytes(original["input"])))
    finally:
        await provider.disconnect()


@contextmanager
def silenced(chain: ChainStatus) -> Iterator[None]:
    """Suspends a chain's node for the duration of the context."""
    node = psutil.Process(chain.pid)
    node.suspend()
    try:
        yield
    finally:
        node.resume()


def _gmp_of(log: Log) -> int | None:
    event = decode_event(log.topics, log.data)
    return event.gmp if isinstance(event, MessageReceived) else None
