"""The process of the HTTP API: what it does when its relayer is killed, and what the relayer leaves to it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from bridge.cli import api_process
from bridge.http.listening import AddressTakenError, listening_at


async def test_a_relayer_waits_for_the_address_that_a_killed_ones_process_still_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = listening_at("127.0.0.1:0")
    taken.listen()
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    waiting = asyncio.create_task(api_process._free(address))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    taken.close()
    (await asyncio.wait_for(waiting, 10)).close()

    monkeypatch.setattr(api_process, "_TO_NOTICE", 0.3)
    with listening_at(address) as other:
        other.listen()
        with pytest.raises(AddressTakenError, match="Address already in use"):
            await asyncio.wait_for(api_process._free(address), 10)


def test_the_process_of_a_relayer_that_is_gone_ends_without_a_word() -> None:
    ours, theirs = socket.socketpair()
    with listening_at("127.0.0.1:0") as listener, theirs:
        ours.close()
        files = (listener.fileno(), theirs.fileno())
        command = [sys.executable, "-P", "-m", "bridge.cli.api_server", *map(str, files)]
        ended = subprocess.run(command, pass_fds=files, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_relayer_does_not_import_what_serves_http() -> None:
    servers = {"fastapi", "limits", "starlette", "uvicorn"}
    asked = f"import sys, bridge.cli.relayer; print(*sorted({servers} & sys.modules.keys()))"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "\n"
