"""The endpoints of one chain: ordered failover, and agreement of several endpoints on what they report.

The relayer and the index share this client; the index calls it through `indexer.sources.transport`, which blocks.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import structlog
from eth_utils import decode_hex

from bridge.evm.endpoint_policy import EndpointPolicy, Pace, require_endpoints, require_urls, without_secrets
from bridge.evm.rpc_answers import (
    CHANGING,
    DisagreementError,
    Meaning,
    NoAccessError,
    RateLimitedError,
    RefusedError,
    Request,
    RpcError,
    StateUnavailableError,
    TransientRpcError,
    UndecodableError,
    UnknownBlockError,
    WrongChainError,
    result_of,
    revert_data,
)
from bridge.evm.transport import Connect, Exchange, HttpExchange
from bridge.protocol.backoff import backoff

_log = structlog.get_logger(__name__)

REST_SECONDS: Final = 5.0
"""Seconds for which a failed endpoint is tried last, so that requests do not all wait for its timeout again."""

_FIRST_PAUSE: Final = 0.1  # seconds between the first two tries of a request; doubles
_LONGEST_PAUSE: Final = 2.0
_OUTAGES: Final[set[tuple[int, str]]] = set()
"""Failed endpoints that have not responded since, by chain id and URL. A process that opens a chain twice reports each once."""

_CHAIN_ID: Final = Request("eth_chainId")


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

    def __init__(self, url: str, pace: Pace, exchange: Exchange) -> None:
        self.url = url
        self.name = without_secrets(url)
        self.pace = pace
        self.exchange = exchange
        self.rests_until = 0.0  # 0 while it responds
        self.is_verified = False  # whether its chain id was checked since its last failure


class KnownBlock(NamedTuple):
    """The number of a block that was read, and its hash or a prefix of the hash."""

    number: int
    hash: bytes


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


def as_it_is(result: Any) -> Any:
    """Returns the result of a request unchanged."""
    return result


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Endpoints:
    """The endpoints of one chain, in order of preference. All methods that send requests need the same event loop."""

    def __init__(
        self,
        chain_id: int,
        urls: Sequence[str],
        policy: EndpointPolicy,
        connect: Connect = HttpExchange,
        *,
        clock: Callable[[], float] = _loop_time,
        pace_of: Callable[[str, float | None], Pace] = lambda _url, requests_per_second: Pace(requests_per_second),
    ) -> None:
        """Creates the endpoints without sending requests.

        Args:
            chain_id: the EIP-155 id that every endpoint must have.
            urls: URLs of the endpoints.
            policy: the endpoint policy.
            connect: creates the transport for a URL.
            clock: monotonic seconds.
            pace_of: returns the pace of a URL, if other chains or tasks use it too.

        Raises:
            NoUrlError: a URL is invalid.
        """
        require_urls(urls, policy)
        self.policy = policy
        self.endpoints = [Endpoint(url, pace_of(url, policy.requests_per_second), connect(url, policy)) for url in urls]
        self.current = self.endpoints[0]  # the endpoint in use
        self._chain_id = chain_id
        self.chain = policy.called(chain_id)  # the name in errors
        self._clock = clock
        self._last: KnownBlock | None = None
        self._final: KnownBlock | None = None
        self._other_branch_since: float | None = None  # time since which only endpoints on another branch respond

    @classmethod
    async def open(
        cls, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, *, may_be_down: bool = False
    ) -> Endpoints:
        """Connects and verifies the chain id of every URL.

        Args:
            chain_id: EIP-155 id that each endpoint must have.
            urls: Endpoints in order of preference.
            policy: Policy of the endpoints.
            may_be_down: Whether to continue if no endpoint responds. Each endpoint is then verified before its
                first use.

        Raises:
            WrongChainError: an endpoint serves a different chain.
            TransientRpcError: no endpoint responded, or there are fewer endpoints than must agree.
        """
        require_endpoints(chain_id, urls, policy)
        endpoints = cls(chain_id, urls, policy)
        try:
            await endpoints._verify_all(may_be_down=may_be_down)
        except BaseException:
            await endpoints.close()
            raise
        return endpoints

    async def close(self) -> None:
        """Closes all connections. Requests in progress fail."""
        await asyncio.gather(*(endpoint.exchange.close() for endpoint in self.endpoints))

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

    async def request(self, request: Request, read: Read = as_it_is, *, catches_up: bool = True) -> Any:
        """Returns the first readable result of a request, trying the endpoints in order.

        Args:
            request: the request.
            read: decodes a result. An undecodable result counts as the endpoint's fault, and another endpoint is tried.
            catches_up: whether to retry if a block is unknown, since a lagging node will have it later.

        Raises:
            RpcError: no endpoint returned a result. Unless the error class is transient, a retry would fail the
                same way.
        """
        (result,) = await self.request_together([request], read, catches_up=catches_up)
        return result

    async def request_together(
        self, requests: Sequence[Request], read: Read = as_it_is, *, catches_up: bool = True
    ) -> list[Any]:
        """Returns the results of several requests in order, all from the same endpoint; see `request`."""
        results: list[Any] = await self.repeated(lambda: self._ask_each(requests, read), catches_up=catches_up)
        return results

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
            await sleep(pause)
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

    async def _ask_each(self, requests: Sequence[Request], read: Read) -> list[Any]:
        errors: list[RpcError] = []
        for endpoint in self.in_order():
            if self.rests(endpoint) and any(scope_of(error, requests[-1]) is ErrorScope.LACKS_IT for error in errors):
                break  # a sound endpoint lacks the block
            try:
                await self._must_be_on_our_branch(endpoint)
                results = await self._ask_alone(endpoint, requests, read)
            except RpcError as error:
                if scope_of(error, requests[-1]) is ErrorScope.SPEAKS_FOR_ALL:
                    raise
                errors.append(error)
                continue
            self._take_back(endpoint)
            self.current = endpoint
            self._other_branch_since = None
            return results
        raise self._nobody(errors)

    async def _ask_alone(self, endpoint: Endpoint, requests: Sequence[Request], read: Read) -> list[Any]:
        """Returns one endpoint's results, regardless of which blocks it has; see `request`."""
        left = endpoint.pace.closed_until - self._clock()
        if left > 0:
            raise RateLimitedError(
                f"{endpoint.name}: request not sent: the endpoint is rate-limiting, next request in {left:.0f} s", left
            )
        try:
            if not endpoint.is_verified:
                await self._verify(endpoint)
            return [read(result) for result in await self._send(endpoint, requests)]
        except RpcError as error:
            if scope_of(error, requests[-1]) is ErrorScope.AT_FAULT:
                self._put_aside(endpoint, error)
            raise

    async def _send(self, endpoint: Endpoint, requests: Sequence[Request]) -> list[Any]:
        """Sends requests to an endpoint, in batches as large as the policy allows, and returns their results."""
        results = []
        for first in range(0, len(requests), self.policy.batch):
            part = requests[first : first + self.policy.batch]
            if wait := endpoint.pace.wait_from(self._clock(), len(part)):
                await sleep(wait)
            answers = await asyncio.gather(*(endpoint.exchange.ask(one.method, one.params) for one in part))
            results += [
                result_of(answer, request, f"{endpoint.name}: {request.method}")
                for answer, request in zip(answers, part, strict=True)
            ]
        return results

    async def _verify(self, endpoint: Endpoint) -> None:
        """Checks the endpoint's chain id.

        This is repeated after every failure, since the URL may then lead to a different node.
        """
        (answer,) = await self._send(endpoint, [_CHAIN_ID])
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
            with suppress(RpcError):
                if endpoint is not self.current and await self.has(endpoint, block):
                    self._put_aside(self.current, reason)
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

        request = Request("eth_getBlockByNumber", [hex(number), False])
        found: bytes = (await self._ask_alone(endpoint, [request], read))[0]
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
            self._put_aside(endpoint, error)
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

    def _put_aside(self, endpoint: Endpoint, error: RpcError) -> None:
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

    def _take_back(self, endpoint: Endpoint) -> None:
        """Marks the endpoint as up."""
        outage = (self._chain_id, endpoint.url)
        if outage in _OUTAGES:
            _OUTAGES.discard(outage)
            _log.info("endpoint recovered", chain=self.chain, endpoint=endpoint.name)
        endpoint.rests_until = 0.0

    def _nobody(self, errors: Sequence[RpcError]) -> RpcError:
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

    async def agreed(self, request: Request, read: Read) -> Any:
        """Returns the result on which enough endpoints agree, so that no single endpoint can forge it.

        Decoded results are compared. A result that can't be decoded has no vote.

        Raises:
            RpcError: enough endpoints returned the same error, too few responded, or they disagree.
        """
        if self.policy.agreement == 1:
            return await self.request(request, read)
        answers, failures = await self._opinions(request, read)
        votes = votes_of(answers)
        majority: list[Any] = votes[0] if votes else []
        if len(majority) < self.policy.agreement:
            raise self._too_few(request, len(majority), f"do ({len(votes)} different answers)", failures)
        if isinstance(majority[0], RpcError):
            raise majority[0]
        return majority[0]

    async def opinions(self, request: Request, read: Read) -> list[Any]:
        """Collects results until enough endpoints have responded, or a single result if one endpoint suffices.

        Raises:
            RpcError: too few endpoints returned a result. If one of them reported an error, that error is raised.
        """
        if self.policy.agreement == 1:
            return [await self.request(request, read)]
        answers, failures = await self._opinions(request, read)
        results = [answer for answer in answers if not isinstance(answer, RpcError)]
        if len(results) < self.policy.agreement:
            refusal = next((answer for answer in answers if isinstance(answer, RpcError)), None)
            if refusal is None and results:
                raise self._too_few(request, len(results), "answer", failures)
            raise refusal or self._nobody(failures)
        return results

    def _too_few(self, request: Request, count: int, what: str, failures: Sequence[RpcError]) -> DisagreementError:
        """Returns an error that states the chain and the endpoints that did not respond."""
        text = (
            f"{self.chain}: {self.policy.agreement} endpoints must agree on {request.method}, but {count} of"
            f" {len(self.endpoints)} {what}"
        )
        if failures:
            silent = "; ".join(dict.fromkeys(map(str, failures)))
            text += f"; no response from {silent}; see {self.policy.origin}"
        return DisagreementError(text)

    async def _opinions(self, request: Request, read: Read) -> tuple[list[Any], list[RpcError]]:
        """Collects the responses of working endpoints, including errors, until enough of them agree.

        Also returns the failures of the other endpoints.
        """
        tasks = [asyncio.create_task(self._opinion(endpoint, request, read)) for endpoint in self.endpoints]
        waiting = set(tasks)
        answers: list[Any] = []
        failures: list[RpcError] = []
        try:
            while waiting and all(len(votes) < self.policy.agreement for votes in votes_of(answers)):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):
                    answer = task.result()
                    is_failure = isinstance(answer, RpcError) and scope_of(answer, request) is ErrorScope.AT_FAULT
                    (failures if is_failure else answers).append(answer)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return answers, failures

    async def _opinion(self, endpoint: Endpoint, request: Request, read: Read) -> Any:
        """Returns one endpoint's decoded result, or its error."""
        try:
            (answer,) = await self._ask_alone(endpoint, [request], read)
        except RpcError as error:
            return error
        self._take_back(endpoint)
        return answer

    async def _verify_all(self, *, may_be_down: bool) -> None:
        errors = [error for error in await asyncio.gather(*map(self._unreachable, self.endpoints)) if error is not None]
        if len(errors) == len(self.endpoints):
            if not may_be_down:
                raise self._nobody(errors)
            names = [endpoint.name for endpoint in self.endpoints]
            _log.warning("no endpoint responds, chain starts once one does", chain=self.chain, endpoints=names)

    async def _unreachable(self, endpoint: Endpoint) -> TransientRpcError | None:
        """Verifies that an endpoint serves this chain. If the endpoint does not respond, returns the error.

        Raises:
            WrongChainError: the endpoint serves a different chain.
        """
        try:
            await self._verify(endpoint)
        except TransientRpcError as error:
            self._put_aside(endpoint, error)
            return error
        return None


def votes_of(answers: Sequence[Any]) -> list[list[Any]]:
    """Groups equal decoded responses, largest group first. Errors reported by nodes are compared by their meaning."""
    groups: list[list[Any]] = []
    for answer in answers:
        group = next((group for group in groups if _are_equal(group[0], answer)), None)
        if group is None:
            groups.append([answer])
        else:
            group.append(answer)
    return sorted(groups, key=len, reverse=True)


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, RpcError) and isinstance(other, RpcError):
        return one.meaning is other.meaning and revert_data(one) == revert_data(other)
    return bool(one == other)
