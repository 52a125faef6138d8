"""From `waybill relayer run` on real chains to a webhook's target, though the target is away and the relayer is killed."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import PATIENCE, process, until
from tests.anvil.test_relayer import blocks
from tests.anvil.traffic import World
from tests.unit.streams.receiver import SECRET, receiver

pytestmark = pytest.mark.long

GMPS = (Gmp.HYPERLANE, Gmp.AXELAR)


def configure(home: Path, url: str, tries: int) -> None:
    (home / "waybill.toml").write_text(
        f"""[webhooks]
allow_private = true
poll_interval = 0.1
timeout = 1.0
base = 0.1
cap = 0.2
tries = {tries}

[webhooks.targets.shop]
url = "{url}"
secrets = ["whsec_{b64encode(SECRET).decode()}"]
events = ["ROUTED", "DELIVERED", "FINAL"]
lanes = ["alpha:beta"]
"""
    )


@pytest.mark.timeout(6 * PATIENCE)
async def test_a_message_on_real_chains_is_followed_by_a_webhook_though_target_and_relayer_fail(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    home = new_home(devnet, tmp_path)
    waybill, world, is_away = Waybill(home), World(devnet.deployment, chains), [True]
    with receiver(lambda _: 503 if is_away[0] else 204) as target:
        configure(home, target.url, tries=10_000)
        assert waybill.json("webhook", "list") == []

        def listed() -> list[dict[str, Any]]:
            return waybill.json("webhook", "list")  # type: ignore[no-any-return]  # JSON

        async with blocks(devnet):
            with process(home, tmp_path / "log") as relayer:
                await relayer.is_at_work()
                sent = (await world.send(*GMPS, quorum=2)).message
                await until(lambda: len(target.requests) > 2, "the target refuses")
                assert {one["event"] for one in target.documents} == {"ROUTED"}, "later events wait"
                relayer.kill()
            is_away[0] = False
            refused = len(target.requests)
            with process(home, tmp_path / "log") as relayer:
                await relayer.is_at_work()
                await until(
                    lambda: [one["event"] for one in target.documents[refused:]].count("FINAL") >= len(GMPS), "final"
                )
                await until(lambda: {one["state"] for one in listed()} == {"DELIVERED"}, "all are noted")
                taken = target.documents[refused:]
                assert {one["key"] for one in taken} == {f"0x{sent.id.hex()}"}
                versions = [one["version"] for one in taken]
                assert versions == sorted(versions)
                assert {one["data"]["gmp"] for one in taken if one["event"] == "FINAL"} == {gmp.label for gmp in GMPS}

                name = listed()[0]["id"]
                before = target.ids.count(name)
                assert waybill.json("webhook", "redeliver", name)["state"] == "PENDING"
                await until(lambda: target.ids.count(name) > before, "it is delivered again")
                assert relayer.terminate() == 0
    assert waybill.json("webhook", "show", name)["body"]["key"] == f"0x{sent.id.hex()}"
    assert waybill("webhook", "show", "shop-1").code != 0
    with receiver() as target:
        configure(home, target.url, tries=1)
        assert waybill.json("webhook", "test", "shop")["status"] == 204
        assert target.documents[0]["event"] == "TEST"
    ended = waybill("webhook", "test", "shop")
    assert "it can't be reached" in ended.err
    assert "no webhook target 'shelf'; they have shop" in waybill("webhook", "test", "shelf").err
