"""A first-time reader's path: the commands of README and quickstart, typed as they stand there, with the explorer open.

Real chains, real GMP contracts and real Spark, with relayer and index killed in the middle of the demonstration.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib import request

import psutil
import pytest

from tests.anvil.rpc import free_ports
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text()
FOREVER = ("relayer run", "index run", "waybill web")
EXECUTED = ('data-state="EXECUTED"', "Executed by the recipient")


def commands(page: str, heading: str, beginning: str) -> list[str]:
    """The lines of the code blocks under a heading that begin so, without their comments."""
    section = page.partition(heading)[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.startswith(beginning)]


class Terminal:
    """Types commands, `waybill` keeping what it has in a folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        ours = ("WAYBILL_", "MAKE", "MFLAGS")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        chains, *_, explorer = free_ports(4)
        self.explorer = f"127.0.0.1:{explorer}"
        self._environment = inherited | {
            "WAYBILL_HOME": str(home),
            "WAYBILL_PORT": str(chains),
            "WAYBILL_WEB_HTTP": self.explorer,
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def type(self, command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._arguments(command),
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def paste(self, command: list[str], folder: str = ".") -> subprocess.CompletedProcess[str]:
        """Runs a block of code in a folder below the devnet's, which looks like the repository's where the code reads it."""
        if not (link := self.home / "bridge").exists():
            link.symlink_to(ROOT / "bridge")
        tools = f"{ROOT / 'build' / 'tools' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            command,
            env=self._environment | {"PATH": tools, "PYTHONPATH": str(ROOT)},
            cwd=self.home / folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 5,
            check=False,
        )

    def demonstrate(self, command: str) -> str:
        """Runs the demo, visits its explorer while everything runs, and ends it with Ctrl-C; returns what it said."""
        process = subprocess.Popen(
            self._arguments(f"{command} KEEP=1"),
            env=self._environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "Ctrl-C here" in line:
                break
        try:
            explorer = re.search(r"the explorer is at http://(\S+)", said)
            assert explorer, said[-4_000:]
            assert f"cd {self.home.resolve()}\n" in said
            self._read(explorer[1], "Latest messages", "executed")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE)
        return said + output + errors

    def leave_running(self, command: str) -> None:
        quiet = subprocess.DEVNULL
        self._running[command] = subprocess.Popen(
            self._arguments(command), env=self._environment, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def see_in_the_explorer(self, message_id: str, *said: str) -> None:
        """Looks at the message's page until it says all that."""
        self._read(f"{self.explorer}/message/{message_id}", *said)

    @staticmethod
    def _read(place: str, *said: str) -> None:
        """Asks for a page until it says all that; the explorer follows the index, and may just have been started."""
        deadline = time.monotonic() + PATIENCE
        page = ""
        while not all(words in page for words in said):
            if time.monotonic() > deadline:
                pytest.fail(f"{place} does not say {said}\n{page}")
            time.sleep(0.3)
            with contextlib.suppress(OSError):
                page = request.urlopen(f"http://{place}", timeout=10).read().decode()

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
        program, *rest = shlex.split(command)
        return [program, *rest] if program == "make" else [sys.executable, "-m", "bridge.cli", *rest]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def test_first_time_reader_follows_the_quickstart(
    terminal: Terminal,
) -> None:
    demo, *_ = commands(README, "## Try it", "make ")
    assert demo in commands(QUICKSTART, "## The demo", "make ")
    check_demonstration(terminal, terminal.demonstrate(demo))
    messages: list[str] = []
    for command in commands(QUICKSTART, "## By hand", "waybill "):
        if any(words in command for words in FOREVER):
            terminal.leave_running(command)
            continue
        if command == "waybill devnet down":
            assert terminal.ended == []
            run_scripts(terminal)
        ended = _typed_until_it_works(terminal, command.replace(" ID", f" {messages[-1]}" if messages else ""))
        if command.startswith("waybill send"):
            found = re.search(r"0x[0-9a-f]{64}", ended.stdout)
            assert found, ended.stdout
            messages.append(found.group())
        if command.startswith("waybill message watch"):
            stalled_and_retried = ("Retry 1: 0 of 1 receipts 15 s after", "Retry 1 over")
            terminal.see_in_the_explorer(messages[-1], *stalled_and_retried, *EXECUTED)
        if command.startswith("waybill message show"):
            terminal.see_in_the_explorer(messages[-1], "Retry 1 over Wormhole", *EXECUTED)
    assert len(messages) == 2


def run_scripts(terminal: Terminal) -> None:
    """Runs the blocks of Python and shell of README and quickstart, pasted as they stand, on the devnet that is up."""
    (hello,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    ended = terminal.paste([sys.executable, "-c", hello])
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"sent over Axelar: 0x[0-9a-f]{64}\nexecuted, delivered by (?!axelar)\w+\n", ended.stdout), (
        ended.stdout
    )
    (plain,) = re.findall(r"```python\n(.*?)```", QUICKSTART, re.DOTALL)
    expect_execution(terminal.paste([sys.executable, "-c", plain]), "executed\n")
    (script,) = re.findall(r"```ts\n(.*?)```", QUICKSTART, re.DOTALL)
    write_package(terminal.home / "hello", script)
    node = ["node", "--conditions=source", "--import", "tsx", "hello.ts"]
    expect_execution(terminal.paste(node, "hello"), "EXECUTED the recipient on beta has it\n")
    (shell,) = re.findall(r"```sh\n(export PATH=.*?)```", QUICKSTART, re.DOTALL)
    if shutil.which("jq"):
        expect_execution(terminal.paste(["bash", "-ec", shell]), "executed\n")


def expect_execution(ended: subprocess.CompletedProcess[str], last: str) -> None:
    """A script said what it sent, and last that it was executed."""
    assert ended.returncode == 0, ended.stderr
    assert re.match(r"sent over Axelar: 0x[0-9a-f]{64}\n", ended.stdout), ended.stdout
    assert ended.stdout.endswith(last), ended.stdout


def write_package(folder: Path, script: str) -> None:
    """A package as the quickstart has npm make it, with links for what npm installs."""
    kit, modules = ROOT / "dapp", folder / "node_modules"
    (modules / "@waybill").mkdir(parents=True)
    (modules / "@waybill" / "dapp").symlink_to(kit)
    for name in ("viem", "tsx"):
        (modules / name).symlink_to(kit / "node_modules" / name)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "hello.ts").write_text(script)


def check_demonstration(terminal: Terminal, output: str) -> None:
    """What the demonstration claims: nothing lost, nothing executed twice, although a GMP stalls and processes are killed."""
    said = QUICKSTART.partition("Outcome:")[2].partition("\n")[0]
    assert f"Outcome:{said}" in output
    report = json.loads((terminal.home / "build" / "demo" / "report.json").read_text())
    assert report["messages"] >= 60
    assert report["executed"] == report["messages"]
    assert (report["executedTwice"], report["lost"], report["divergences"]) == (0, 0, [])
    retries = report["retries"]
    assert retries["requested"] == retries["sent"] == retries["executed"] > 0
    ends = [(action["act"], action["state"], action["cause"], action["frozen"]) for action in report["actions"]]
    frozen = {"beta": True, "gamma": True}
    assert ends == [("freeze", "COMMITTED", "ALL_PREPARED", frozen), ("unfreeze", "ABORTED", "TIMED_OUT", frozen)]
    for line in ("freeze gold on beta and gamma", "unfreeze gold on beta and gamma"):
        assert line in output
    assert report["lateReceipts"] >= retries["executed"]
    assert set(report["perGmp"]) >= {"hyperlane", "axelar", "wormhole"}, "a phase that is retried may go over others"
    assert not processes_of(terminal.home), "the demonstration left processes behind"


def processes_of(home: Path) -> list[str]:
    """Command lines of processes that still work in a folder."""
    found = []
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get("WAYBILL_HOME") == str(home):
            found.append(" ".join(process.info["cmdline"] or []))
    return found


def _typed_until_it_works(terminal: Terminal, command: str) -> subprocess.CompletedProcess[str]:
    """Types a command; `message list` may have to wait until Spark has started, `show` until the retry has arrived."""
    deadline = time.monotonic() + PATIENCE
    while True:
        ended = terminal.type(command)
        done = ended.returncode == 0
        if done and ("message show" not in command or "EXECUTED" in ended.stdout):
            return ended
        waits = command.startswith(("waybill message list", "waybill message show"))
        if not waits or time.monotonic() > deadline:
            pytest.fail(f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
        time.sleep(0.5)
