"""Lives that are killed at the N-th system call of a kind, and what must hold after the next one."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bridge.records.transactions import SlotState
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.store import Store
from tests.anvil.killing.life import (
    COUNTER,
    COUNTER_CODE,
    MESSAGES,
    MULTICALL,
    ROUTER,
    ROUTER_CODE,
    History,
    live,
    multicall_code,
)
from tests.anvil.rpc import rpc
from tests.anvil.tracing import allow_tracing, attach
from tests.builders import BETA
from tests.waiting import PATIENCE

STRATEGIES = (CommitStrategy.BATCH, CommitStrategy.MESSAGE, CommitStrategy.TIME)
SHARES = (1, MESSAGES)  # deliveries to a transaction at most
_NEW_ACCOUNT = hex(10**20)  # wei


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The moment of a kill."""

    strategy: CommitStrategy
    max_calls_per_tx: int
    system_call: str
    number: int  # 1 is the first such call of a life

    def __str__(self) -> str:
        return f"{self.strategy}:{'shared' if self.max_calls_per_tx > 1 else 'alone'}:{self.system_call}:{self.number}"

    @property
    def injection(self) -> str:
        """For strace."""
        return f"{self.system_call}:signal=KILL:when={self.number}"


def kill_at(point: Point, rpc_url: str) -> tuple[bool, list[str]]:
    """Whether a life was killed there (it may end before), and what is wrong after the next life."""
    with tempfile.TemporaryDirectory(prefix="waybill-kill-") as folder:
        name = f"{point} {time.time_ns()}"
        history = History(name, Path(folder), rpc_url, point.strategy, point.max_calls_per_tx)
        rpc(rpc_url, "anvil_setBalance", history.account, _NEW_ACCOUNT)
        rpc(rpc_url, "anvil_setCode", COUNTER, COUNTER_CODE)
        rpc(rpc_url, "anvil_setCode", ROUTER, ROUTER_CODE)
        rpc(rpc_url, "anvil_setCode", MULTICALL, multicall_code())
        code = _run(history, 1, point)
        if code not in (0, -signal.SIGKILL):
            return True, [f"the first life ended with {code}"]
        was_killed = code == -signal.SIGKILL
        if was_killed:
            code = _run(history, 2, None)
            if code != 0:
                return True, [f"the second life ended with {code}"]
        return was_killed, _complaints(history)


def _complaints(history: History) -> list[str]:
    """What is lost, doubled, wasted, left open or sent too early."""
    found = []
    for number, name in enumerate(history.counts, 1):
        executed = _number(history, "eth_call", {"to": COUNTER, "data": f"0x{name.hex()}"})
        if executed != 1:
            found.append(f"message {number} was executed {executed} times")
    used = _number(history, "eth_getTransactionCount", history.account)
    store = Store(history.url)
    slots = store.transactions.slots(BETA, history.account)
    store.close()
    if [slot.nonce for slot in slots] != list(range(used)):
        found.append(f"the chain has used {used} nonces, the ledger knows {[slot.nonce for slot in slots]}")
    taken = [slot.nonce for slot in slots if slot.state is SlotState.USED_EXTERNALLY]
    if taken:
        found.append(f"nonces {taken} were used by transactions that were sent before the ledger knew them")
    made = [transaction_key for slot in slots if not slot.ended_as_noop for transaction_key in slot.transaction_keys]
    if len(made) != MESSAGES:
        found.append(f"{len(made)} deliveries of {MESSAGES} messages were sent: {made}")
    return found


def _number(history: History, method: str, argument: object) -> int:
    return int(rpc(history.rpc_url, method, argument, "latest"), 16)


def _run(history: History, number: int, point: Point | None) -> int:
    """A life in a process of its own: its exit code, or the signal that killed it, negative."""
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        _child(history, number, wait)
    os.close(wait)
    tracer = attach(child, point.injection, history.folder) if point else None
    os.write(go, b"g")
    os.close(go)
    deadline = time.monotonic() + 2 * PATIENCE  # a life ends before that by itself
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGTERM)
        time.sleep(0.005)
    if tracer is not None:
        tracer.wait()
    return os.waitstatus_to_exitcode(status)


def _child(history: History, number: int, wait: int) -> None:
    """Never returns. All is imported by now, so that a life takes no time to begin."""
    code = 1
    try:
        allow_tracing()
        os.read(wait, 1)
        output = os.open(history.folder / f"life-{number}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        live(history, number)
        code = 0
    finally:
        os._exit(code)
