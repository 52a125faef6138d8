"""What the README and the pages of docs/ show in Python, as it stands there."""

from __future__ import annotations

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3.middleware import SignAndSendRawMiddlewareBuilder

from bridge.client import BlockingClient, Client, RouteRequest, Sent
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message


def send_for_at_most(client: BlockingClient, inbox: str, cap: int) -> Sent:
    gmps = (Gmp.HYPERLANE, Gmp.LAYERZERO)
    request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=gmps, max_fee=cap)
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


def hello(deployment: Deployment, key: str) -> bool:
    web3s = {chain.chain_id: Web3(HTTPProvider(chain.rpc_urls[0])) for chain in deployment.chains}
    with BlockingClient(deployment, web3s, Account.from_key(key)) as client:
        inbox = deployment.chain("beta").examples["inbox"]
        request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.AXELAR,))
        sent = client.route("alpha", request)
        client.retry(sent.message, [Gmp.WORMHOLE])
        return client.wait(sent.message, timeout=60).executed


async def send(deployment: Deployment, key: str, request: RouteRequest) -> Sent:
    web3s = {chain.chain_id: AsyncWeb3(AsyncHTTPProvider(chain.rpc_urls[0])) for chain in deployment.chains}
    try:
        return await Client(deployment, web3s, Account.from_key(key)).route("alpha", request)
    finally:
        for web3 in web3s.values():
            await web3.provider.disconnect()


def signing(url: str, account: LocalAccount) -> Web3:
    web3 = Web3(HTTPProvider(url))
    web3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(account), layer=0)
    web3.eth.default_account = account.address
    return web3
