"""For dApps and scripts in Python: quote, route, retry, execute, and follow a message to its end.

Example:
    ::

        with BlockingClient(deployment, open_chains, account) as client:
            request = RouteRequest(destination="beta", recipient=inbox, payload=b"hello", gmps=(Gmp.HYPERLANE,))
            sent = client.route("alpha", request)
            progress = client.wait(sent.message, timeout=60)

`Client` is the same for code that awaits; `BlockingClient` runs it, so that there is one implementation.
"""

from bridge.client.blocking import BlockingClient
from bridge.client.requests import (
    Created,
    FeeCapError,
    NothingToRetryError,
    NotIncludedError,
    RefusedError,
    RouteRequest,
    Sent,
    TooMuchGasError,
    TtlTooShortError,
    UnknownMessageError,
)
from bridge.client.routing import Client, cancellation_of
from bridge.client.transactions import transact

__all__ = [
    "BlockingClient",
    "Client",
    "Created",
    "FeeCapError",
    "NotIncludedError",
    "NothingToRetryError",
    "RefusedError",
    "RouteRequest",
    "Sent",
    "TooMuchGasError",
    "TtlTooShortError",
    "UnknownMessageError",
    "cancellation_of",
    "transact",
]
