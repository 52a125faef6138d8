"""The policy for a chain's JSON-RPC endpoints.

The policy decides which endpoint gets the next request, and when, and how its response changes its rank.

The relayer and the index share this policy. It sends requests through an asynchronous `Client`; see
`bridge.evm.transport`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import structlog
from eth_utils import decode_hex

from bridge.evm.rpc_answers import (
    CHANGING,
    Meaning,
    NoAccessError,
    NoUrlError,
    RateLimitedError,
    RefusedError,
    Request,
    RpcError,
    StateUnavailableError,
    TransientRpcError,
    UndecodableError,
    UnknownBlockError,
    WrongChainError,
    revert_data,
)
from bridge.protocol.backoff import backoff
from bridge.protocol.text import quoted

_log = structlog.get_logger(__name__)

REST_SECONDS: Final = 5.0
"""Seconds for which a failed endpoint is tried last, so that requests do not all wait for its timeout again."""

_FIRST_PAUSE: Final = 0.1  # seconds between the first two tries of a request; doubles
_LONGEST_PAUSE: Final = 2.0
_OUTAGES: Final[set[tuple[int, str]]] = set()
"""Failed endpoints that have not responded since, by chain id and URL. A process with several pools reports each once."""

_CHAIN_ID: Final = Request("eth_chainId")


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


@dataclass(frozen=True, slots=True)
class EndpointState:
    """The state of one endpoint.

    Attributes:
        name: URL without parts that may be secret.
        is_up: whether the endpoint gets requests. After a failure, it rests for a while.
    """

    name: str
    is_up: bool


class Endpoint:
    """One URL, with the known state of its node."""

    def __init__(self, url: str, pace: Pace) -> None:
        self.url = url
        self.name = without_secrets(url)
        self.pace = pace
        self.rests_until = 0.0  # 0 while it responds
        self.is_verified = False  # whether its chain id was checked since its last failure


class KnownBlock(NamedTuple):
    """The number of a block that was read, and its hash or a prefix of the hash."""

    number: int
    hash: bytes


class Client(Protocol):
    """Sends a pool's requests, and waits on its behalf."""

    async def ask(self, endpoint: Endpoint, request: Request) -> Any:
        """Returns an endpoint's result.

        Raises:
            RpcError: the endpoint did not respond, or returned an error.
        """

    async def sleep(self, seconds: float) -> None:
        """Waits for the given number of seconds."""


Perform = Callable[[Endpoint], Awaitable[Any]]
"""Sends a request to an endpoint and decodes the response, for callers with their own decoding."""
Read = Callable[[Any], Any]
"""Decodes a result, or raises `UndecodableError`."""


class ErrorScope(Enum):
    """Whether an endpoint's error concerns that endpoint or all endpoints."""

    AT_FAULT = auto()  # this endpoint rests, and another is used
    LACKS_IT = auto()  # this endpoint works, but another may have the result
    SPEAKS_FOR_ALL = auto()  # every endpoint would return the same error


def scope_of(error: RpcError, request: Request) -> ErrorScope:
    """Returns whether an error concerns only the endpoint that returned it.

    Waybill's read requests are well-formed, so a node that does not understand one is at fault. But Waybill may
    broadcast a transaction that no node accepts, or request a tag that the chain does not support.
    """
    if isinstance(error, RefusedError):
        if request.is_of_tag and error.meaning in (Meaning.NOT_UNDERSTOOD, Meaning.MALFORMED):
            return ErrorScope.LACKS_IT
        if error.meaning is Meaning.NOT_UNDERSTOOD and request.method not in CHANGING:
            return ErrorScope.AT_FAULT
    if isinstance(error, TransientRpcError | NoAccessError | WrongChainError):
        return ErrorScope.AT_FAULT
    return (
        ErrorScope.LACKS_IT
        if isinstance(error, UnknownBlockError | StateUnavailableError)
        else ErrorScope.SPEAKS_FOR_ALL
    )


def _as_it_is(result: Any) -> Any:
    return result


class EndpointPool:
    """The endpoints of one chain, in order of preference."""

    def __init__(
        self,
        chain_id: int,
        urls: Sequence[str],
        policy: EndpointPolicy,
        *,
        clock: Callable[[], float],
        client: Client,
        pace_of: Callable[[str, float | None], Pace] = lambda _url, requests_per_second: Pace(requests_per_second),
    ) -> None:
        """Creates the pool without sending requests.

        Args:
            chain_id: the EIP-155 id that every endpoint must have.
            urls: URLs of the endpoints.
            policy: the endpoint policy.
            clock: monotonic seconds.
            client: sends the requests.
            pace_of: returns the pace of a URL, if other pools use it too.

        Raises:
            NoUrlError: a URL is invalid.
        """
        self.policy = policy
        _require_urls(urls, policy)
        self.endpoints = [Endpoint(url, pace_of(url, policy.requests_per_second)) for url in urls]
        self.current = self.endpoints[0]  # the endpoint in use
        self._chain_id = chain_id
        self.chain = policy.called(chain_id)  # the name in errors
        self._clock = clock
        self._client = client
        self._last: KnownBlock | None = None
        self._final: KnownBlock | None = None
        self._other_branch_since: float | None = None  # time since which only endpoints on another branch respond

    @property
    def states(self) -> list[EndpointState]:
        """Returns the state of each endpoint, most preferred first."""
        return [EndpointState(one.name, not self.rests(one)) for one in self.endpoints]

    def rests(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint recently failed or limited our rate."""
        return max(endpoint.rests_until, endpoint.pace.closed_until) > self._clock()

    def in_order(self) -> list[Endpoint]:
        """Returns the endpoints in the order in which they are tried: by preference, with resting ones last."""
        return sorted(self.endpoints, key=self.rests) if len(self.endpoints) > 1 else self.endpoints

    def must_have(self, last: KnownBlock | None, final: KnownBlock | None = None) -> None:
        """Requires every endpoint except the current one to have these blocks from now on.

        Without these blocks, an endpoint's responses would look like a reorg.

        Args:
            last: last block read. If no endpoint has it for a while, a reorg is assumed.
            final: last block read that was final. An endpoint with a different block at that height is never used.
        """
        self._last, self._final = last, final

    def remember(self, last: KnownBlock) -> None:
        """Requires endpoints to have the highest block reported so far; see `must_have`."""
        if self._last is None or last.number >= self._last.number:
            self._last = last

    async def request(
        self, request: Request, read: Read = _as_it_is, *, perform: Perform | None = None, catches_up: bool = True
    ) -> Any:
        """Returns the first readable result of a request, trying the endpoints in order.

        Args:
            request: the request.
            read: decodes a result. An undecodable result counts as the endpoint's fault, and another endpoint is tried.
            perform: sends the request to an endpoint; by default, the client does.
            catches_up: whether to retry if a block is unknown, since a lagging node will have it later.

        Raises:
            RpcError: no endpoint returned a result. Unless the error class is transient, a retry would fail the
                same way.
        """
        return await self.repeated(lambda: self._ask_each(request, read, perform), catches_up=catches_up)

    async def repeated(self, once: Callable[[], Awaitable[Any]], *, catches_up: bool = False) -> Any:
        """Returns the result of `once`, retried after transient errors; see `request`."""
        began, waited, tries = self._clock(), 0.0, 0
        while True:
            try:
                return await once()
            except RpcError as error:
                if not isinstance(error, (TransientRpcError, UnknownBlockError) if catches_up else TransientRpcError):
                    raise
                pause = self._pause_after(error, tries, max(waited, self._clock() - began))
                if pause is None:
                    raise
            await self._client.sleep(pause)
            waited += pause
            tries += 1

    def _pause_after(self, error: RpcError, tries: int, passed: float) -> float | None:
        """Returns the seconds until the next try, or None to give up."""
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            return error.retry_after if passed + error.retry_after <= self.policy.rest_seconds else None
        pause = backoff(_FIRST_PAUSE, tries, cap=_LONGEST_PAUSE)
        if tries == 0:
            return pause
        if isinstance(error, UndecodableError):  # longer retries would block the caller
            return None
        return pause if passed + pause <= self.policy.try_seconds else None

    async def _ask_each(self, request: Request, read: Read, perform: Perform | None) -> Any:
        errors: list[RpcError] = []
        for endpoint in self.in_order():
            if self.rests(endpoint) and any(scope_of(error, request) is ErrorScope.LACKS_IT for error in errors):
                break  # a sound endpoint lacks the block
            try:
                return await self._ask(endpoint, request, read, perform)
            except RpcError as error:
                if scope_of(error, request) is ErrorScope.SPEAKS_FOR_ALL:
                    raise
                errors.append(error)
        raise self.nobody(errors)

    async def _ask(self, endpoint: Endpoint, request: Request, read: Read, perform: Perform | None) -> Any:
        """Returns one endpoint's result, and makes that endpoint the current one."""
        await self._must_be_on_our_branch(endpoint)
        result = await self.ask_alone(endpoint, request, read, perform=perform)
        self.take_back(endpoint)
        self.current = endpoint
        self._other_branch_since = None
        return result

    async def ask_alone(
        self, endpoint: Endpoint, request: Request, read: Read = _as_it_is, *, perform: Perform | None = None
    ) -> Any:
        """Returns one endpoint's result, regardless of which blocks it has; see `request`."""
        left = endpoint.pace.closed_until - self._clock()
        if left > 0:
            raise RateLimitedError(
                f"{endpoint.name}: request not sent: the endpoint is rate-limiting, next request in {left:.0f} s", left
            )
        try:
            if not endpoint.is_verified:
                await self.verify(endpoint)
            return read(await (self._client.ask(endpoint, request) if perform is None else perform(endpoint)))
        except RpcError as error:
            if scope_of(error, request) is ErrorScope.AT_FAULT:
                self.put_aside(endpoint, error)
            raise

    async def verify(self, endpoint: Endpoint) -> None:
        """Checks the endpoint's chain id.

        This is repeated after every failure, since the URL may then lead to a different node.
        """
        answer = await self._client.ask(endpoint, _CHAIN_ID)
        try:
            found = int(answer, 16)
        except (TypeError, ValueError):
            raise UndecodableError(f"{endpoint.name}: eth_chainId returned {answer!r}") from None
        if found != self._chain_id:
            raise WrongChainError(
                f"{endpoint.name} serves chain {found}, but the deployments file says {self.chain}; correct"
                f" {self.policy.origin}"
            )
        endpoint.is_verified = True

    async def has(self, endpoint: Endpoint, block: KnownBlock) -> bool:
        """Whether an endpoint has the given block rather than a different one at the same height.

        Raises:
            RpcError: the endpoint does not respond, or has no block at that height yet.
        """
        found = await self._block_of(endpoint, block.number)
        return found.startswith(block.hash)

    async def anyone_has(self, block: KnownBlock) -> bool:
        """Whether any endpoint has a recorded block.

        If that is not the current endpoint, only endpoints with the block are used from now on.

        The block counts as gone only if every endpoint has a different block at that height. Otherwise an
        endpoint that lags, lies or is on its own fork could make us discard recorded events.

        Raises:
            TransientRpcError: no endpoint has the block, and some do not report which block they have at that height.
        """
        silent: list[RpcError] = []
        for endpoint in self.in_order():
            try:
                if not await self.has(endpoint, block):
                    continue
            except RpcError as error:
                silent.append(error)
                continue
            if endpoint is not self.current:
                self.must_have(block, block)
                self.current = endpoint
            return True
        if silent:
            raise TransientRpcError(
                f"no endpoint has block {block.number} with hash 0x{block.hash.hex()}, but not all endpoints "
                f"report a different block at that height: {'; '.join(map(str, silent))}. Try again once they "
                "respond, or remove an endpoint that never will from the chain's URLs"
            )
        return False

    async def gives_way(self, block: KnownBlock, reason: RpcError) -> bool:
        """Switches to an endpoint that has a recorded block. Returns whether there is such an endpoint.

        Args:
            block: block that the current endpoint lacks.
            reason: error for which the current endpoint is set aside.
        """
        for endpoint in self.endpoints:
            if endpoint is self.current:
                continue
            try:
                if not await self.has(endpoint, block):
                    continue
            except RpcError:
                continue
            self.put_aside(self.current, reason)
            self.current = endpoint
            return True
        return False

    async def _block_of(self, endpoint: Endpoint, number: int) -> bytes:
        """Returns the hash of an endpoint's block at a height."""

        def read(answer: Any) -> bytes:
            if answer is None:
                raise TransientRpcError(f"{endpoint.name} is behind: it has no block {number} yet")
            try:
                there, found = int(answer["number"], 16), decode_hex(answer["hash"])
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise TransientRpcError(
                    f"{endpoint.name}: block {number} was returned without a number or hash: {error!r}"
                ) from error
            if there != number:
                raise TransientRpcError(f"{endpoint.name} returned block {there} instead of block {number}")
            return found

        found: bytes = await self.ask_alone(endpoint, Request("eth_getBlockByNumber", [hex(number), False]), read)
        return found

    async def _must_be_on_our_branch(self, endpoint: Endpoint) -> None:
        """Checks that an endpoint other than the current one has the required blocks; see `must_have`."""
        while endpoint is not self.current and (last := self._last) is not None:
            ours, theirs = last, await self._block_of(endpoint, last.number)
            if self._last != last:
                continue  # a newer block was recorded in the meantime
            if theirs.startswith(last.hash):
                return
            is_final = self._final is not None and self._final.number == last.number
            if self._final is not None and not is_final:
                at_final = await self._block_of(endpoint, self._final.number)
                is_final = not at_final.startswith(self._final.hash)
                ours, theirs = (self._final, at_final) if is_final else (last, theirs)
            if not is_final and self._is_over_to_another_branch(last):
                return
            error = TransientRpcError(
                f"{endpoint.name} is on another branch: its block {ours.number} has hash 0x{theirs.hex()}, "
                f"ours has 0x{ours.hash.hex()}"
            )
            self.put_aside(endpoint, error)
            raise error

    def _is_over_to_another_branch(self, last: KnownBlock) -> bool:
        """Whether to assume a reorg. Returns False while an endpoint that has our block may still recover."""
        now = self._clock()
        if self._other_branch_since is None:
            self._other_branch_since = now
        if now - self._other_branch_since < self.policy.branch_seconds:
            return False
        _log.warning(
            "no endpoint has our block any more, switched to a different branch", chain=self.chain, block=last.number
        )
        self._last = None
        return True

    def put_aside(self, endpoint: Endpoint, error: RpcError) -> None:
        """Moves the endpoint to the end of the order for a while.

        If the endpoint stated when to retry, it gets no requests until then.
        """
        outage = (self._chain_id, endpoint.url)
        if not endpoint.rests_until and outage not in _OUTAGES:
            _OUTAGES.add(outage)
            _log.warning("endpoint failed", chain=self.chain, endpoint=endpoint.name, reason=str(error))
        now = self._clock()
        endpoint.rests_until = now + REST_SECONDS
        endpoint.is_verified = False
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            endpoint.pace.closed_until = max(endpoint.pace.closed_until, now + error.retry_after)

    def take_back(self, endpoint: Endpoint) -> None:
        """Marks the endpoint as up."""
        outage = (self._chain_id, endpoint.url)
        if outage in _OUTAGES:
            _OUTAGES.discard(outage)
            _log.info("endpoint recovered", chain=self.chain, endpoint=endpoint.name)
        endpoint.rests_until = 0.0

    def nobody(self, errors: Sequence[RpcError]) -> RpcError:
        """Returns the error for a request that no endpoint answered.

        An error from a working endpoint takes precedence over failures.
        """
        text = "; ".join(str(error) for error in errors)
        sound = [
            error for error in errors if not isinstance(error, TransientRpcError | NoAccessError | WrongChainError)
        ]
        passing = [error for error in errors if isinstance(error, TransientRpcError)]
        misread = [error for error in passing if isinstance(error, UndecodableError)]
        limited = [error for error in passing if isinstance(error, RateLimitedError) and error.retry_after is not None]
        first = copy((sound or misread or passing or errors)[0])
        if not sound and limited and len(limited) == len(passing):
            first = copy(min(limited, key=lambda error: error.retry_after or 0.0))
        elif not sound and isinstance(first, RateLimitedError):
            first = TransientRpcError(text)
        first.args = (text if sound else f"no RPC endpoint of {self.chain} answers: {text}",)
        return first


def votes_of(answers: Sequence[Any], essence: Callable[[Any], Hashable]) -> list[list[Any]]:
    """Groups equal responses, largest group first. Errors reported by nodes are compared by their meaning.

    Args:
        answers: responses of several endpoints to the same request. A failed request is not a response.
        essence: the part of a result that must be equal.
    """
    found: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for answer in answers:
        is_error = isinstance(answer, RpcError)
        found["refused" if is_error else "answered", _refusal(answer) if is_error else essence(answer)].append(answer)
    return sorted(found.values(), key=len, reverse=True)


def _refusal(error: RpcError) -> Hashable:
    return error.meaning, revert_data(error)


def require_endpoints(chain_id: int, urls: Sequence[str], policy: EndpointPolicy) -> None:
    """Checks that the policy can be applied to a chain's endpoints.

    Raises:
        NoUrlError: a URL is invalid.
        TransientRpcError: there are fewer endpoints than must agree.
    """
    _require_urls(urls, policy)
    if len(urls) < policy.agreement:
        raise TransientRpcError(
            f"{policy.called(chain_id)}: agreement is {policy.agreement}, but only {len(urls)} endpoint(s) are "
            f"configured. Add endpoints in {policy.origin}, or lower agreement"
        )


def _require_urls(urls: Sequence[str], policy: EndpointPolicy) -> None:
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
