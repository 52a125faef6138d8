"""The JSON-RPC endpoints of one chain: each one's identity and pace, how far we have read, failover, and agreement."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import stamina
import structlog

from bridge.domain.ports import TerminalError, UnansweredError
from bridge.evm.answers import RpcError, UndecodableError, revert_data
from bridge.evm.endpoint_policy import CHANGING, EndpointPolicy, Pace
from bridge.evm.transport import Connect, Exchange, NoAnswerError, over_http, without_secrets
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.node_errors import ANOTHER_NODE, Meaning

_log = structlog.get_logger(__name__)

# stamina would log every repetition of every request. Here a failing endpoint, and its recovery, is logged once.
stamina.instrumentation.set_on_retry_hooks([])

# An endpoint that failed is asked last for so long, so that not every request waits for its time-out again.
REST_SECONDS = 5.0

Decoder = Callable[[Any], Any]
"""Makes a value of a result; see `Endpoints.request`."""

_TAGS = frozenset(get_args(FinalityTag))

_FIRST_PAUSE = 0.1  # seconds between the first two tries of a request; the next pauses are stamina's


class WrongChainIdError(TerminalError):
    """Behind a URL is another chain than the one that the deployment names."""

    def __init__(self, url: str, expected: int, found: int) -> None:
        super().__init__(
            f"{url} is chain {found}, but chain {expected} is expected there; correct rpcUrls in the deployments file"
        )
        self.url = url
        self.expected = expected
        self.found = found


class EndpointError(Exception):
    """An endpoint gave no usable answer."""


@dataclass(frozen=True, slots=True)
class EndpointState:
    """How one endpoint does.

    Attributes:
        name: its URL without what may be secret.
        is_up: whether it is asked; after a failure it rests for a while.
        requests: how many this process made, by result.
    """

    name: str
    is_up: bool
    requests: Mapping[str, int]


class Endpoint:
    """One URL, and what is known of the node behind it."""

    def __init__(self, url: str, chain_id: int, policy: EndpointPolicy, exchange: Exchange) -> None:
        self.url = url
        self.name = without_secrets(url)  # for texts
        self.requests: Counter[str] = Counter()  # by result: answered, refused, failed
        self.rests_until = 0.0  # on the event loop's clock; 0 while it answers
        self._chain_id = chain_id
        self._verified = False
        self._pace = Pace(policy.requests_per_second)
        self._exchange = exchange

    async def close(self) -> None:
        """Closes the connections."""
        await self._exchange.close()

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        """The result of a request.

        Raises:
            RpcError: the node answered with an error.
            WrongChainIdError: the URL leads to another chain.
            EndpointError: no answer, or none that can be understood.
        """
        if not self._verified:
            await self.verify()
        return await self._post(method, params)

    async def verify(self) -> None:
        """Asks for the chain's id, again after every failure: the URL may lead to another node by then."""
        answer = await self._post("eth_chainId", [])
        try:
            found = int(answer, 16)
        except (TypeError, ValueError):
            raise EndpointError(f"eth_chainId answered {answer!r}") from None
        if found != self._chain_id:
            raise WrongChainIdError(self.name, self._chain_id, found)
        self._verified = True

    async def _post(self, method: str, params: Sequence[Any]) -> Any:
        wait = self._pace.wait_from(asyncio.get_running_loop().time())
        if wait:
            await asyncio.sleep(wait)
        try:
            result = await self._make(method, params)
        except (RpcError, EndpointError) as error:
            self.requests["refused" if isinstance(error, RpcError) else "failed"] += 1
            raise
        self.requests["answered"] += 1
        return result

    async def _make(self, method: str, params: Sequence[Any]) -> Any:
        try:
            answer = await self._exchange.ask(method, params)
        except NoAnswerError as error:
            self._verified = False
            raise EndpointError(str(error)) from error
        if "result" not in answer and "error" not in answer:
            raise EndpointError(f"{method} answered neither a result nor an error")
        if answer.get("error") is not None:
            raise RpcError.from_json(method, answer["error"])
        return answer.get("result")


class Position:
    """The highest block that the current endpoint has reported, by number and hash.

    Another endpoint may take over only if it has that block: otherwise its answers would look like a reorg. If no endpoint
    has the block for a while, there was a reorg.
    """

    def __init__(self, chain_id: int, patience: float) -> None:
        """Knows no block yet; an endpoint on another branch is refused for `patience` seconds."""
        self._chain_id = chain_id
        self._patience = patience
        self._number: int | None = None
        self._hash: Any = None
        # On the event loop's clock: since when only endpoints on another branch answer.
        self._refused_since: float | None = None

    @property
    def number(self) -> int | None:
        """The block that another endpoint has to know, or None if any will do."""
        return self._number

    def remember(self, block: Mapping[str, Any]) -> None:
        """Records a block that the current endpoint has reported."""
        try:
            number = int(block["number"], 16)
        except (KeyError, TypeError, ValueError):
            return  # the caller reports the unusable form
        if self._number is None or number >= self._number:
            self._number, self._hash = number, block.get("hash")

    def answered(self) -> None:
        """An endpoint on our branch has answered."""
        self._refused_since = None

    def objection_to(self, block: Any) -> str | None:
        """Why we can't fail over to an endpoint that answers so for our block; None if we can."""
        if not isinstance(block, dict):
            return f"it is behind: it does not know block {self._number} yet"
        if block.get("hash") == self._hash:
            return None
        now = asyncio.get_running_loop().time()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since < self._patience:
            return f"it is on another branch: its block {self._number} is {block.get('hash')}, and ours {self._hash}"
        _log.warning(
            "no endpoint knows our block any more: switched to another branch",
            chain=self._chain_id,
            block=self._number,
        )
        self._number = self._hash = None
        return None


class _UnusableError(Exception):
    """An endpoint was put aside; the text says which, and why."""


class _NobodyAnsweredError(UnansweredError):
    """No endpoint gave a usable answer; asking again in a moment may help."""


class _MisunderstoodError(UnansweredError):
    """Endpoints answer, and what they say can't be decoded; asking much longer would hold up who waits."""


def _as_it_is(answer: Any) -> Any:
    return answer


class Endpoints:
    """The endpoints of one chain. Create them inside the event loop that uses them, best with `open`."""

    def __init__(
        self, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, connect: Connect = over_http
    ) -> None:
        """Asks nobody yet; `connect` says how requests travel to a URL."""
        self._chain_id = chain_id
        self._policy = policy
        self._endpoints = [Endpoint(url, chain_id, policy, connect(url, policy)) for url in urls]
        self._current = self._endpoints[0]  # whose answers we go by
        self._position = Position(chain_id, policy.branch_seconds)  # as it has told us

    @classmethod
    async def open(cls, chain_id: int, urls: Sequence[str], policy: EndpointPolicy) -> Endpoints:
        """Connects, and looks behind every URL.

        Args:
            chain_id: the EIP-155 id that each of them must have.
            urls: in order of preference.
            policy: how they are asked.

        Raises:
            WrongChainIdError: one that answers is another chain.
            UnansweredError: none answers, or there are fewer than have to agree.
        """
        endpoints = cls(chain_id, urls, policy)
        try:
            await endpoints._look_behind_each()
        except BaseException:
            await endpoints.close()
            raise
        return endpoints

    async def close(self) -> None:
        """Closes all sessions."""
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))

    @property
    def answering_url(self) -> str:
        """The URL that is asked first now."""
        return self._in_order()[0].url

    @property
    def agreement(self) -> int:
        """How many endpoints must say the same where finality depends on it."""
        return self._policy.agreement

    @property
    def states(self) -> list[EndpointState]:
        """How each endpoint does, the preferred first."""
        now = asyncio.get_running_loop().time()
        return [EndpointState(one.name, one.rests_until <= now, dict(one.requests)) for one in self._endpoints]

    async def request(self, method: str, *params: Any, decoder: Decoder = _as_it_is) -> Any:
        """The result of a request, from the first endpoint that gives one which can be decoded.

        Args:
            method: what is asked.
            params: its parameters.
            decoder: makes a value of a result, and raises `UndecodableError` for what no honest node answers: that is the
                endpoint's fault, and another one is asked.

        Raises:
            RpcError: a node answered with an error that another node would give too.
            UnansweredError: no endpoint gave an answer that can be used within that time.
        """
        try:
            return await self._ask_each(method, params, decoder)  # nearly always enough
        except (_NobodyAnsweredError, _MisunderstoodError):
            await asyncio.sleep(_FIRST_PAUSE)
        attempts = stamina.retry_context(
            on=_NobodyAnsweredError,
            attempts=None,
            timeout=self._policy.retry_seconds,
            wait_initial=2 * _FIRST_PAUSE,
            wait_max=2.0,
            wait_jitter=0.2,
        )
        async for attempt in attempts:
            with attempt:
                return await self._ask_each(method, params, decoder)
        raise AssertionError("stamina gives up only by raising")

    async def agreed(
        self, essence: Callable[[Any], Hashable], method: str, *params: Any, decoder: Decoder = _as_it_is
    ) -> Any:
        """The result of a request on which as many endpoints agree as the policy asks for; no liar can make it up alone.

        Args:
            essence: what of an answer must be equal.
            method: what is asked.
            params: its parameters.
            decoder: see `request`; an answer that it refuses has no vote.

        Raises:
            RpcError: so many nodes answered with an error that means the same.
            UnansweredError: too few answered, or they do not agree.
        """
        needed = self.agreement
        if needed == 1:
            return await self.request(method, *params, decoder=decoder)
        votes = _votes(await self._opinions(essence, method, params, decoder), essence)
        most = max(votes, key=len, default=[])
        if len(most) < needed:
            raise UnansweredError(
                f"chain {self._chain_id}: {needed} endpoints have to agree on {method}, and {len(most)} of"
                f" {len(self._endpoints)} do ({len(votes)} different answers)"
            )
        if isinstance(most[0], RpcError):
            raise most[0]
        return decoder(most[0])

    async def opinions(
        self, essence: Callable[[Any], Hashable], method: str, *params: Any, decoder: Decoder = _as_it_is
    ) -> list[Any]:
        """What each endpoint says, where several have to agree; else one answer. Who is slow is not waited for once they do.

        Raises:
            RpcError: fewer than have to agree gave a result, and a node's error says why.
            UnansweredError: too few answered.
        """
        if self.agreement == 1:
            return [await self.request(method, *params, decoder=decoder)]
        answers = await self._opinions(essence, method, params, decoder)
        results = [decoder(answer) for answer in answers if not isinstance(answer, Exception)]
        if len(results) < self.agreement:
            raise next(
                (one for one in answers if isinstance(one, RpcError)), self._nobody([str(one) for one in answers])
            )
        return results

    async def _opinions(
        self, essence: Callable[[Any], Hashable], method: str, params: Sequence[Any], decoder: Decoder
    ) -> list[Any]:
        """Answers of endpoints that can be decoded, or the errors that say why there are none, until enough of them agree."""
        loop = asyncio.get_running_loop()
        asked = [loop.create_task(self._opinion(one, method, params, decoder)) for one in self._endpoints]
        answers: list[Any] = []
        waiting = list(asked)
        try:
            while waiting and all(len(votes) < self.agreement for votes in _votes(answers, essence)):
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                answers += [task.result() for task in waiting if task in done]
                waiting = [task for task in waiting if task not in done]
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return answers

    async def _opinion(self, endpoint: Endpoint, method: str, params: Sequence[Any], decoder: Decoder) -> Any:
        """One endpoint's answer as it gave it, or the error that says why it has none."""
        try:
            answer = await endpoint.ask(method, params)
            decoder(answer)
        except RpcError as error:
            if _is_about_the_request(error, method, params):
                return error
            return UnansweredError(self._put_aside(endpoint, error))
        except (EndpointError, UndecodableError, WrongChainIdError) as error:
            return UnansweredError(self._put_aside(endpoint, error))
        return answer

    async def _look_behind_each(self) -> None:
        reasons = []
        for endpoint in self._endpoints:
            try:
                await endpoint.verify()
            except (EndpointError, RpcError) as error:
                reasons.append(self._put_aside(endpoint, error))
        if len(reasons) == len(self._endpoints):
            raise self._nobody(reasons)
        if len(self._endpoints) < self._policy.agreement:
            raise UnansweredError(
                f"chain {self._chain_id} has {len(self._endpoints)} endpoints, and {self._policy.agreement} have to agree:"
                " name more of them, or lower agreement"
            )

    async def _ask_each(self, method: str, params: Sequence[Any], decoder: Decoder) -> Any:
        reasons: list[str] = []
        is_misunderstood = False
        waiting = deque(self._in_order())
        while waiting:
            hedge = self._policy.hedge_after if len(waiting) > 1 and method not in CHANGING else None
            first = waiting.popleft()
            try:
                if hedge is None:
                    return await self._ask(first, method, params, decoder)
                return await self._ask_hedged(first, waiting, method, params, decoder, hedge=hedge)
            except _UnusableError as error:
                reasons.append(str(error))
                is_misunderstood |= isinstance(error.__cause__, UndecodableError)
        nobody = self._nobody(reasons)
        raise _MisunderstoodError(str(nobody)) if is_misunderstood else nobody

    async def _ask_hedged(
        self,
        first: Endpoint,
        others: deque[Endpoint],
        method: str,
        params: Sequence[Any],
        decoder: Decoder,
        *,
        hedge: float,
    ) -> Any:
        """One endpoint's answer, or another one's that was asked too because the first took long.

        Raises:
            RpcError: an error that another node would give too.
            _UnusableError: neither gave an answer.
        """
        asked = [asyncio.create_task(self._ask(first, method, params, decoder))]
        reasons: list[str] = []
        try:
            done, _ = await asyncio.wait(asked, timeout=hedge)
            if not done:
                asked.append(asyncio.create_task(self._ask(others.popleft(), method, params, decoder)))
            for answer in asyncio.as_completed(asked):
                try:
                    return await answer
                except _UnusableError as error:
                    reasons.append(str(error))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise _UnusableError("; ".join(reasons))

    async def _ask(self, endpoint: Endpoint, method: str, params: Sequence[Any], decoder: Decoder) -> Any:
        """What one endpoint's answer decodes as.

        Raises:
            RpcError: an error that another node would give too.
            _UnusableError: another one has to be asked.
        """
        try:
            await self._must_know_our_block(endpoint)
            result = await endpoint.ask(method, params)
            decoded = decoder(result)
        except (EndpointError, UndecodableError, WrongChainIdError) as error:
            raise _UnusableError(self._put_aside(endpoint, error)) from error
        except RpcError as error:
            if _is_about_the_request(error, method, params):
                raise
            raise _UnusableError(self._put_aside(endpoint, error)) from error
        self._take_back(endpoint)
        self._current = endpoint
        self._position.answered()
        if method == "eth_getBlockByNumber" and isinstance(result, dict):
            self._position.remember(result)
        return decoded

    async def _must_know_our_block(self, endpoint: Endpoint) -> None:
        """Another endpoint than the last one must be as far as we are, on our branch; see `Position`."""
        while endpoint is not self._current and (number := self._position.number) is not None:
            block = await endpoint.ask("eth_getBlockByNumber", [hex(number), False])
            if self._position.number != number:
                continue  # others were told of a newer block meanwhile
            objection = self._position.objection_to(block)
            if objection is not None:
                raise EndpointError(objection)
            return

    def _in_order(self) -> list[Endpoint]:
        if len(self._endpoints) == 1:
            return self._endpoints
        now = asyncio.get_running_loop().time()
        return sorted(self._endpoints, key=lambda endpoint: endpoint.rests_until > now)

    def _put_aside(self, endpoint: Endpoint, error: Exception) -> str:
        if not endpoint.rests_until:
            _log.warning("endpoint fails", chain=self._chain_id, endpoint=endpoint.name, reason=str(error))
        endpoint.rests_until = asyncio.get_running_loop().time() + REST_SECONDS
        return f"{endpoint.name}: {error}"

    def _take_back(self, endpoint: Endpoint) -> None:
        if endpoint.rests_until:
            _log.info("endpoint answers again", chain=self._chain_id, endpoint=endpoint.name)
        endpoint.rests_until = 0.0

    def _nobody(self, reasons: Sequence[str]) -> _NobodyAnsweredError:
        return _NobodyAnsweredError(f"no RPC endpoint of chain {self._chain_id} answers: {'; '.join(reasons)}")


def _is_about_the_request(error: RpcError, method: str, params: Sequence[Any]) -> bool:
    """Whether another node would answer with that error too.

    What Waybill reads is well-formed: a node that does not understand it is at fault. But it may send what no node takes, and
    name a tag that its chain does not have.
    """
    if error.meaning is Meaning.NOT_UNDERSTOOD:
        return method in CHANGING or (method == "eth_getBlockByNumber" and params[0] in _TAGS)
    return error.meaning not in ANOTHER_NODE


def _votes(answers: Sequence[Any], essence: Callable[[Any], Hashable]) -> list[list[Any]]:
    """Answers that say the same, together; a node's error counts by what it means, and what is no answer does not count."""
    found: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for answer in answers:
        if isinstance(answer, RpcError):
            found["refused", answer.meaning, revert_data(answer)].append(answer)
        elif not isinstance(answer, Exception):
            found["answered", essence(answer)].append(answer)
    return list(found.values())
