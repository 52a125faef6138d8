"""What the README and the pages of docs/ show in Python, as it stands there."""

from __future__ import annotations

from eth_account import Account

from bridge.client import BlockingClient, Client, RouteRequest, Sent
from bridge.evm.chain import open_chains
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message


def send_for_at_most(client: BlockingClient, inbox: str, cap: int) -> Sent:
    gmps = (Gmp.HYPERLANE, Gmp.LAYERZERO)
    request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=gmps, max_fee=cap)
    print(client.quote_route("alpha", request))  # wei, by GMP
    return client.route("alpha", request)  # FeeCapError: the fee is above the cap; nothing was sent


def follow(client: BlockingClient, message: Message) -> bool:
    for progress in client.watch(message, timeout=600):
        print(sorted(gmp.label for gmp in progress.receipts), "executed" if progress.executed else "not yet")
    return client.progress(message).executed


async def retry_over_others(client: Client, message: Message, patience: float) -> bool:
    for gmp in (Gmp.WORMHOLE, Gmp.LAYERZERO):
        if (await client.wait(message, timeout=patience)).executed:
            return True
        await client.retry(message, [gmp], max_fee=10**18)
    return (await client.wait(message, timeout=patience)).executed


def hello(deployment: Deployment, key: str) -> bool:
    with BlockingClient(deployment, Account.from_key(key)) as client:
        inbox = deployment.chain("beta").examples["inbox"]
        request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.AXELAR,))
        sent = client.route("alpha", request)
        client.retry(sent.message, [Gmp.WORMHOLE])
        return client.wait(sent.message, timeout=60).executed


async def send(deployment: Deployment, key: str, request: RouteRequest) -> Sent:
    async with open_chains(deployment) as chains:
        return await Client(deployment, chains, Account.from_key(key)).route("alpha", request)
