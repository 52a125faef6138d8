"""Roles, owners and a relayer's key change while messages are in flight."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from bridge.deploy.plan import NetworkPlan
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DAPP_KEY, DEPLOYER_KEY, account, signer
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER, contract
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import read_view
from tests.anvil.command import new_home
from tests.anvil.relayers import until
from tests.anvil.safes import safe_on
from tests.anvil.test_deploying import plan
from tests.anvil.test_relayer import Traffic, blocks, relaying
from tests.anvil.test_safe import execute, put_multi_send
from tests.anvil.traffic import DAPP, RELAYER
from tests.builders import ALPHA
from tests.unit.cli.command import Command, Ended
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.long, pytest.mark.timeout(8 * PATIENCE)]
OWNER = account(DEPLOYER_KEY)
HEIR_KEY = ANVIL_KEYS[8]
HEIR = account(HEIR_KEY)
ROLES = ("guardian", "revoker", "tripwire")


Waybill = Callable[..., Awaitable[Ended]]


@pytest.fixture
def waybill(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Waybill:
    """The command, in a folder with the devnet's deployments file and its network file."""
    home = new_home(devnet, tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(home))
    monkeypatch.delenv("WAYBILL_KEY", raising=False)
    command = Command(monkeypatch, capsys)
    write_plan(home, own_plan(devnet))

    async def run(*words: str) -> Ended:
        return await asyncio.to_thread(command, *words)

    return run


def own_plan(devnet: Devnet) -> NetworkPlan:
    """The plan of the devnet's own routers."""
    return plan(devnet, OWNER).model_copy(update={"network": "devnet", "floor": 1})


def write_plan(home: Path, planned: NetworkPlan) -> None:
    (home / "networks").mkdir(exist_ok=True)
    (home / "networks" / "devnet.json").write_text(planned.to_json())


async def done(waybill: Waybill, *words: str) -> Any:
    ended = await waybill(*words, "--json")
    assert ended.code == 0, ended.err
    return value_of(ended)


def value_of(ended: Ended) -> Any:
    """The document in what was printed, among lines of a relayer that works in this process."""
    begin = re.search(r"^[\[{]", ended.out, re.MULTILINE)
    assert begin is not None
    return json.JSONDecoder().raw_decode(ended.out, begin.start())[0]


async def of_router(chains: dict[int, EvmChain], deployed: ChainDeployment, function: str, *arguments: object) -> str:
    return str(await read_view(chains[deployed.chain_id], ROUTER, deployed.router, function, *arguments))


async def test_roles_are_shown_and_named_by_the_owner_alone(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, waybill: Waybill
) -> None:
    before = (await done(waybill, "role", "show"))["chains"]
    assert [one["chain"] for one in before] == ["alpha", "beta"]
    assert before[0]["roles"]["owner"] == before[0]["roles"]["owner of parameters"] == OWNER.address
    assert before[0]["roles"]["guardian"] is None

    keystore, password = tmp_path / "owner.json", tmp_path / "owner.password"
    keystore.write_text(json.dumps(Account.encrypt(OWNER.key, "secret", kdf="pbkdf2", iterations=2)))
    password.write_text("secret\n")
    (tmp_path / "waybill.toml").write_text(f'[accounts.owner]\nkeystore = "{keystore}"\npassword_file = "{password}"\n')
    by_owner = ("--signer", "owner")
    for role in ROLES:
        refused = await waybill("role", "set", role, HEIR.address, "--key", HEIR_KEY, "--json")
        assert refused.code == 1
        for row in value_of(refused)["chains"]:
            assert row["error"].startswith(
                f"only the owner {OWNER.address} may do that, but {HEIR.address} signed. Sign as"
            )
        assert "failed on alpha, beta" in refused.err
        (row,) = (await done(waybill, "role", "set", role, HEIR.address, "--chains", "beta", *by_owner))["chains"]
        assert row["roles"][role] == HEIR.address
        alpha, beta = devnet.deployment.chains
        assert await of_router(chains, beta, role) == HEIR.address.lower()
        assert await of_router(chains, alpha, role) != HEIR.address.lower(), "only where it was asked for"
    await done(waybill, "role", "set", "guardian", "nobody", "--chains", "beta", *by_owner)
    assert int(await of_router(chains, beta, "guardian"), 16) == 0
    again = await done(waybill, "role", "set", "guardian", "nobody", *by_owner)
    assert [row["transactions"] for row in again["chains"]] == [{}, {}], "what is so already costs nothing"

    await done(waybill, "role", "set", "retrier", HEIR.address, "--chains", "alpha", "--key", DAPP_KEY)
    poor = signer("poor", 0)
    words = ("retrier", HEIR.address, "--chains", "alpha", "--key", f"0x{bytes(poor.key).hex()}", "--json")
    (row,) = value_of(await waybill("role", "set", *words))["chains"]
    assert row["error"].startswith(f"account {poor.address} has 0 wei on chain {devnet.deployment.chains[0].chain_id}")
    shown = (await done(waybill, "role", "show", "--senders", DAPP.address))["chains"]
    assert [one["retriers"][DAPP.address] for one in shown] == [HEIR.address, RELAYER.address]


async def test_new_owner_takes_over_in_two_steps(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, waybill: Waybill
) -> None:
    alpha = devnet.deployment.chains[0]
    not_offered = await waybill("role", "accept", "--key", HEIR_KEY)
    assert not_offered.code == 1
    assert f"offered to nobody, not to {HEIR.address}" in not_offered.out
    offered = await done(waybill, "role", "transfer", HEIR.address)
    assert [list(row["transactions"]) for row in offered["chains"]] == [["router offered", "parameters offered"]] * 2
    shown = (await done(waybill, "role", "show"))["chains"][0]["roles"]
    assert (shown["owner"], shown["pending owner"]) == (OWNER.address, HEIR.address)
    not_the_heir = await waybill("role", "accept", "--key", DEPLOYER_KEY)
    assert f"offered to {HEIR.address}, not to {OWNER.address}" in not_the_heir.out
    # The offer can be taken back.
    taken_back = (await done(waybill, "role", "transfer", "nobody"))["chains"][0]["transactions"]
    assert list(taken_back) == ["router no longer offered", "parameters no longer offered"]
    assert (await waybill("role", "accept", "--key", HEIR_KEY)).code == 1
    await done(waybill, "role", "transfer", HEIR.address)
    accepted = await waybill("role", "accept", "--key", HEIR_KEY)
    assert accepted.code == 0
    assert [await of_router(chains, one, "owner") for one in devnet.deployment.chains] == [HEIR.address.lower()] * 2
    parameters = contract("owner() returns (address)")
    assert alpha.parameters is not None
    owner = await read_view(chains[ALPHA], parameters, alpha.parameters, "owner")
    assert owner == HEIR.address.lower()

    write_plan(tmp_path, own_plan(devnet).model_copy(update={"floor": 2}))
    refused = await waybill("deploy", "--network", "devnet")
    assert refused.code == 1
    assert f"was transferred to {HEIR.address}" in refused.err
    assert "0xsecret" not in (await waybill("deploy", "--network", "devnet", "--key", "0xsecret")).err
    deployed = await done(waybill, "deploy", "--network", "devnet", "--key", HEIR_KEY)
    assert deployed["chains"] == {"alpha": ["floor to beta"], "beta": ["floor to alpha"]}


async def test_safe_takes_over_and_deploys(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, waybill: Waybill
) -> None:
    for one in devnet.chains:
        put_multi_send(one.url)
    (safe,) = {await safe_on(chain) for chain in chains.values()}
    by_name = {chain.name: chains[chain.chain_id] for chain in devnet.deployment.chains}

    async def execute_all(batches: list[dict[str, Any]]) -> list[list[str]]:
        for batch in batches:
            text = await asyncio.to_thread(Path(batch["file"]).read_text)
            await execute(by_name[batch["chain"]], safe, text, batch)
        return [batch["transactions"] for batch in batches]

    await done(waybill, "role", "transfer", safe)
    accepted = await execute_all(await done(waybill, "role", "accept", "--safe", safe))
    assert accepted == [["router accepted", "parameters accepted"]] * 2
    assert [await of_router(chains, one, "owner") for one in devnet.deployment.chains] == [safe.lower()] * 2

    write_plan(tmp_path, own_plan(devnet).model_copy(update={"floor": 2}))
    words = ("deploy", "--network", "devnet", "--safe", safe)
    raised = await execute_all(await done(waybill, *words))
    assert raised == [["floor to beta"], ["floor to alpha"]]
    assert (await done(waybill, *words))["chains"] == {"alpha": [], "beta": []}


async def test_a_relayers_key_is_exchanged_while_it_delivers(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic, heir = Traffic(devnet, chains), {"environment": "NEXT_KEY"}
    monkeypatch.setenv("NEXT_KEY", HEIR_KEY)

    async def delivered_by(**changes: object) -> set[str]:
        async with blocks(devnet), relaying(devnet, tmp_path, **changes) as relayer:
            sent = [await traffic.send(Gmp.HYPERLANE, Gmp.WORMHOLE) for _ in range(3)]
            await traffic.all_received()
            ledger = relayer.store.outbox
            await until(lambda: all(one.confirmed_at for one in ledger.listed()), "every delivery is final")
            keys = [one.event_id for message in sent for one in ledger.entries(message.id)]
            return {slot.account for key in keys for slot in relayer.store.transactions.slots_for(key)}

    assert await delivered_by() == {RELAYER.address}
    assert await delivered_by(signers=["heir"], accounts={"heir": heir}) == {RELAYER.address, HEIR.address}, (
        "both share the work"
    )
    assert await delivered_by(relayer_key=None, signers=["heir"], accounts={"heir": heir}) == {HEIR.address}
