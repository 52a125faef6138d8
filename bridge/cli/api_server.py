"""The process that serves the HTTP API of a relayer; see `bridge.cli.api_process`, which starts it.

python -m bridge.cli.api_server LISTENER LINK     file descriptors
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bridge.api.backend import BackendError
from bridge.api.link import LONGEST, Link
from bridge.cli.logs import configure_logging
from bridge.cli.serving import api_of, opened_backend
from bridge.cli.workspace import Workspace
from bridge.http.server import serving
from bridge.metrics import RelayerFigures
from bridge.protocol.gmps import Gmp
from bridge.rpc.policy import EndpointState

_NICENESS: Final = 10  # the relayer goes first where both want the same core


async def _serve(listener: socket.socket, line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST)
    link = Link(reader, writer)
    relayer_ends = asyncio.create_task(link.run())
    start = await link.ask("start")
    configure_logging(as_json=start["asJson"])
    config = Path(start["config"]) if start["config"] else None
    workspace = Workspace(start["network"], Path(start["root"]), config, start["arguments"])

    async def figures() -> RelayerFigures:
        found = await link.ask("figures")
        return RelayerFigures(
            endpoints={
                int(chain): [EndpointState(name, is_up, requests={}) for name, is_up in states]
                for chain, states in found["endpoints"].items()
            },
        )

    async def retry(message_id: bytes, gmps: tuple[Gmp, ...] | None) -> dict[str, Any]:
        chosen = None if gmps is None else [int(gmp) for gmp in gmps]
        answer: dict[str, Any] = await link.ask("retry", message_id=message_id.hex(), gmps=chosen)
        return answer

    opened = opened_backend(workspace, accounts=start["accounts"], relayer=figures, retry=retry)
    async with opened as backend, serving(api_of(backend, workspace.settings()), listener):
        await relayer_ends


def main() -> None:
    """Serves until the relayer's process is gone."""
    listener, line = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    os.nice(_NICENESS)
    with suppress(BackendError):  # the relayer ended while this process started
        asyncio.run(_serve(listener, line))


if __name__ == "__main__":
    main()
