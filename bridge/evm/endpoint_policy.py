"""The policy for a chain's JSON-RPC endpoints: timeouts, retries, agreement and rates, which the relayer and the index share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from bridge.evm.rpc_answers import NoUrlError, TransientRpcError
from bridge.protocol.text import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPolicy:
    """The policy for requests to the endpoints of one chain. Times are in seconds.

    Attributes:
        request_seconds: timeout of one request.
        try_seconds: time for which a request is retried while no endpoint responds.
        rest_seconds: total time that a request waits for endpoints that limit our rate.
        agreement: number of endpoints that must return the same result, return the same error, or accept a
            transaction. For the head and other monotonic quantities, the result is the highest value that this many
            endpoints have reached.
        branch_seconds: time for which an endpoint with a different block at the height of our last block is
            rejected while no other endpoint responds.
        requests_per_second: rate limit for each endpoint; None means unlimited.
        batch: maximum number of requests in a batch.
        origin: place where the URLs are configured, for the error about a URL that serves a different chain.
        chain_name: the chain's name in the network's files, for errors; empty if it has none.
    """

    request_seconds: float = 10.0
    try_seconds: float = 15.0
    rest_seconds: float = 15.0
    agreement: int = 1
    branch_seconds: float = 30.0
    requests_per_second: float | None = None
    batch: int = 50
    origin: str = field(
        default="rpcUrls in the network's file or deployments file, or the variable that it names", compare=False
    )
    chain_name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("requests_per_second", "batch", "agreement"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be greater than 0")

    def called(self, chain_id: int) -> str:
        """Returns the chain's name for errors."""
        return f"{self.chain_name} ({chain_id})" if self.chain_name else f"chain {chain_id}"

    def shared_by(self, tasks: int) -> EndpointPolicy:
        """Returns the policy for each of several concurrent tasks, which share the rate limit."""
        rate = self.requests_per_second
        return self if rate is None else replace(self, requests_per_second=rate / tasks)


class Pace:
    """Spaces requests to one endpoint evenly, and observes the endpoint's pauses. Threads may share it."""

    def __init__(self, requests_per_second: float | None) -> None:
        """Sets the rate limit; None means unlimited."""
        self.closed_until = 0.0
        self._interval = 0.0 if requests_per_second is None else 1 / requests_per_second
        self._next = 0.0
        self._lock = threading.Lock()

    def wait_from(self, now: float, requests: int = 1) -> float:
        """Reserves the next slot for `requests` requests, and returns the seconds until then."""
        if not self._interval:
            return 0.0
        with self._lock:
            place = max(now, self._next)
            self._next = place + self._interval * requests
        return place - now


def require_endpoints(chain_id: int, urls: Sequence[str], policy: EndpointPolicy) -> None:
    """Checks that the policy can be applied to a chain's endpoints.

    Raises:
        NoUrlError: a URL is invalid.
        TransientRpcError: there are fewer endpoints than must agree.
    """
    require_urls(urls, policy)
    if len(urls) < policy.agreement:
        raise TransientRpcError(
            f"{policy.called(chain_id)}: agreement is {policy.agreement}, but only {len(urls)} endpoint(s) are "
            f"configured. Add endpoints in {policy.origin}, or lower agreement"
        )


def require_urls(urls: Sequence[str], policy: EndpointPolicy) -> None:
    """Checks the URLs of a chain's endpoints.

    Raises:
        NoUrlError: a URL is invalid.
    """
    for text in urls:
        if not text.startswith(("http://", "https://")):
            shown = quoted(text.partition("/")[0])  # the rest may hold a key
            raise NoUrlError(
                f"{shown} is not a JSON-RPC URL: it must start with http:// or https://; correct {policy.origin}"
            )


def without_secrets(url: str) -> str:
    """Returns a URL without the parts that may be secret.

    Providers put keys into the path, the query, or before the host.
    """
    parts = urlsplit(url)
    try:
        host = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    except ValueError:  # the port is not a number
        host = f"{parts.hostname}"
    return f"{parts.scheme}://{host}{'/…' if parts.path.strip('/') or parts.query else ''}"
