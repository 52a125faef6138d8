"""A disk that is full, and one that fails to sync, under the real relayer and its real SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.store import Store
from tests.anvil.command import new_home
from tests.anvil.relayers import process, until
from tests.anvil.test_relayer import Traffic, blocks, nonces_are_all_used
from tests.anvil.tracing import injected

GMPS = (Gmp.HYPERLANE, Gmp.WORMHOLE)
FULL = ("pwrite64:error=ENOSPC", "database or disk is full")
UNSYNCED = ("fdatasync,fsync:error=EIO", "disk I/O error")
READ_ONLY = ("pwrite64:error=EROFS", "disk I/O error")


async def test_relayer_survives_a_full_readonly_or_failing_disk(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    home, traffic = new_home(devnet, tmp_path), Traffic(devnet, chains)
    database = home / "bridge.db"
    Store(f"sqlite:///{database}").close()
    async with blocks(devnet):
        with process(home, home / "relayer.log", WAYBILL_STORE=f"sqlite:///{database}") as relayer:
            await relayer.is_at_work()
            store = Store(f"sqlite:///{database}")
            for fault, said in (FULL, READ_ONLY, UNSYNCED):
                await traffic.send(*GMPS)
                await until(lambda: len(store.outbox.listed()) == len(traffic.sent) * len(GMPS), "it is observed")
                with injected(relayer.pid, fault, tmp_path):
                    await traffic.send(*GMPS, source="beta", destination="alpha")
                    await until(partial(relayer.says, said), "it says what is wrong")
                    before = {chain: store.observations.cursor(chain) for chain in chains}
                    await asyncio.sleep(1)
                    assert {chain: store.observations.cursor(chain) for chain in chains} == before, "nothing is written"
                    assert relayer.is_running, relayer.log
                await traffic.all_received()
            await until(
                lambda: (
                    len(store.outbox.listed()) == len(traffic.sent) * len(GMPS)
                    and {one.state for one in store.outbox.listed()} == {OutboxState.DELIVERED}
                ),
                "every entry is delivered",
            )
            await traffic.all_executed()
            assert relayer.terminate() == 0, relayer.log
    nonces_are_all_used(store, devnet)
    store.close()
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    unexpected = [line for line in relayer.lines if line["event"] == "step failed unexpectedly, will be retried"]
    assert not unexpected
