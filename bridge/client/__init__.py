"""The Python client for dApps and scripts: quotes, routes, retries, executes and tracks messages.

Example:
    ::

        with BlockingClient(Deployment.load("deployments/devnet.json"), account) as client:
            request = RouteRequest(destination="beta", recipient=inbox, payload="hello", gmps=["hyperlane"])
            sent = client.route("alpha", request)
            progress = client.wait(sent.message, timeout=60)

`Client` is the asynchronous version, which `BlockingClient` wraps.
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
    "TtlTooShortError",
    "UnknownMessageError",
    "cancellation_of",
    "report_of",
    "transact",
]
