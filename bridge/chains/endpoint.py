"""One JSON-RPC endpoint of a chain: it says which chain it is of, keeps to its pace, and its answers are told from no answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.chains.answers import RpcError
from bridge.chains.policy import EndpointPolicy, Pace
from bridge.chains.transport import Exchange, NoAnswerError, without_secrets
from bridge.ports import TerminalError


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
    """One URL, and what is known of whoever answers behind it."""

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
        """Asks for the chain's id, after every failure anew: another node may stand behind the URL by now."""
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
