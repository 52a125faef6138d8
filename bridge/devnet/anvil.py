"""anvil processes that outlive the command that starts them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from bridge.devnet.errors import DevnetError
from bridge.devnet.paths import ANVIL

HOST: Final = "127.0.0.1"

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # anvil has none, and the machine's take long to read
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
# Two readings of one process's start may differ by a clock tick; another process with the same id is older or younger.
_START_TOLERANCE = 1.0  # seconds


class PortTakenError(DevnetError):
    """Somebody else listens where a chain should."""


class ChainState(StrEnum):
    """How a chain of the devnet does."""

    RUNNING = "running"
    CRASHED = "crashed"  # its process is gone, and its blocks with it
    SILENT = "silent"  # its process is there and does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AnvilProcess:
    """One anvil, as the devnet's file remembers it."""

    name: str
    chain_id: int
    port: int
    pid: int
    started_at: float  # Unix seconds; tells it from a later process with the same id
    log: str

    @property
    def url(self) -> str:
        """Its RPC endpoint."""
        return f"http://{HOST}:{self.port}"

    @property
    def states(self) -> Path:
        """Where it puts the states of older blocks when they get many; `stop` removes it."""
        return _states_beside(Path(self.log))

    def to_json(self) -> dict[str, Any]:
        """As it stands in the devnet's file."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStatus:
    """How one chain does now."""

    name: str
    chain_id: int
    url: str
    pid: int  # 0 for a chain that the devnet did not start
    state: ChainState
    block: int | None  # the newest block's number, while it answers
    log: str


def require_free_port(port: int, chain: str, option: str) -> None:
    """Makes sure that a chain can have its port.

    Args:
        port: on this machine's loopback address.
        chain: whose port it will be, for the text.
        option: the command's option that chooses another one, for the text.

    Raises:
        PortTakenError: it is taken; the text names the process if the system tells.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As anvil does: a port that was closed a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise PortTakenError(
                f"port {port}, meant for chain {chain}, is taken{_owner_of(port)}; end that process, or choose another "
                f"first port with {option}"
            ) from None


def start(
    *,
    name: str,
    chain_id: int,
    port: int,
    log: Path,
    keep_states: int | None = None,
) -> AnvilProcess:
    """Starts a chain and waits until it answers.

    It mines a block for each transaction, and one a second, until `mine_every` says otherwise: with a block for each
    transaction alone, anvil may leave one in its pool that arrives while another is mined, until something else comes.
    It is a process group of its own and hears no signal from the terminal.

    Args:
        name: the chain's.
        chain_id: its id.
        port: on this machine's loopback address.
        log: the file for what it prints; older states are kept beside it.
        keep_states: of how many of the newest blocks the state is kept, all of them in memory; all if None, older ones on
            disk. From there anvil 1.7.1 brings back accounts without their code when a reorg needs them.

    Raises:
        DevnetError: anvil is missing, ended, or does not answer.
    """
    if not ANVIL.exists():
        raise DevnetError(f"anvil is missing ({ANVIL}); run `make setup`, or `waybill devnet up`, which fetches it")
    command = [str(ANVIL), "--host", HOST, "--port", str(port), "--chain-id", str(chain_id)]
    command += ["--slots-in-an-epoch", "1", "--silent", "--mixed-mining", "--block-time", "1"]
    command += ["--hardfork", "cancun"]
    # Left to itself anvil puts these states into the user's home, and leaves them there when it is killed.
    command += ["--cache-path", str(_states_beside(log))]
    if keep_states is not None:
        command += ["--prune-history", str(keep_states)]
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = _spawn(command, log)
    try:
        started = AnvilProcess(
            name=name,
            chain_id=chain_id,
            port=port,
            pid=pid,
            started_at=psutil.Process(pid).create_time(),
            log=str(log),
        )
        _wait_until_it_answers(started)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise
    return started


def _states_beside(log: Path) -> Path:
    return log.with_suffix(".states")


def _spawn(command: list[str], log: Path) -> int:
    """Starts a process that does not end with this one: in a session of its own, with its output in a file."""
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _wait_until_it_answers(anvil: AnvilProcess) -> None:
    deadline = time.monotonic() + _START_SECONDS
    # Another process could have taken the port since it was looked at: its answer must not pass for ours.
    while _rpc(anvil, "eth_chainId") != hex(anvil.chain_id) or not is_alive(anvil):
        if not is_alive(anvil):
            raise DevnetError(f"anvil for chain {anvil.name} ended at once: {_tail(anvil.log)}")
        if time.monotonic() > deadline:
            raise DevnetError(f"anvil for chain {anvil.name} does not answer at {anvil.url}; its log is {anvil.log}")
        time.sleep(0.02)


def mine_every(anvil: AnvilProcess, seconds: int) -> None:
    """Makes a chain mine a block every so many seconds; 0: for each transaction, and never without one.

    Raises:
        DevnetError: the chain does not answer, or refuses.
    """
    method, argument = ("evm_setIntervalMining", seconds) if seconds else ("evm_setAutomine", True)
    request(anvil, method, argument)


def request(anvil: AnvilProcess, method: str, *params: Any) -> Any:
    """What anvil answers to a request, such as one of its own methods that no other node has.

    Raises:
        DevnetError: the chain does not answer, or refuses.
    """
    try:
        said = answer(anvil.url, method, params, timeout=_START_SECONDS)
    except (httpx.HTTPError, ValueError) as error:
        raise DevnetError(f"anvil for chain {anvil.name} does not answer {method}: {error!r}") from error
    if "error" in said:
        raise DevnetError(f"anvil for chain {anvil.name} refuses {method}: {said['error']}")
    return said.get("result")


def is_alive(anvil: AnvilProcess) -> bool:
    """Whether the very process that was started still runs."""
    return _process_of(anvil) is not None


def look_at(anvil: AnvilProcess) -> ChainStatus:
    """How a chain does now."""
    block = None
    if not is_alive(anvil):
        state = ChainState.CRASHED
    else:
        block = block_number(anvil)
        state = ChainState.SILENT if block is None else ChainState.RUNNING
    return ChainStatus(
        name=anvil.name,
        chain_id=anvil.chain_id,
        url=anvil.url,
        pid=anvil.pid,
        state=state,
        block=block,
        log=anvil.log,
    )


def look_at_url(name: str, chain_id: int, url: str) -> ChainStatus:
    """How a chain does that somebody else started."""
    try:
        found = answer(url, "eth_blockNumber", (), timeout=2.0).get("result")
        block = int(found, 16) if isinstance(found, str) else None
    except (httpx.HTTPError, ValueError):
        block = None
    state = ChainState.SILENT if block is None else ChainState.RUNNING
    return ChainStatus(name=name, chain_id=chain_id, url=url, pid=0, state=state, block=block, log="")


def free_port() -> int:
    """A port of the loopback address that nobody listens at."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def stop(anvils: list[AnvilProcess]) -> None:
    """Ends chains, and returns when their processes and states are gone. They keep nothing that an orderly end would save."""
    processes = [process for anvil in anvils if (process := _process_of(anvil)) is not None]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_STOP_SECONDS)
    for anvil in anvils:
        shutil.rmtree(anvil.states, ignore_errors=True)


def block_number(anvil: AnvilProcess) -> int | None:
    """The newest block's number, or None if there is no answer."""
    found = _rpc(anvil, "eth_blockNumber")
    return int(found, 16) if isinstance(found, str) else None


def _rpc(anvil: AnvilProcess, method: str, *params: Any) -> Any:
    try:
        return answer(anvil.url, method, params, timeout=2.0).get("result")
    except (httpx.HTTPError, ValueError):
        return None


def answer(url: str, method: str, params: Sequence[Any], *, timeout: float) -> dict[str, Any]:
    """What a node answers to a request, as it answered it.

    Raises:
        httpx.HTTPError: there is no answer within `timeout` seconds.
        ValueError: the answer is not JSON.
    """
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    found: dict[str, Any] = httpx.post(
        url, json=asked, timeout=timeout, trust_env=False, verify=_NO_CERTIFICATES
    ).json()
    return found


def _process_of(anvil: AnvilProcess) -> psutil.Process | None:
    _reap(anvil.pid)
    try:
        process = psutil.Process(anvil.pid)
        if abs(process.create_time() - anvil.started_at) > _START_TOLERANCE:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


def _reap(pid: int) -> None:
    """Buries the process if it was started by this one and has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _owner_of(port: int) -> str:
    try:
        for connection in psutil.net_connections(kind="tcp"):
            address = connection.laddr
            if connection.status == psutil.CONN_LISTEN and connection.pid and address and address.port == port:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass  # not every system tells everybody
    return ""


def _tail(log: str) -> str:
    return Path(log).read_text(errors="replace").strip()[-500:] or f"it said nothing in {log}"
