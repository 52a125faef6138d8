"""A network whose owner is a Safe: its batches go through the Safe's real contracts, and then everything is as planned."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from eth_abi.packed import encode_packed

from bridge.deploy import deploy as deployment
from bridge.deploy.safe import MULTI_SEND_CALL_ONLY, checksum
from bridge.deploy.transactions import DeployError
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DEPLOYER_KEY, account
from bridge.devnet.artifacts import Artifact as GmpArtifact
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, read_view
from tests.anvil.command import new_home
from tests.anvil.rpc import rpc
from tests.anvil.safes import NOBODY, OWNERS, SAFE, create2, safe_on, send
from tests.anvil.test_deploying import OWNER_KEY, plan, read, transactions_sent
from tests.anvil.traffic import transact
from tests.unit.cli.command import Command

pytestmark = pytest.mark.long

MULTI_SEND = GmpArtifact.load("safe", "MultiSendCallOnly")
# The Safe team's own factory of contracts, which put MultiSendCallOnly at one address on all chains.
SINGLETON_FACTORY = "0x914d7Fec6aaC8cd542e72Bca78B30650d45643d7"


def put_multi_send(url: str) -> None:
    """MultiSendCallOnly where it is on public chains."""
    address = MULTI_SEND_CALL_ONLY["1.4.1"]
    code = rpc(url, "eth_call", {"data": f"0x{MULTI_SEND.bytecode.hex()}"}, "latest")
    rpc(url, "anvil_setCode", address, code)


async def execute(chain: EvmChain, safe: str, text: str, shown: dict[str, Any]) -> None:
    """Does with a file what the Safe's app and two owners do."""
    document = json.loads(text)
    given = document["meta"].pop("checksum")
    assert given == checksum(document)
    assert document["chainId"] == str(chain.chain_id)
    calls = [(one["to"], bytes.fromhex(one["data"][2:])) for one in document["transactions"]]
    to, data, operation = calls[0][0], calls[0][1], 0
    if len(calls) > 1:
        types = ["uint8", "address", "uint256", "uint256", "bytes"]
        packed = b"".join(encode_packed(types, [0, at, 0, len(payload), payload]) for at, payload in calls)
        to, data, operation = MULTI_SEND_CALL_ONLY["1.4.1"], MULTI_SEND.contract.encode("multiSend", packed), 1
    fields = (to, 0, data, operation, 0, 0, 0, NOBODY, NOBODY)
    nonce = SAFE.contract.decode("nonce", await chain.call(Call(to=safe, data=SAFE.contract.encode("nonce"))))
    asked = SAFE.contract.encode("getTransactionHash", *fields, nonce)
    signed: bytes = await chain.call(Call(to=safe, data=asked))
    assert (shown["safeTxHash"], shown["nonce"]) == (f"0x{signed.hex()}", nonce), (
        "what owners compare is what they sign"
    )
    domain = await chain.call(Call(to=safe, data=SAFE.contract.encode("domainSeparator")))
    assert shown["domainHash"] == f"0x{domain.hex()}"
    both = sorted(OWNERS[:2], key=lambda owner: int(owner.address, 16))
    signatures = b"".join(owner.unsafe_sign_hash(signed).signature for owner in both)
    await send(chain, safe, SAFE.contract.encode("execTransaction", *fields, signatures))


async def test_safe_batches_deploy_everything(
    devnet: Devnet,
    chains: dict[int, EvmChain],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for one in devnet.chains:
        put_multi_send(one.url)
    (safe,) = {await safe_on(chain) for chain in chains.values()}
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.delenv("WAYBILL_KEY", raising=False)
    (tmp_path / "networks").mkdir()
    planned = plan(devnet).model_copy(update={"owner": safe})
    (tmp_path / "networks" / "second.json").write_text(planned.to_json())
    waybill = Command(monkeypatch, capsys)
    words = ("deploy", "--network", "second", "--safe", safe, "--json")

    first = await asyncio.to_thread(waybill, *words)
    assert first.code == 0, first.err
    batches = json.loads(first.out)
    assert all(batch["gas"] < 2**24 for batch in batches)
    assert len(batches) > len(chains), "all of it is too much for one transaction"
    assert not (tmp_path / "deployments" / "second.json").exists(), "nothing is deployed yet"
    by_name = {chain.name: chains[chain.chain_id] for chain in devnet.deployment.chains}
    for batch in batches:
        text = await asyncio.to_thread(Path(batch["file"]).read_text)
        await execute(by_name[batch["chain"]], safe, text, batch)

    ended = await asyncio.to_thread(waybill, *words)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["chains"] == {"alpha": [], "beta": []}
    document = json.loads((tmp_path / "deployments" / "second.json").read_text())
    for place, written in enumerate(document["chains"]):
        assert read(devnet, place, written["router"], ROUTER, "owner") == safe.lower()
        other = document["chains"][1 - place]
        assert read(devnet, place, written["router"], ROUTER, "floorOf", other["chainId"]) == 2
        before = rpc(devnet.chains[place].url, "eth_getCode", written["router"], hex(written["startBlock"]))
        assert before == "0x", "the block from which it is read is older than the router"
    again = await asyncio.to_thread(waybill, *words)
    assert json.loads(again.out)["changed"] is False

    # Nothing is missing any more, and who is no Safe, or not the owner, is refused all the same.
    no_safe = account(ANVIL_KEYS[8]).address
    (other,) = {await safe_on(chain, 8) for chain in chains.values()}
    for wrong in (no_safe, other):
        said = f"the account is {wrong}, but the plan's owner is {safe}"
        for dry_run in ((), ("--dry-run",)):
            words = ("deploy", "--network", "second", "--safe", wrong, "--json", *dry_run)
            refused = await asyncio.to_thread(waybill, *words)
            assert (refused.code, said in refused.error["message"]) == (1, True), refused.err


async def test_a_safe_that_is_guardian_pauses_a_gmp_and_ends_the_pause(
    devnet: Devnet,
    chains: dict[int, EvmChain],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (safe,) = {await safe_on(chain) for chain in chains.values()}
    monkeypatch.setenv("WAYBILL_HOME", str(new_home(devnet, tmp_path)))
    waybill = Command(monkeypatch, capsys)
    by_name = {chain.name: chain for chain in devnet.deployment.chains}

    owner = account(DEPLOYER_KEY).address  # may pause, and is no Safe
    no_safe = await asyncio.to_thread(waybill, "gmp", "pause", "axelar", "--chains", "beta", "--safe", owner)
    assert (no_safe.code, f"chain 'beta' has no contract at {owner}" in no_safe.err) == (1, True), no_safe.err
    refused = await asyncio.to_thread(waybill, "gmp", "pause", "axelar", "--chains", "beta", "--safe", safe)
    assert refused.code == 1
    assert "chain 'beta': 'pause axelar'" in refused.err
    assert "NotGuardian" in refused.err
    assert "waybill role show" in refused.err
    for chain in by_name.values():
        call = Call(to=chain.router, data=ROUTER.encode("setGuardian", safe))
        assert (await transact(chains[chain.chain_id], account(DEPLOYER_KEY), call)).succeeded

    for words, is_paused in (("pause", "axelar", "--for", "5"), True), (("resume", "axelar"), False):
        shown = await asyncio.to_thread(waybill, "gmp", *words, "--safe", safe, "--json")
        assert shown.code == 0, shown.err
        batches = json.loads(shown.out)
        assert [batch["chain"] for batch in batches] == ["alpha", "beta"]
        for batch in batches:
            here = by_name[batch["chain"]]
            text = await asyncio.to_thread(Path(batch["file"]).read_text)
            await execute(chains[here.chain_id], safe, text, batch)
            until = await read_view(chains[here.chain_id], ROUTER, here.router, "gmpPausedUntil", int(Gmp.AXELAR))
            assert (until > (await chains[here.chain_id].head()).timestamp) is is_paused


async def test_who_is_no_safe_or_not_the_owner_is_refused(devnet: Devnet, tmp_path: Path) -> None:
    owner, other = account(OWNER_KEY).address, account(ANVIL_KEYS[8]).address
    with pytest.raises(DeployError, match=f"the account is {other}, but the plan's owner is {owner}"):
        await deployment.deploy_by_safe(plan(devnet), other, tmp_path / "second.json")
    planned = plan(devnet).model_copy(update={"owner": other})
    with pytest.raises(DeployError, match=f"'alpha' has no contract at {other}"):
        await deployment.deploy_by_safe(planned, other, tmp_path / "second.json")
    with pytest.raises(DeployError, match=f"'alpha' has no contract at {other}"):
        await deployment.preview(planned, tmp_path / "second.json", safe=other)
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


def test_multi_send_is_where_the_safe_team_put_it() -> None:
    assert create2(SINGLETON_FACTORY, bytes(32), MULTI_SEND.bytecode) == MULTI_SEND_CALL_ONLY["1.4.1"]


def test_the_checksum_is_the_one_that_the_app_computes() -> None:
    """A file that the app wrote, version 1.18.2."""
    kinds = {"spender": "address", "value": "uint256"}
    document = {
        "version": "1.0",
        "chainId": "1",
        "createdAt": 1761326849944,
        "meta": {
            "name": "Transactions Batch",
            "description": "",
            "txBuilderVersion": "1.18.2",
            "createdFromSafeAddress": "0xA77DE01e157f9f57C7c4A326eeE9C4874D0598b6",
            "createdFromOwnerAddress": "",
        },
        "transactions": [
            {
                "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
                "value": "0",
                "data": None,
                "contractMethod": {
                    "inputs": [{"internalType": kind, "name": name, "type": kind} for name, kind in kinds.items()],
                    "name": "approve",
                    "payable": False,
                },
                "contractInputsValues": {
                    "spender": "0x474e5Ded6b5D078163BFB8F6dBa355C3aA5478C8",
                    "value": "100000000000",
                },
            }
        ],
    }
    assert checksum(document) == "0x8b5032f716845c8b08bab3d63dbd9ba92e056f3557793cd041e59b84e16aa989"


def test_safe_dry_run_needs_no_key_and_matches_the_deployment(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.delenv("WAYBILL_KEY", raising=False)
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "second.json").write_text(plan(devnet).to_json())
    waybill = Command(monkeypatch, capsys)
    before = transactions_sent(devnet)
    shown = waybill("deploy", "--network", "second", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert transactions_sent(devnet) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["networks"], "nothing is written"
    said = json.loads(shown.out)
    owner = account(OWNER_KEY).address
    funds = [int(rpc(chain.url, "eth_getBalance", owner, "latest"), 16) for chain in devnet.chains]
    monkeypatch.setenv("WAYBILL_KEY", OWNER_KEY)
    done = json.loads(waybill("deploy", "--network", "second", "--json").out)
    for place, chain in enumerate(devnet.chains):
        sent = said[chain.name]["transactions"]
        assert int(said[chain.name]["wei"]) == said[chain.name]["gas"] * said[chain.name]["weiPerGas"]
        names = [one["name"] for one in sent]
        assert names == done["chains"][chain.name]
        used = funds[place] - int(rpc(chain.url, "eth_getBalance", owner, "latest"), 16)
        assert used > 0
        spent = [int(rpc(chain.url, "eth_getTransactionCount", owner, "latest"), 16)]
        assert spent[0] >= len(names)
        gas = _gas_of(chain.url, owner, int(before[place], 16) + 1)
        assert gas == pytest.approx(said[chain.name]["gas"], rel=0.02)


def _gas_of(url: str, sender: str, first: int) -> int:
    last, total = int(rpc(url, "eth_blockNumber"), 16), 0
    for number in range(first, last + 1):
        for one in rpc(url, "eth_getBlockByNumber", hex(number), True)["transactions"]:
            if one["from"] == sender.lower():
                total += int(rpc(url, "eth_getTransactionReceipt", one["hash"])["gasUsed"], 16)
    return total
