"""What others do on a network: an owner closes an inbox, a stranger delivers what was delivered, a node goes silent."""

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
    """Closes the example inbox of a chain, which then refuses every message, or opens it."""
    call = Call(to=target.examples["inbox"], data=INBOX.encode("setClosed", closed))
    await transact(chains[target.chain_id], owner, call)


async def deliver_again(
    deployment: Deployment, chains: Mapping[int, Chain], stranger: LocalAccount, count: int
) -> None:
    """Sends the data of past deliveries again, as a relayer would that does not look first.

    Wormhole is the GMP whose core lets a delivery through twice, so its deliveries are the ones repeated.
    """
    target = deployment.chains[0]
    chain = chains[target.chain_id]
    head = await chain.head()
    received = await chain.logs(target.start_block, head.number, [target.router], [topic_of(MessageReceived)])
    over_wormhole = [log for log in received if _gmp_of(log) == Gmp.WORMHOLE]
    provider = AsyncHTTPProvider(target.rpc_urls[0])
    try:
        for log in over_wormhole[:count]:
            past = await AsyncWeb3(provider).eth.get_transaction(HexStr(f"0x{log.transaction_hash.hex()}"))
            await transact(chain, stranger, Call(to=str(past["to"]), data=bytes(past["input"])))
    finally:
        await provider.disconnect()


@contextmanager
def silenced(chain: ChainStatus) -> Iterator[None]:
    """A chain that makes no block and whose node answers nobody, until the block ends."""
    node = psutil.Process(chain.pid)
    node.suspend()
    try:
        yield
    finally:
        node.resume()


def _gmp_of(log: Log) -> int | None:
    event = decode_event(log.topics, log.data)
    return event.gmp if isinstance(event, MessageReceived) else None
