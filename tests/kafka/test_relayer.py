"""From `waybill relayer run` on real chains to records in Kafka: also while the broker is away, and after a halt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge.client import Client
from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.outbox import OutboxState
from bridge.store import Store
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process, until
from tests.anvil.test_relayer import blocks
from tests.anvil.traffic import World
from tests.kafka.broker import Broker
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

GMPS = (Gmp.HYPERLANE, Gmp.AXELAR)
TOPICS = ("waybill.messages", "waybill.retries", "waybill.divergences", "waybill.dead-letters")


def configure(home: Path, broker: Broker) -> None:
    lines = [f'bootstrap_servers = "{broker.servers}"', 'delivery = "exactly-once"']
    (home / "waybill.toml").write_text("\n".join(["[kafka]", *lines, ""]))


def outcomes(events: list[Mapping[str, Any]]) -> dict[str, set[str]]:
    """By message, the GMPs that have delivered it for good."""
    found: dict[str, set[str]] = {}
    for event in events:
        if event["event"] == "FINAL":
            found.setdefault(event["key"], set()).add(event["data"]["gmp"])
    return found


def check(broker: Broker, *sent: Message) -> None:
    """Each message is there to its end, and nothing twice."""
    events = [one.document for one in broker.records(*TOPICS)]
    everywhere = {gmp.label for gmp in GMPS}
    assert outcomes(events) == {f"0x{one.id.hex()}": everywhere for one in sent}
    versions = [(event["key"], event["version"]) for event in events]
    assert len(versions) == len(set(versions))
    routed = {event["key"]: event["data"]["envelope"] for event in events if event["event"] == "ROUTED"}
    assert routed == {f"0x{one.id.hex()}": f"0x{one.encode().hex()}" for one in sent}


@pytest.mark.timeout(6 * PATIENCE)
async def test_message_is_followed_in_kafka_despite_an_outage(
    devnet: Devnet, chains: dict[int, EvmChain], broker: Broker, tmp_path: Path
) -> None:
    home = new_home(devnet, tmp_path)
    configure(home, broker)
    waybill, world, client = Waybill(home), World(devnet.deployment, chains), Client(devnet.deployment, chains)
    url = f"sqlite:///{home}/.waybill/devnet/bridge.db"
    assert waybill.json("status")["streams"] is None

    async def is_final(message_id: bytes) -> None:
        with closing(Store(url)) as store:
            entries = store.outbox.entries
            await until(lambda: len(entries(message_id)) == len(GMPS), "all dispatches are seen")
            await until(lambda: {one.state for one in entries(message_id)} == {OutboxState.DELIVERED}, "delivered")
            await until(lambda: all(one.confirmed_at for one in entries(message_id)), "all deliveries are final")

    async def is_published() -> None:
        with closing(Store(url)) as store:
            await until(lambda: store.streams.status().waiting == 0, "nothing waits")

    broker.kill()
    async with blocks(devnet):
        with process(home, tmp_path / "log") as relayer:
            await relayer.is_at_work()
            with closing(Store(url)) as store:
                await until(lambda: store.streams.status().recording, "changes are recorded")
            first = (await world.send(*GMPS, quorum=2)).message
            assert (await client.wait(first, timeout=PATIENCE)).executed  # relaying does not wait for Kafka
            await is_final(first.id)
            with closing(Store(url)) as store:
                await until(lambda: bool(store.streams.status().error), "the outage is noted")
            shown = waybill.json("status")["streams"]
            assert "Kafka at" in shown["error"]
            assert shown["waiting"] > 0
            broker.start()
            await is_published()

            with closing(Store(url)) as store:
                store.streams.halt("as if the dead-letter topic were away")
            second = (await world.send(*GMPS, quorum=2)).message
            await is_final(second.id)
            assert "as if the dead-letter topic were away" in waybill("status").out
            assert waybill.json("lane", "resume", "--streams") == {"resumed": True}
            await is_published()
            relayer.kill()
        with process(home, tmp_path / "log") as relayer:  # a halt ends with a restart too, and nothing comes twice
            await relayer.is_at_work()
            third = (await world.send(*GMPS, quorum=2)).message
            await is_final(third.id)
            await is_published()
            assert relayer.terminate() == 0
    check(broker, first, second, third)
