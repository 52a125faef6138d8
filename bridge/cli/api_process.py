"""The HTTP API as a process of its own, so that its clients can't slow the relayer.

The relayer opens the port and starts the process, again if it ends. The process reads stores and chains itself. It asks
the relayer for two things: figures that only that process knows, and another attempt of a message. It has no key.

`bridge.cli.api_server` is that process. This one imports no HTTP server: that would take 12 MB of the relayer's memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from bridge.api.backend import BackendError, ErrorCode
from bridge.api.link import LONGEST, Link
from bridge.cli.workspace import Workspace
from bridge.domain.ports import TransientError
from bridge.http.listening import CONNECTIONS, AddressTakenError, listening_at, url_of
from bridge.protocol.backoff import backoff
from bridge.protocol.gmps import Gmp
from bridge.relayer.retries import RetryFailedError
from bridge.service.relayer_service import RelayerService
from bridge.settings import Settings

_log = structlog.get_logger(__name__)

_KEYS: Final = frozenset({"WAYBILL_RELAYER_KEY", "WAYBILL_RETRY_KEYS", "WAYBILL_OPERATOR_KEY", "WAYBILL_KEY"})
_OWN: Final = frozenset({"relayer_key", "retry_keys", "http"})
"""Settings that are the relayer's alone."""

_LONGEST_PAUSE: Final = 30.0  # seconds between two starts
_WELL: Final = 60.0  # seconds after which a process counts as one that had started well
_TO_END: Final = 5.0  # seconds
_TO_NOTICE: Final = (
    20.0  # seconds in which the process of a relayer that was killed notices that, while it starts at the latest
)


@asynccontextmanager
async def served_apart(
    workspace: Workspace, bridge: RelayerService, settings: Settings, *, as_json: bool
) -> AsyncIterator[None]:
    """Serves the HTTP API in another process, if the settings name an address.

    Raises:
        ListeningError: it can't be listened at.
    """
    if settings.http is None:
        yield
        return
    start = {
        "network": workspace.network,
        "root": str(workspace.root),
        "config": str(workspace.config) if workspace.config else None,
        "arguments": {
            name: value for name, value in workspace.arguments.items() if value is not None and name not in _OWN
        },
        "accounts": sorted(bridge.accounts),
        "asJson": as_json,
    }
    document = json.loads(json.dumps(start, default=_plain))
    with await _free(settings.http) as listener:
        listener.listen(CONNECTIONS)  # those who connect before the process is there wait for it
        _log.info("serving the HTTP API", url=url_of(listener))
        keeping = asyncio.create_task(_keep_serving(listener, _Relayer(bridge, document)))
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def _free(address: str) -> socket.socket:
    """Listens there. If a relayer was killed, its API's process has the address for another moment.

    Raises:
        ListeningError: it can't be listened at.
    """
    began, is_told = time.monotonic(), False
    while True:
        try:
            return listening_at(address)
        except AddressTakenError:
            if time.monotonic() - began > _TO_NOTICE:
                raise
        if not is_told:
            _log.warning("the HTTP API's address is taken; it may be free in a moment", address=address)
            is_told = True
        await asyncio.sleep(0.2)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else str(value)


class _Relayer:
    """What the relayer answers the API's process."""

    def __init__(self, bridge: RelayerService, start: dict[str, Any]) -> None:
        self._bridge = bridge
        self._start = start

    async def start(self) -> dict[str, Any]:
        """What the process is to serve."""
        return self._start

    async def figures(self) -> dict[str, Any]:
        """See `RelayerFigures`; JSON has texts for keys."""
        return {
            "endpoints": {
                str(chain_id): [[one.name, one.is_up] for one in chain.endpoint_states]
                for chain_id, chain in self._bridge.chains.items()
            },
        }

    async def retry(self, message_id: str, gmps: list[int] | None) -> dict[str, Any]:
        """Sends another attempt of a message."""
        chosen = None if gmps is None else tuple(Gmp(gmp) for gmp in gmps)
        try:
            retried = await self._bridge.recovery.retry(bytes.fromhex(message_id), chosen)
        except RetryFailedError as error:
            raise BackendError(ErrorCode.REFUSED, str(error)) from error
        except TransientError as error:
            raise BackendError(ErrorCode.UNAVAILABLE, str(error)) from error
        return {
            "messageId": f"0x{retried.message_id.hex()}",
            "attempt": retried.attempt,
            "gmps": sorted(gmp.label for gmp in retried.gmps),
            "transaction": f"0x{retried.transaction_hash.hex()}",
        }


async def _keep_serving(listener: socket.socket, relayer: _Relayer) -> None:
    """Runs the process, again whenever it ends."""
    pause, clock = 1.0, asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            code: int | str = await _run(listener, relayer)
        except OSError as error:
            code = str(error)
        pause = 1.0 if clock() - began > _WELL else backoff(pause, 1, cap=_LONGEST_PAUSE)
        _log.error("the HTTP API ended; it is started again", code=code, seconds=pause)
        await asyncio.sleep(pause)


async def _run(listener: socket.socket, relayer: _Relayer) -> int:
    """Runs the process once, to its end."""
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST)
        files = (listener.fileno(), theirs.fileno())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # what is in the present folder is not imported
            *("-m", "bridge.cli.api_server", *map(str, files)),
            pass_fds=files,
            env={name: value for name, value in os.environ.items() if name not in _KEYS},
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # a terminal's Ctrl-C is for the relayer, which ends it
        )
    link = Link(reader, writer, {"start": relayer.start, "figures": relayer.figures, "retry": relayer.retry})
    answering = asyncio.create_task(link.run())
    try:
        return await process.wait()
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)  # closes the link, which ends the process
        try:
            async with asyncio.timeout(_TO_END):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
