"""A first-time reader's path: the README's commands, typed as they stand there, with the explorer open beside them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib import request

import pytest

from tests.anvil.rpc import free_ports

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
FOREVER = ("relayer run", "index run", "waybill web", "--watch")
PENDING = 4
ENOUGH = 60  # seconds for what happens by itself


def commands() -> list[str]:
    """The lines of the section's code blocks that start with `waybill`, without their comments."""
    section = README.split("## What to type next")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return [
        line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.startswith("waybill ")
    ]


class Terminal:
    """Types `waybill` commands in a folder of its own."""

    def __init__(self, home: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
        chains, _, explorer = free_ports(3)
        self._explorer = f"127.0.0.1:{explorer}"
        self._environment = inherited | {
            "WAYBILL_HOME": str(home),
            "WAYBILL_PORT": str(chains),
            "WAYBILL_WEB_HTTP": self._explorer,
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._arguments(command), env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )

    def leave_running(self, command: str) -> None:
        quiet = subprocess.DEVNULL
        self._running[command] = subprocess.Popen(
            self._arguments(command), env=self._environment, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def see_in_the_explorer(self, message_id: str, *said: str) -> None:
        """Looks at the message's page until it says all that; it follows the index, and may just have been started."""
        deadline = time.monotonic() + ENOUGH
        page = ""
        while not all(words in page for words in said):
            if time.monotonic() > deadline:
                pytest.fail(f"the explorer does not say {said} of {message_id}\n{page}")
            time.sleep(0.3)
            with contextlib.suppress(OSError):
                page = request.urlopen(f"http://{self._explorer}/message/{message_id}", timeout=10).read().decode()

    @property
    def ended(self) -> list[str]:
        """The commands that were left running and run no more."""
        return [command for command, process in self._running.items() if process.poll() is not None]

    def close(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(60)
        self.type("waybill devnet down")

    @staticmethod
    def _arguments(command: str) -> list[str]:
        return [sys.executable, "-m", "bridge.cli", *shlex.split(command)[1:]]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_do_what_it_says(terminal: Terminal) -> None:
    message_id = ""
    for command in commands():
        if any(words in command for words in FOREVER):
            terminal.leave_running(command)
            continue
        if command == "waybill devnet down":
            assert terminal.ended == []
        ended = _typed_until_it_works(terminal, command.replace(" ID", f" {message_id}"))
        if command.startswith("waybill send"):
            found = re.search(r"0x[0-9a-f]{64}", ended.stdout)
            assert found, ended.stdout
            message_id = found.group()
        if command.startswith("waybill message explain"):
            assert "axelar took it" in ended.stdout
            terminal.see_in_the_explorer(message_id, "Sent over axelar", "Id recomputed")
        if command.startswith("waybill message show"):
            terminal.see_in_the_explorer(
                message_id, 'data-state="EXECUTED"', "Retry 1 over", "Executed by the recipient"
            )
    assert message_id


def _typed_until_it_works(terminal: Terminal, command: str) -> subprocess.CompletedProcess[str]:
    """Types a command; `message list` may have to wait until Spark has started, `show` until the retry has arrived."""
    deadline = time.monotonic() + ENOUGH
    while True:
        ended = terminal.type(command)
        done = ended.returncode in ((0, PENDING) if "explain" in command else (0,))
        if done and ("message show" not in command or "EXECUTED" in ended.stdout):
            return ended
        waits = command.startswith(("waybill message list", "waybill message show"))
        if not waits or time.monotonic() > deadline:
            pytest.fail(f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
        time.sleep(0.5)
