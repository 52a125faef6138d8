"""What the README and the pages of docs/ show in Python, as it stands there."""

from __future__ import annotations

from eth_account import Account
from eth_account.signers.base import BaseAccount
from web3 import HTTPProvider, Web3

from bridge.client import BlockingClient, Client, RouteRequest, Sent
from bridge.evm.chain import open_chains
from bridge.evm.own_web3 import own_web3
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message


def send_for_at_most(deployment: Deployment, key: str, cap: int) -> Sent:
    inbox = deployment.chain("beta").examples["inbox"]
    gmps = (Gmp.HYPERLANE, Gmp.LAYERZERO)
    request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=gmps, max_fee=cap)
    with BlockingClient(deployment, open_chains, Account.from_key(key)) as client:
        print(client.quote_route("alpha", request))  # wei, by GMP
        return client.route("alpha", request)  # FeeCapError: too dear, and nothing was sent


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


async def hello(deployment: Deployment, key: str) -> bool:
    async with open_chains(deployment) as chains:
        client = Client(deployment, chains, Account.from_key(key))
        inbox = deployment.chain("beta").examples["inbox"]
        request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.AXELAR,))
        sent = await client.route("alpha", request)
        await client.retry(sent.message, [Gmp.WORMHOLE])
        return (await client.wait(sent.message, timeout=60)).executed


def send_over_own_web3(deployment: Deployment, account: BaseAccount, url: str, request: RouteRequest) -> Sent:
    with BlockingClient(deployment, own_web3(Web3(HTTPProvider(url))), account) as client:
        return client.route("alpha", request)
