"""The client for synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from eth_account.signers.local import LocalAccount

from bridge.client.client import Client
from bridge.evm.chain import open_chains
from bridge.evm.routers import Progress
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import AssetClass
from bridge.protocol.message import Message

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _blocking(
    method: Callable[Concatenate[Client, _Parameters], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[BlockingClient, _Parameters], _Result]:
    """Wraps an asynchronous method for synchronous callers, keeping its docstring."""

    @wraps(method)
    def run(self: BlockingClient, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return self._runner.run(method(self._client, *args, **kwargs))

    return run


class BlockingClient:
    """Runs `Client` on its own event loop.

    Use it as a context manager, in a single thread without a running event loop. Every method calls the method
    of `Client` with the same name, and raises the same exceptions.
    """

    def __init__(
        self,
        deployment: Deployment,
        account: LocalAccount | None = None,
        asset_classes: Sequence[AssetClass] = (),
    ) -> None:
        """Creates a client; see `Client`. Entering the context connects to the deployment's chains."""
        self._asset_classes = asset_classes
        self._deployment = deployment
        self._account = account
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._opened: Client | None = None

    def __enter__(self) -> Self:
        """Connects to the network's chains.

        Raises:
            TransientError: no endpoint of a chain responded.
        """
        self._opened = self._runner.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnects."""
        try:
            self._runner.run(self._stack.aclose())
        finally:
            self._opened = None
            self._runner.close()

    quote_route = _blocking(Client.quote_route)
    quote_retry = _blocking(Client.quote_retry)
    route = _blocking(Client.route)
    retry = _blocking(Client.retry)
    execute = _blocking(Client.execute)
    fund = _blocking(Client.fund)
    cancel = _blocking(Client.cancel)
    report = _blocking(Client.report)
    expire = _blocking(Client.expire)
    appoint_retrier = _blocking(Client.appoint_retrier)
    progress = _blocking(Client.progress)
    wait = _blocking(Client.wait)
    find = _blocking(Client.find)

    def watch(self, message: Message, timeout: float) -> Iterator[Progress]:
        """See `Client.watch`."""
        steps = self._client.watch(message, timeout)

        async def step() -> Progress | None:
            return await anext(steps, None)

        while (progress := self._runner.run(step())) is not None:
            yield progress

    @property
    def _client(self) -> Client:
        if self._opened is None:
            raise RuntimeError(
                "BlockingClient is not open; use it as a context manager: with BlockingClient(…) as client: …"
            )
        return self._opened

    async def _open(self) -> Client:
        chains = await self._stack.enter_async_context(open_chains(self._deployment))
        return Client(self._deployment, chains, self._account, self._asset_classes)
