"""Two relayers, as users start them, on one PostgreSQL: one is killed, the database is restarted, nothing is lost or doubled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.client import Client, Sent
from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.records.transactions import SlotState
from bridge.store import Store
from tests.anvil.command import Waybill
from tests.anvil.relayers import process, until
from tests.anvil.test_relayer import blocks
from tests.anvil.traffic import RELAYER, World
from tests.postgresql import Server, running_postgresql
from tests.waiting import PATIENCE

GMPS = (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    with running_postgresql(durable=True) as server:
        yield server


async def test_second_relayer_takes_over_and_both_survive_a_restart(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, postgresql: Server
) -> None:
    url, home = postgresql.new_url(), devnet.deployments_file.parent.parent
    store = Store(url)  # a relayer makes none that is named
    world, client = World(devnet.deployment, chains), Client(devnet.deployment, chains)
    sent: list[Sent] = []

    async def send(count: int) -> None:
        for _ in range(count):
            sent.append(await world.send(*GMPS, quorum=2, payload=b"%d" % len(sent)))

    first_log, second_log = tmp_path / "first.log", tmp_path / "second.log"
    async with blocks(devnet):
        with (
            process(home, first_log, WAYBILL_STORE=url) as first,
            process(home, second_log, WAYBILL_STORE=url) as second,
        ):
            await first.is_at_work()
            await second.is_at_work()
            await send(4)
            await until(lambda: len(store.outbox.listed(limit=999)) > 0, "they have begun")
            first.kill()
            first.end_leases(store)
            await send(2)
            postgresql.stop(signal.SIGQUIT)
            await send(2)
            postgresql.start()
            await send(2)
            entries = store.outbox.listed
            await until(lambda: len(entries(limit=999)) == 10 * 3, "every dispatch is in the outbox")
            await until(lambda: {one.state for one in entries(limit=999)} == {OutboxState.DELIVERED}, "all delivered")
            for one in sent:
                assert (await client.wait(one.message, timeout=PATIENCE)).executed
            assert second.is_running, second.log
            assert second.terminate() == 0
    for chain in devnet.deployment.chains:
        slots = store.transactions.slots(chain.chain_id, RELAYER.address)
        assert {slot.state for slot in slots} <= {SlotState.INCLUDED, SlotState.FINAL}
        assert all(slot.included is not None and slot.included.succeeded for slot in slots)
    store.close()
    _backup_and_restore(home, url, postgresql.new_url(), tmp_path / "backup.db")


def _backup_and_restore(home: Path, url: str, other: str, path: Path) -> None:
    """The commands, on what the relayers left."""
    waybill = Waybill(home)
    saved = waybill.json("store", "backup", str(path), "--store", url)
    assert saved["rows"]["outbox"] == 10 * 3
    assert waybill("store", "backup", str(path), "--store", url).code == 1
    restored = waybill.json("store", "restore", str(path), "--store", other)
    assert (restored["rows"], restored["noncesTaken"]) == (saved["rows"], 0)
    refused = waybill("store", "restore", str(path), "--store", other)
    assert refused.code == 1
    assert "--replace" in refused.err
