"""Who pays, on real chains: a route that pays the vault is delivered, an unpaid delivery waits for its payment."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from bridge.client import Client, RouteRequest, Sent
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, RELAYER_KEY
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.store import open_store
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process, until
from tests.anvil.rpc import rpc
from tests.anvil.traffic import DAPP

pytestmark = pytest.mark.long

PUBLIC = {"WAYBILL_PAYMENTS": '{"required": true, "plays_executor": false, "executor_grace": 0}'}
"""As on a public network, but that the GMPs' executors are given no time."""


async def test_what_is_paid_for_is_delivered_and_the_rest_waits_for_a_top_up(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    home, waybill = new_home(devnet, tmp_path), Waybill(tmp_path)
    client = Client(devnet.deployment, chains, DAPP)
    paid, unpaid = [await _sent(client, devnet, gmp) for gmp in (Gmp.WORMHOLE, Gmp.HYPERLANE)]
    assert paid.fee > unpaid.fee, "the route over Wormhole pays the vault, too"
    names = [f"0x{sent.message.id.hex()}" for sent in (paid, unpaid)]

    async def explained(name: str) -> dict[str, Any]:
        ended = await asyncio.to_thread(waybill, "message", "show", name, "--json", **PUBLIC)
        assert ended.code == 0, ended.err
        value: dict[str, Any] = ended.value
        return value

    with process(home, tmp_path / "relayer.log", **PUBLIC) as relayer:
        await relayer.is_at_work()
        _mine(devnet)
        await until(lambda: relayer.says("not paid for now"), "the relayer waits for a payment")
        await _until_executed(client, paid)
        value = await explained(names[1])
        assert [one["stage"] for one in value["gmps"]] == ["UNPAID"]
        assert value["next"] == f"pay for its delivery: `waybill message top-up {names[1]}`"
        assert "is missing" in str(value["reason"])
        assert not (await client.progress(unpaid.message)).executed

        strange = await asyncio.to_thread(waybill, "message", "top-up", names[1], "--gmp", "axelar", "--json", **PUBLIC)
        assert (strange.code, "axelar never took the message" in strange.err) == (1, True), strange
        topped = await asyncio.to_thread(waybill.json, "message", "top-up", names[1], "--key", DAPP_KEY, **PUBLIC)
        assert [one["gmp"] for one in topped["paid"]] == ["hyperlane"]
        _mine(devnet)
        await until(
            lambda: "can be fetched from 20" in waybill("vault", "refund", names[1]).err,
            "a payment that can't be fetched yet says from when on it can",
        )
        _mine(devnet)
        await _until_executed(client, unpaid)
        late = await asyncio.to_thread(waybill, "message", "cancel", names[1], "--key", DAPP_KEY, **PUBLIC)
        assert (late.code, "the message is EXECUTED on beta" in late.err) == (1, True), late
        await until(lambda: relayer.log.count('"delivered"') >= 2, "both are delivered")
        _mine(devnet)

        async def charged() -> int:
            arguments = ("vault", "collect", "alpha", "--key", RELAYER_KEY)
            value = await asyncio.to_thread(waybill.json, *arguments, **PUBLIC)
            return int(value["charges"])

        charges = await charged()
        while charges < 2:
            charges += await charged()
        _mine(devnet)
        with closing(open_store(f"sqlite:///{home}/.waybill/devnet/bridge.db")) as store:
            await until(
                lambda: all(one.earned for one in store.payments.accounts()), "the relayer has seen the charges"
            )
    economics = waybill.json("report", "--economics", **PUBLIC)["economics"]
    by_gmp = {one["gmp"]: one for one in economics}
    for gmp in ("wormhole", "hyperlane"):
        assert 0 < by_gmp[gmp]["earned"] <= by_gmp[gmp]["paid"]
        assert by_gmp[gmp]["spent"][0]["payer"] == "vault"
    (vault,) = (one for one in waybill.json("vault", "show")["vaults"] if one["chain"] == "alpha")
    assert vault["earned"] > 0
    sent = waybill.json("vault", "withdraw", "alpha", "--to", DAPP.address, "--key", RELAYER_KEY)
    assert sent["wei"] == vault["earned"]


def test_an_updated_price_says_what_a_byte_of_a_message_costs_and_why(devnet: Devnet, tmp_path: Path) -> None:
    waybill, words = Waybill(new_home(devnet, tmp_path)), ("vault", "price", "alpha", "beta", "--key", DEPLOYER_KEY)
    rpc(
        devnet.deployment.chain("alpha").rpc_urls[0], "evm_increaseTime", hex(301)
    )  # a price stays for five minutes at least
    _mine(devnet)
    (known,) = (one for one in waybill.json("vault", "show")["vaults"] if one["chain"] == "alpha")
    gas_price = known["prices"]["beta"]["gasPrice"]
    updated = waybill(*words, "--gas-price", str(gas_price))
    assert updated.code == 0, updated.err
    keystore, password = tmp_path / "oracle.json", tmp_path / "oracle.password"
    keystore.write_text(
        json.dumps(Account.encrypt(bytes.fromhex(DEPLOYER_KEY[2:]), "secret", kdf="pbkdf2", iterations=2))
    )
    password.write_text("secret\n")
    signed = ("--keystore", str(keystore), "--password-file", str(password))
    by_keystore = waybill(*words[:4], *signed, "--gas-price", str(gas_price))
    assert by_keystore.code == 0, by_keystore.err
    stranger = waybill(*words[:4], "--key", DAPP_KEY, "--gas-price", str(gas_price))
    assert stranger.code == 1
    assert "OnlyOracle(" in stranger.err
    assert "sign as the vault's oracle or as the owner of its router" in stranger.err
    assert waybill("send", "--payload", "hello", *signed).code == 0
    said = (
        f"{gas_price} wei per gas; {32 * gas_price} wei per byte of a message, for 32 gas and a rollup's fee for data;"
    )
    assert said in " ".join(updated.out.split())


def _mine(devnet: Devnet) -> None:
    """What is in blocks becomes final."""
    for chain in devnet.deployment.chains:
        rpc(chain.rpc_urls[0], "anvil_mine", "0x4")


async def _sent(client: Client, devnet: Devnet, gmp: Gmp) -> Sent:
    request = RouteRequest(
        destination="beta",
        recipient=devnet.deployment.chain("beta").examples["inbox"],
        payload=gmp.label.encode(),
        gmps=(gmp,),
    )
    return await client.route("alpha", request)


async def _until_executed(client: Client, sent: Sent) -> None:
    async with asyncio.timeout(60):
        while not (await client.progress(sent.message)).executed:
            await asyncio.sleep(0.2)
