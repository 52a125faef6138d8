"""Blocks on the relayer's client for one chain (`bridge.evm.endpoints`)."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

from bridge.evm.endpoint_policy import EndpointPolicy, Pace
from bridge.evm.endpoints import Endpoints, KnownBlock, as_it_is
from bridge.evm.rpc_answers import Request, RpcError
from bridge.evm.transport import Connect, HttpExchange

Result = TypeVar("Result")


class ChainRpc:
    """JSON-RPC client for one chain, for one thread at a time. Close it after use."""

    def __init__(
        self,
        chain_id: int,
        urls: Sequence[str],
        policy: EndpointPolicy,
        connect: Connect = HttpExchange,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects lazily.

        Args:
            chain_id: EIP-155 id that every endpoint must have.
            urls: endpoints in order of preference.
            policy: policy that distributes requests among endpoints.
            connect: creates the transport for a URL.
            clock: monotonic clock in seconds.
        """
        self._loop = _event_loop()
        self._endpoints = Endpoints(chain_id, urls, policy, connect, clock=clock, pace_of=_pace_of)

    def close(self) -> None:
        """Closes the connections. Requests in progress fail."""
        self._result_of(self._endpoints.close())

    def must_have(self, last: KnownBlock | None, final: KnownBlock | None) -> None:
        """See `Endpoints.must_have`."""
        self._endpoints.must_have(last, final)

    def call(
        self, method: str, *params: Any, read: Callable[[Any], Result] = as_it_is, is_final: bool = False
    ) -> Result:
        """Returns the result of one request.

        Args:
            method: JSON-RPC method.
            params: Parameters of the method.
            read: Decodes the result. If it raises an `RpcError`, another endpoint is queried.
            is_final: Whether the request is about final blocks, so that a node without them must be lagging.

        Raises:
            RpcError: no endpoint gave a result; see `bridge.evm.rpc_answers`.
        """
        result: Result = self._result_of(self._endpoints.request(Request(method, params), read, catches_up=is_final))
        return result

    def call_together(self, requests: Sequence[Request], *, is_final: bool = False) -> list[Any]:
        """Returns the results of several requests in order, all from the same endpoint.

        As many requests as the policy allows are sent in one HTTP request, so that a single node answers them
        unless a load balancer splits the batch.

        Raises:
            RpcError: no endpoint gave all results.
        """
        return self._result_of(self._endpoints.request_together(requests, catches_up=is_final)) if requests else []

    def gives_way(self, block: KnownBlock, reason: RpcError) -> bool:
        """See `Endpoints.gives_way`."""
        return self._result_of(self._endpoints.gives_way(block, reason))

    def anyone_has(self, block: KnownBlock) -> bool:
        """See `Endpoints.anyone_has`."""
        return bool(self._result_of(self._endpoints.repeated(lambda: self._endpoints.anyone_has(block))))

    def _result_of(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Starts this process's event loop.

    It runs permanently, so that it notices when a server closes an idle connection.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rpc", daemon=True)
    thread.start()
    atexit.register(_stop, loop, thread)
    return loop


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Ends the loop's thread before the interpreter exits.

    The interpreter aborts if the thread holds its lock at that moment.
    """
    if thread.is_alive():  # a forked process does not have this thread
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


_paces: dict[tuple[str, float | None], Pace] = {}
"""The paces of this process: the readers of consecutive Spark tasks share the pace of a URL."""


def _pace_of(url: str, requests_per_second: float | None) -> Pace:
    """Returns the pace of a URL. The same URL always gets the same object."""
    return _paces.setdefault((url, requests_per_second), Pace(requests_per_second))
