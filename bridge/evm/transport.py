"""JSON-RPC over aiohttp, as `bridge.rpc.policy` says. Requests that are made at the same moment travel together, as one batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from bridge.rpc.answers import (
    CHANGING,
    BatchRefusedError,
    DisagreementError,
    Request,
    RpcError,
    TransientRpcError,
    check_batch,
    check_status,
    result_of,
)
from bridge.rpc.policy import (
    Ask,
    Endpoint,
    EndpointPolicy,
    EndpointPool,
    ErrorScope,
    Race,
    Read,
    Steps,
    Wait,
    require_endpoints,
    scope_of,
    votes_of,
    without_secrets,
)

_log = structlog.get_logger(__name__)

_HEADERS: Final = {"Content-Type": "application/json"}

_TURNS: Final = 5
_TRIES: Final = 3  # how often an endpoint is asked the same, where the policy hedges


class Exchange(Protocol):
    """How requests travel to one endpoint, and answers back."""

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        """The JSON document that answers a request, with its result or error.

        Raises:
            RpcError: there is none.
        """

    async def close(self) -> None:
        """Closes the connections; who still waits for an answer gets none."""


Connect = Callable[[str, EndpointPolicy], Exchange]
"""How a URL is reached."""


@dataclass(frozen=True, slots=True)
class _Pending:
    method: str
    params: Sequence[Any]
    answer: asyncio.Future[Any] = field(repr=False)

    def as_json(self, number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": self.method, "params": self.params}


class HttpExchange:
    """See `Exchange`: one URL, over connections that are kept open. A server that refuses batches gets single requests from then on."""

    def __init__(self, url: str, policy: EndpointPolicy) -> None:
        """Nothing is asked before the first request."""
        self._url = url
        self._name = without_secrets(url)
        self._batch = policy.batch
        self._session = ClientSession(
            connector=TCPConnector(limit=64, keepalive_timeout=60), timeout=ClientTimeout(total=policy.request_seconds)
        )
        self._waiting: list[_Pending] = []
        self._exchanges: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """See `Exchange.close`."""
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        await self._session.close()

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See `Exchange.ask`."""
        if self._session.closed:
            raise RuntimeError(f"{method} was asked of {self._name} after its connection was closed")
        loop = asyncio.get_running_loop()
        request = _Pending(method, params, loop.create_future())
        self._waiting.append(request)
        if len(self._waiting) == 1:
            loop.call_soon(self._send, _TURNS)
        return await request.answer

    def _send(self, turns: int) -> None:
        """Sends what waits, a few turns of the loop after the first request: tasks of tasks ask at the same moment too."""
        if turns:
            asyncio.get_running_loop().call_soon(self._send, turns - 1)
            return
        waiting = [request for request in self._waiting if not request.answer.done()]
        self._waiting.clear()
        for first in range(0, len(waiting), self._batch):
            exchange = asyncio.get_running_loop().create_task(self._exchange(waiting[first : first + self._batch]))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, requests: Sequence[_Pending]) -> None:
        try:
            answers = await self._post(requests)
        except BatchRefusedError as error:
            if self._batch > 1:
                self._batch = 1
                _log.info(
                    "endpoint takes no batches: single requests from now on", endpoint=self._name, said=str(error)
                )
            await asyncio.gather(*(self._exchange([request]) for request in requests))
        except RpcError as error:
            _refuse(requests, error)
        except TimeoutError:
            _refuse(requests, TransientRpcError(f"{self._name}: no answer in time"))
        except (ClientError, OSError, ValueError) as error:
            _refuse(requests, TransientRpcError(f"{self._name}: {str(error) or type(error).__name__}"))
        except BaseException:
            _refuse(requests, TransientRpcError(f"{self._name}: the connection was closed"))
            raise
        else:
            for request, answer in zip(requests, answers, strict=True):
                if not request.answer.done():
                    request.answer.set_result(answer)

    async def _post(self, requests: Sequence[_Pending]) -> list[Any]:
        documents = [request.as_json(number) for number, request in enumerate(requests)]
        body = orjson.dumps(documents if len(documents) > 1 else documents[0])
        async with self._session.post(self._url, data=body, headers=_HEADERS) as response:
            content = await response.read()
        retry_after = response.headers.get("retry-after")
        check_status(response.status, retry_after, content, self._name, requests=len(requests), now=time.time())
        answers = orjson.loads(content)
        if len(requests) == 1:
            return [answers]
        if isinstance(answers, list):
            by_number = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
            return [by_number.get(number) for number in range(len(requests))]
        check_batch(answers, self._name)
        return [answers] * len(requests)


def _refuse(requests: Sequence[_Pending], reason: RpcError) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(copy(reason))


class Endpoints:
    """Carries out the policy for the endpoints of one chain. Create it inside the event loop that uses it, best with `open`."""

    def __init__(
        self, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, connect: Connect = HttpExchange
    ) -> None:
        """Asks nobody yet; `connect` says how requests travel to a URL."""
        self._pool = EndpointPool(chain_id, urls, policy, lambda: asyncio.get_running_loop().time())
        self._exchanges = {endpoint: connect(endpoint.url, policy) for endpoint in self._pool.endpoints}
        self.agreement = policy.agreement

    @classmethod
    async def open(
        cls, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, *, may_be_down: bool = False
    ) -> Endpoints:
        """Connects, and looks behind every URL.

        Args:
            chain_id: the EIP-155 id that each of them must have.
            urls: in order of preference.
            policy: how they are asked.
            may_be_down: whether to go on if none answers. Each is looked behind before it is asked anything else.

        Raises:
            WrongChainError: one that answers is another chain.
            TransientRpcError: none answers, or there are fewer than have to agree.
        """
        require_endpoints(chain_id, urls, policy)
        endpoints = cls(chain_id, urls, policy)
        try:
            await endpoints._look_behind_each(may_be_down=may_be_down)
        except BaseException:
            await endpoints.close()
            raise
        return endpoints

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(*(exchange.close() for exchange in self._exchanges.values()))

    @property
    def pool(self) -> EndpointPool:
        """The endpoints, and what is known of them."""
        return self._pool

    async def request(self, request: Request, read: Read) -> Any:
        """The result of a request; see `EndpointPool.request`."""
        return await self._run(self._pool.request(request, read))

    async def agreed(self, essence: Callable[[Any], Hashable], request: Request, read: Read) -> Any:
        """The result of a request on which as many endpoints agree as the policy asks for; no liar can make it up alone.

        Args:
            essence: what of an answer must be equal.
            request: what is asked.
            read: see `request`; an answer that it refuses has no vote.

        Raises:
            RpcError: so many nodes answered with an error that means the same, too few answered, or they do not agree.
        """
        if self.agreement == 1:
            return await self.request(request, read)
        return (await self.witnessed(essence, request, read))[0]

    async def witnessed(
        self, essence: Callable[[Any], Hashable], request: Request, read: Read
    ) -> tuple[Any, tuple[str, ...]]:
        """As `agreed`, with the names of the endpoints that said so. One that was slower than those is not among them.

        Raises:
            RpcError: see `agreed`.
        """
        answers, failures = await self._opinions(essence, request, read)
        votes = votes_of(list(answers.values()), essence)
        most: list[Any] = votes[0] if votes else []
        if len(most) < self.agreement:
            raise self._too_few(request, len(most), f"do ({len(votes)} different answers)", failures)
        if isinstance(most[0], RpcError):
            raise most[0]
        names = (endpoint.name for endpoint, answer in answers.items() if any(answer is one for one in most))
        return read(most[0]), tuple(names)

    async def opinions(self, request: Request, read: Read) -> list[Any]:
        """What each endpoint says, where several have to agree; else one answer. Who is slow is not waited for once they do.

        Raises:
            RpcError: fewer than have to agree gave a result: a node's error that says why, or that too few answered.
        """
        if self.agreement == 1:
            return [await self.request(request, read)]
        answers, failures = await self._opinions(str, request, read)
        results = [read(answer) for answer in answers.values() if not isinstance(answer, RpcError)]
        if len(results) < self.agreement:
            refusal = next((one for one in answers.values() if isinstance(one, RpcError)), None)
            if refusal is None and results:
                raise self._too_few(request, len(results), "answer", failures)
            raise refusal or self._pool.nobody(failures)
        return results

    def _too_few(self, request: Request, count: int, what: str, failures: Sequence[RpcError]) -> DisagreementError:
        """Says which chain it is, and which endpoints gave no answer."""
        text = (
            f"{self._pool.chain}: {self.agreement} endpoints have to agree on {request.method}, and {count} of"
            f" {len(self._exchanges)} {what}"
        )
        if failures:
            silent = "; ".join(dict.fromkeys(map(str, failures)))
            text += f"; without an answer: {silent}; see {self._pool.policy.origin}"
        return DisagreementError(text)

    async def _opinions(
        self, essence: Callable[[Any], Hashable], request: Request, read: Read
    ) -> tuple[dict[Endpoint, Any], list[RpcError]]:
        """What each sound endpoint answers until enough of them agree, errors included; and why others do not.

        Where the policy hedges, who fails is asked again at once, and who is slow after a while: what two of three say must
        not wait for a time-out.
        """
        asked: dict[asyncio.Task[Any], Endpoint] = {}
        waiting = set[asyncio.Task[Any]]()
        answers: dict[Endpoint, Any] = {}
        failures: list[RpcError] = []
        hedge_after = None if request.method in CHANGING else self._pool.policy.hedge_after
        hedges = 0 if hedge_after is None else _TRIES - 1
        left = dict.fromkeys(self._exchanges, hedges)  # tries after a failure

        def ask(endpoints: Iterable[Endpoint]) -> None:
            for endpoint in endpoints:
                task = asyncio.create_task(self._opinion(endpoint, request, read))
                asked[task] = endpoint
                waiting.add(task)

        try:
            ask(self._exchanges)
            while waiting and all(len(votes) < self.agreement for votes in votes_of(list(answers.values()), essence)):
                patience = hedge_after if hedges else None
                done, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
                for task in (task for task in list(asked) if task in done):
                    answer, endpoint = task.result(), asked[task]
                    if not (isinstance(answer, RpcError) and scope_of(answer, request) is ErrorScope.AT_FAULT):
                        answers[endpoint] = answer
                        continue
                    failures.append(answer)
                    if left[endpoint]:
                        left[endpoint] -= 1
                        ask([endpoint])
                if not done:  # while one keeps us waiting, others may have a newer answer
                    hedges -= 1
                    ask(self._exchanges)
        finally:
            await _cancel(list(asked))
        return answers, failures

    async def _opinion(self, endpoint: Endpoint, request: Request, read: Read) -> Any:
        """One endpoint's answer as it gave it, or its error."""

        def check(answer: Any) -> Any:
            read(answer)
            return answer

        try:
            answer = await self._run(self._pool.ask_alone(endpoint, request, check))
        except RpcError as error:
            return error
        self._pool.take_back(endpoint)
        return answer

    async def _look_behind_each(self, *, may_be_down: bool) -> None:
        errors = [
            error for error in await asyncio.gather(*map(self._look_behind, self._exchanges)) if error is not None
        ]
        if len(errors) == len(self._exchanges):
            if not may_be_down:
                raise self._pool.nobody(errors)
            names = [endpoint.name for endpoint in self._exchanges]
            _log.warning("chain is down: it is taken in when it answers", chain=self._pool.chain, endpoints=names)

    async def _look_behind(self, endpoint: Endpoint) -> TransientRpcError | None:
        """Why an endpoint does not say which chain it is of; None if it is of ours.

        Raises:
            WrongChainError: it is of another one.
        """
        try:
            await self._run(self._pool.verify(endpoint))
        except TransientRpcError as error:
            self._pool.put_aside(endpoint, error)
            return error
        return None

    async def _run(self, steps: Steps) -> Any:
        """Carries out the policy's steps, and returns what they return."""
        outcome: Any = None
        failure: RpcError | None = None
        while True:
            try:
                step = steps.send(outcome) if failure is None else steps.throw(failure)
            except StopIteration as end:
                return end.value
            outcome, failure = None, None
            try:
                outcome = await self._carry_out(step)
            except RpcError as error:
                failure = error

    async def _carry_out(self, step: Ask | Wait | Race) -> Any:
        if isinstance(step, Wait):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Race):
            return await self._race(step)
        wait = step.endpoint.pace.wait_from(asyncio.get_running_loop().time())
        if wait:
            await asyncio.sleep(wait)
        answer = await self._exchanges[step.endpoint].ask(step.request.method, step.request.params)
        return result_of(answer, step.request, f"{step.endpoint.name}: {step.request.method}")

    async def _race(self, race: Race) -> tuple[Any, list[RpcError]]:
        asked = [asyncio.create_task(self._run(race.first))]
        errors: list[RpcError] = []
        try:
            done, _ = await asyncio.wait(asked, timeout=race.after)
            if not done:
                asked.append(asyncio.create_task(self._run(race.second())))
            for answer in asyncio.as_completed(asked):
                try:
                    return await answer, []
                except RpcError as error:
                    if scope_of(error, race.request) is ErrorScope.SPEAKS_FOR_ALL:
                        raise
                    errors.append(error)
        finally:
            await _cancel(asked)
        return None, errors


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
