"""Kills a process that fills store and lake, at chosen system calls, and looks whether the next one finishes the work.

`python -m tests.unit.indexer.sink_sweep [--lake URL] FOLDER POINT…` prints, as JSON, per point, such as `fsync:3`, whether the process was killed
before the third `fsync` of one of its threads, and what is wrong afterwards: an empty text if nothing is. At every second point the store
forgets what has ended at once; at the others it keeps all, so that all of it can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from indexer.jobs.history import History
from indexer.jobs.promotion import kept_in_lake, promote
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.bronze import Lake
from indexer.store import tables
from indexer.store.retention import prune
from indexer.store.store import Store
from scripts.debian import find_program
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    absorbed,
    apply,
    contents,
    executed,
    new_world,
    received,
    routed,
    sent_message,
)
from tests.waiting import PATIENCE


def story() -> tuple[SimulatedChain, SimulatedChain]:
    alpha, beta = new_world()
    for nonce in range(1, 13):
        sent = sent_message(nonce, quorum=1)
        alpha.mine(routed(sent))
        beta.mine(received(sent, 1), executed(sent), *[absorbed(sent, 1)] * (nonce % 2))
    return alpha, beta


FORGETS, KEEPS = 0, 10**9  # seconds that the store keeps a message after it has ended


def work(folder: Path, place: StorageLocation, keep_ended: int = FORGETS) -> None:
    """Reads what is missing, in rounds, with everything that a running index does to its files."""
    lake = Lake(place)
    store = Store(f"sqlite:///{folder / 'index.db'}")
    for head in (5, 9, 12):
        for chain in story():
            position = store.positions().get(chain.chain_id)
            first = 0 if position is None else position.block + 1
            if first <= head:
                apply(store, chain, first, head, final=head - 2)
        promote(store, lake, {ALPHA: 0, BETA: 0})
        prune(store.engine, START + 7 - keep_ended, kept_in_lake(store, lake))
    store.close()


def wrong(folder: Path, place: StorageLocation, keep_ended: int = FORGETS) -> str:
    """What store and lake have that the chains have not, or lack."""
    lake = Lake(place)
    store = Store(f"sqlite:///{folder / 'index.db'}")
    fresh = Store("sqlite://")
    try:
        expected = {}
        for chain in story():
            apply(fresh, chain)
            expected[chain.chain_id] = chain.events(0, chain.head)
        for chain_id, events in expected.items():
            if History(store.engine, lake).events(chain_id, 0, 99) != events:
                return f"chain {chain_id}: the events are not the chain's"
            if lake.last_block(chain_id) != 10:
                return f"chain {chain_id}: the lake ends with block {lake.last_block(chain_id)}"
        for table in ("messages", "receipts"):
            whole, kept = contents(fresh)[table], contents(store)[table]
            if set(kept) - set(whole) or (keep_ended == KEEPS and kept != whole):
                return f"{table} are not what the events say"
        remembered = {row[0] for row in contents(store, tables.pruned_messages)["pruned_messages"]}
        if {row[0] for row in contents(store)["messages"]} | remembered != {
            row[0] for row in contents(fresh)["messages"]
        }:
            return "a message is neither in the store nor remembered as pruned"
        return ""
    finally:
        store.close()
        fresh.close()


def in_child(action: Callable[[], None], point: str | None = None) -> int:
    """Runs it in a process of its own, killed at that point if one is given; returns how the process ended."""
    child = os.fork()
    if child == 0:
        try:
            if point is not None:
                wait_until_traced()
            action()
        except BaseException as error:  # noqa: BLE001  a child must not go on as its parent
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
        os._exit(0)
    if point is None:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    call, number = point.split(":")
    inject = f"inject={call}:signal=KILL:when={number}"
    strace = str(find_program("strace", "strace", with_dependencies=True))
    command = [strace, "-f", "-q", "-p", str(child), "-e", f"trace={call}", "-e", inject, "-o", "/dev/null"]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tracer.wait()
    return ended


def wait_until_traced() -> None:
    """Attaching takes strace a moment; without it, the process would get away."""
    deadline = time.monotonic() + PATIENCE
    while "TracerPid:\t0\n" in Path("/proc/self/status").read_text():
        if time.monotonic() > deadline:
            raise TimeoutError("strace did not attach; is ptrace allowed here?")
        time.sleep(0.005)


def try_point(folder: Path, place: StorageLocation, point: str, keep_ended: int) -> dict[str, object]:
    ended = in_child(lambda: work(folder, place, keep_ended), point)
    killed = ended == -signal.SIGKILL
    again = in_child(lambda: work(folder, place, keep_ended))
    if again:
        return {"point": point, "killed": killed, "wrong": f"the next run ended with {again}"}
    answer = folder / "wrong"

    def look() -> None:
        answer.write_text(wrong(folder, place, keep_ended))

    ended = in_child(look)
    return {"point": point, "killed": killed, "wrong": f"looking ended with {ended}" if ended else answer.read_text()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", help="an S3 bucket's URL, instead of a folder")
    parser.add_argument("root", type=Path)
    parser.add_argument("points", nargs="+")
    told = parser.parse_args()
    found = []
    for position, point in enumerate(told.points):
        folder = told.root / str(position)
        folder.mkdir()
        lake = StorageLocation.of(told.lake) / str(position) if told.lake else StorageLocation.of(folder / "lake")
        found.append(try_point(folder, lake, point, (FORGETS, KEEPS)[position % 2]))
        sys.stderr.write(f"{found[-1]}\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
