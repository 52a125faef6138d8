"""For dApps and scripts in Python: quote, route, retry, execute, and follow a message to its end.

Example:
    ::

        web3s = {chain.chain_id: Web3(HTTPProvider(chain.rpc_urls[0])) for chain in deployment.chains}
        with BlockingClient(deployment, web3s, account) as client:
            request = RouteRequest(destination="beta", recipient=inbox, payload="hello", gmps=["hyperlane"])
            sent = client.route("alpha", request)
            progress = client.wait(sent.message, timeout=60)

`Client` is the same for code that awaits; `BlockingClient` runs it, so that there is one implementation. Both take `AsyncWeb3` and `Web3`
objects of your own, and return web3's types.
"""

from bridge.client.blocking import BlockingClient
from bridge.client.client import (
    Client,
    Created,
    FeeCapError,
    NoRecipientError,
    NothingToRetryError,
    NotIncludedError,
    RefusedError,
    RouteRequest,
    Sent,
    TooMuchGasError,
    TtlTooShortError,
    UnknownMessageError,
    cancellation_of,
    report_of,
    transact,
)

__all__ = [
    "BlockingClient",
    "Client",
    "Created",
    "FeeCapError",
    "NoRecipientError",
    "NotIncludedError",
    "NothingToRetryError",
    "RefusedError",
    "RouteRequest",
    "Sent",
    "TooMuchGasError",
    "TtlTooShortError",
    "UnknownMessageError",
    "cancellation_of",
    "report_of",
    "transact",
]
