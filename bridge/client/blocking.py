"""The client for code that does not await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

from eth_account.signers.base import BaseAccount
from web3.types import TxReceipt

from bridge.client.routing import Client, Connection, RouteRequest, Sent
from bridge.domain.guarantee import AssetClass
from bridge.evm.routers import Progress
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message

OpenChains = Callable[[Deployment], AbstractAsyncContextManager[Mapping[int, Connection]]]
"""How chains are connected to, such as `bridge.evm.chain.open_chains`."""


class BlockingClient:
    """Runs `Client` on an event loop of its own. Use it as a context manager, in one thread, where no other loop runs.

    Every method is the one of `Client` with that name, and raises the same.
    """

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Connection] | OpenChains,
        account: BaseAccount | None = None,
        asset_classes: Sequence[AssetClass] = (),
    ) -> None:
        """Connects to nothing yet. The arguments are those of `Client`, or how its chains are opened and closed."""
        self._asset_classes = asset_classes
        self._deployment = deployment
        self._chains = chains
        self._account = account
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._opened: Client | None = None

    def __enter__(self) -> Self:
        """Connects to the network's chains.

        Raises:
            TransientError: a chain has no endpoint that answers.
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

    def quote_route(self, source: int | str, request: RouteRequest) -> dict[Gmp, int]:
        """See `Client.quote_route`."""
        return self._runner.run(self._client.quote_route(source, request))

    def quote_retry(self, message: Message, gmps: Sequence[Gmp]) -> dict[Gmp, int]:
        """See `Client.quote_retry`."""
        return self._runner.run(self._client.quote_retry(message, gmps))

    def route(self, source: int | str, request: RouteRequest) -> Sent:
        """See `Client.route`."""
        return self._runner.run(self._client.route(source, request))

    def retry(
        self,
        message: Message,
        gmps: Sequence[Gmp],
        min_dispatched: int = 1,
        max_fee: int | None = None,
        *,
        even_if_ended: bool = False,
    ) -> Sent:
        """See `Client.retry`."""
        return self._runner.run(self._client.retry(message, gmps, min_dispatched, max_fee, even_if_ended=even_if_ended))

    def execute(self, message: Message) -> TxReceipt:
        """See `Client.execute`."""
        return self._runner.run(self._client.execute(message))

    def fund(self, message: Message) -> Sent:
        """See `Client.fund`."""
        return self._runner.run(self._client.fund(message))

    def cancel(self, message: Message, gmps: Sequence[Gmp], min_dispatched: int = 1) -> Sent:
        """See `Client.cancel`."""
        return self._runner.run(self._client.cancel(message, gmps, min_dispatched))

    def expire(self, message: Message) -> TxReceipt:
        """See `Client.expire`."""
        return self._runner.run(self._client.expire(message))

    def appoint_retrier(self, source: int | str, retrier: str) -> TxReceipt:
        """See `Client.appoint_retrier`."""
        return self._runner.run(self._client.appoint_retrier(source, retrier))

    def progress(self, message: Message) -> Progress:
        """See `Client.progress`."""
        return self._runner.run(self._client.progress(message))

    def wait(self, message: Message, timeout: float) -> Progress:
        """See `Client.wait`."""
        return self._runner.run(self._client.wait(message, timeout))

    def watch(self, message: Message, timeout: float) -> Iterator[Progress]:
        """See `Client.watch`."""
        steps = self._client.watch(message, timeout)

        async def step() -> Progress | None:
            return await anext(steps, None)

        while (progress := self._runner.run(step())) is not None:
            yield progress

    def find(self, message_id: bytes) -> Message:
        """See `Client.find`."""
        return self._runner.run(self._client.find(message_id))

    @property
    def _client(self) -> Client:
        if self._opened is None:
            raise RuntimeError("a BlockingClient is used as a context manager: with BlockingClient(…) as client: …")
        return self._opened

    async def _open(self) -> Client:
        chains = self._chains
        if not isinstance(chains, Mapping):
            chains = await self._stack.enter_async_context(chains(self._deployment))
        return Client(self._deployment, chains, self._account, self._asset_classes)
