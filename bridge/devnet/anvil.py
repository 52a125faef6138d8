"""Runs anvil processes that outlive the command that started them."""

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

_NO_CERTIFICATES = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # anvil uses plain HTTP, and loading the system's certificates is slow
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
# Two readings of a process's start time may differ by a clock tick; a larger difference means a reused process id.
_START_TOLERANCE = 1.0  # seconds


class PortTakenError(DevnetError):
    """Another process is already listening on a chain's port."""


class ChainState(StrEnum):
    """The state of a devnet chain."""

    RUNNING = "running"
    CRASHED = "crashed"  # the process is gone, and with it the chain
    SILENT = "silent"  # the process runs but does not respond


@dataclass(frozen=True, slots=True, kw_only=True)
class AnvilProcess:
    """An anvil process as recorded in the devnet's file."""

    name: str
    chain_id: int
    port: int
    pid: int
    started_at: float  # Unix seconds; distinguishes it from a later process with the same id
    log: str

    @property
    def url(self) -> str:
        """Returns the URL of the RPC endpoint."""
        return f"http://{HOST}:{self.port}"

    @property
    def states(self) -> Path:
        """Returns the folder for the states of older blocks, which would not fit into memory. `stop` removes it."""
        return _states_beside(Path(self.log))

    def to_json(self) -> dict[str, Any]:
        """Returns the record for the devnet's file."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStatus:
    """Current status of one chain."""

    name: str
    chain_id: int
    url: str
    pid: int  # 0 for an attached chain
    state: ChainState
    block: int | None  # number of the newest block; None if the chain does not respond
    log: str


def require_free_port(port: int, chain: str, option: str) -> None:
    """Checks that a chain's port is free.

    Args:
        port: Port on the loopback address.
        chain: Name of the chain, for the error.
        option: Command-line option that selects another port, for the error.

    Raises:
        PortTakenError: the port is in use.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Like anvil, treat a recently closed port as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise PortTakenError(
                f"port {port} for chain {chain} is in use; stop that process, or choose another first port with {option}"
            ) from None


def start(
    *,
    name: str,
    chain_id: int,
    port: int,
    log: Path,
    keep_states: int | None = None,
) -> AnvilProcess:
    """Starts a chain and waits until it responds.

    Until `mine_every` changes this, the chain mines a block per transaction and also one per second. With
    automining alone, anvil may leave a transaction that arrives during mining in its pool until the next
    transaction arrives. The process runs in its own session, so that terminal signals do not reach it.

    Args:
        name: Name of the chain.
        chain_id: Id of the chain.
        port: Port on the loopback address.
        log: File for the output. States of older blocks are kept beside it.
        keep_states: Number of newest blocks whose state is kept, in memory. If None, all states are kept, older
            ones on disk. When a reorg needs a state on disk, anvil 1.7.1 restores it without contract code.

    Raises:
        DevnetError: anvil is missing, exited, or does not respond.
    """
    if not ANVIL.exists():
        raise DevnetError(f"anvil not found at {ANVIL}; run `make setup`, or `waybill devnet up`, which fetches it")
    command = [str(ANVIL), "--host", HOST, "--port", str(port), "--chain-id", str(chain_id)]
    command += ["--slots-in-an-epoch", "1", "--silent", "--mixed-mining", "--block-time", "1"]
    command += ["--hardfork", "cancun"]
    # By default anvil puts these states into the user's home and leaves them there when it is killed.
    command += ["--cache-path", str(_states_beside(log))]
    if keep_states is not None:
        command += ["--prune-history", str(keep_states)]
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = _spawn(command, log)
    try:
        anvil = AnvilProcess(
            name=name,
            chain_id=chain_id,
            port=port,
            pid=pid,
            started_at=psutil.Process(pid).create_time(),
            log=str(log),
        )
        _wait_until_ready(anvil)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise
    return anvil


def _states_beside(log: Path) -> Path:
    return log.with_suffix(".states")


def _spawn(command: list[str], log: Path) -> int:
    """Starts a process that outlives this one, in its own session and with its output in a file."""
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


def _wait_until_ready(anvil: AnvilProcess) -> None:
    deadline = time.monotonic() + _START_SECONDS
    # Another process may have taken the port since the check; its response must not count as anvil's.
    while _rpc(anvil, "eth_chainId") != hex(anvil.chain_id) or not is_alive(anvil):
        if not is_alive(anvil):
            raise DevnetError(f"anvil for chain {anvil.name} exited immediately: {_tail(anvil.log)}")
        if time.monotonic() > deadline:
            raise DevnetError(f"anvil for chain {anvil.name} does not respond at {anvil.url}; see {anvil.log}")
        time.sleep(0.02)


def mine_every(anvil: AnvilProcess, seconds: int) -> None:
    """Makes a chain mine a block every `seconds` seconds or, if that is 0, one block per transaction.

    Raises:
        DevnetError: the chain did not respond, or returned an error.
    """
    method, argument = ("evm_setIntervalMining", seconds) if seconds else ("evm_setAutomine", True)
    request(anvil, method, argument)


def request(anvil: AnvilProcess, method: str, *params: Any) -> Any:
    """Returns the result of an RPC request, such as a call to one of anvil's own methods.

    Raises:
        DevnetError: the chain did not respond, or returned an error.
    """
    try:
        response = answer(anvil.url, method, params, timeout=_START_SECONDS)
    except (httpx.HTTPError, ValueError) as error:
        raise DevnetError(f"anvil for chain {anvil.name} did not respond to {method}: {error!r}") from error
    if "error" in response:
        raise DevnetError(f"anvil for chain {anvil.name} rejected {method}: {response['error']}")
    return response.get("result")


def is_alive(anvil: AnvilProcess) -> bool:
    """Returns whether the process is still running. A different process with the same id does not count."""
    return _process_of(anvil) is not None


def look_at(anvil: AnvilProcess) -> ChainStatus:
    """Returns a chain's current status."""
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
    """Returns the current status of a chain that the devnet did not start."""
    try:
        number = answer(url, "eth_blockNumber", (), timeout=2.0).get("result")
        block = int(number, 16) if isinstance(number, str) else None
    except (httpx.HTTPError, ValueError):
        block = None
    state = ChainState.SILENT if block is None else ChainState.RUNNING
    return ChainStatus(name=name, chain_id=chain_id, url=url, pid=0, state=state, block=block, log="")


def free_port() -> int:
    """Returns an unused port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def stop(anvils: list[AnvilProcess]) -> None:
    """Kills chains and removes their states. Returns once the processes are gone."""
    processes = [process for anvil in anvils if (process := _process_of(anvil)) is not None]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_STOP_SECONDS)
    for anvil in anvils:
        shutil.rmtree(anvil.states, ignore_errors=True)


def block_number(anvil: AnvilProcess) -> int | None:
    """Returns the newest block's number, or None if the node does not respond."""
    number = _rpc(anvil, "eth_blockNumber")
    return int(number, 16) if isinstance(number, str) else None


def _rpc(anvil: AnvilProcess, method: str, *params: Any) -> Any:
    try:
        return answer(anvil.url, method, params, timeout=2.0).get("result")
    except (httpx.HTTPError, ValueError):
        return None


def answer(url: str, method: str, params: Sequence[Any], *, timeout: float) -> dict[str, Any]:
    """Returns a node's raw JSON-RPC response.

    Raises:
        httpx.HTTPError: no response within `timeout` seconds.
        ValueError: the response is not JSON.
    """
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    response: dict[str, Any] = httpx.post(
        url, json=body, timeout=timeout, trust_env=False, verify=_NO_CERTIFICATES
    ).json()
    return response


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
    """Reaps the process if it is a child of this one and has exited."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _tail(log: str) -> str:
    return Path(log).read_text(errors="replace").strip()[-500:] or f"its log {log} is empty"
