"""An operator that is a contract: its signature is what the contract says it is (ERC-1271), asked of a real Safe."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.client import Client
from bridge.dead_letters.parameters import operator_parameter
from bridge.dead_letters.signing import KeySealer
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call
from bridge.records.dead_letters import Draft, RecordKind
from bridge.store import open_dead_letters
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process, until
from tests.anvil.rpc import rpc
from tests.anvil.safes import safe_on, safe_signature
from tests.anvil.test_dead_letters import FAILED, FEW_TRIES, REVERTS, broken_axelar
from tests.anvil.test_relayer import Traffic, blocks
from tests.anvil.traffic import RELAYER, transact
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

OWNER = account(DEPLOYER_KEY)
USAGE = 2


async def test_safe_decides_and_its_signature_is_checked_again(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    home = new_home(devnet, tmp_path)
    waybill, traffic, client = Waybill(home), Traffic(devnet, chains), Client(devnet.deployment, chains)
    alpha = devnet.deployment.chain("alpha")
    chain, draft, why = chains[alpha.chain_id], tmp_path / "decision.json", ("--rationale", "the gateway is back")

    async def dlq(*arguments: str, code: int = 0) -> str:
        ended = await asyncio.to_thread(waybill, "dlq", *arguments)
        assert ended.code == code, ended.err + ended.out
        return ended.out + ended.err

    async def signed_by(owners: int) -> str:
        document = json.loads(await asyncio.to_thread(draft.read_text))
        return "0x" + (await safe_signature(chain, safe, bytes.fromhex(document["digest"][2:]), owners)).hex()

    async with blocks(devnet):
        safe = await safe_on(chain)
        with process(home, home / "relayer.log", **FEW_TRIES) as relayer:
            with broken_axelar(devnet):
                sent = [await traffic.send(Gmp.AXELAR) for _ in range(3)]
                await until(lambda: relayer.log.count("delivery dead") == 3, "three dead letters")
            first, second, third = (f"0x{message.id.hex()}/axelar/0" for message in sent)
            assert "is not an operator on chain" in await dlq(
                "decide", first, "requeue", *why, "--maker", safe, code=FAILED
            )
            await _make_operator(devnet, chain, safe)
            await dlq("decide", first, "requeue", *why, "--maker", safe, "--draft", str(draft))
            assert "rejects the signature, too" in await dlq(
                "decide", first, "requeue", "--draft", str(draft), "--signature", await signed_by(1), code=FAILED
            )
            assert "even number of hex digits" in await dlq(
                "decide", first, "requeue", "--draft", str(draft), "--signature", "0x1", code=USAGE
            )
            signature = await signed_by(2)
            await asyncio.to_thread(_change, draft, tmp_path / "changed.json")
            await dlq(
                "decide",
                first,
                "requeue",
                "--draft",
                str(tmp_path / "changed.json"),
                "--signature",
                signature,
                code=FAILED,
            )
            await dlq("decide", first, "requeue", "--draft", str(draft), "--signature", signature)
            assert (await client.wait(sent[0], timeout=PATIENCE)).executed, relayer.log

            assert f'"decisionAccount": "{OWNER.address}"' in await dlq(
                "decide", second, "abandon", *why, "--maker", "GOVERNANCE"
            )
            await _hand_over(devnet, chain, safe)
            await dlq("decide", second, "abandon", *why, "--maker", "GOVERNANCE", "--draft", str(draft))
            await dlq("decide", second, "abandon", "--draft", str(draft), "--signature", await signed_by(2))
            await until(lambda: "dead letter recovered" in relayer.log, "the requeued one is closed")
            assert relayer.terminate() == 0

    records = [json.loads(line) for line in (await dlq("export")).splitlines() if line.startswith("{")]
    decisions = {one["eventId"]: one for one in records if one["kind"] == "DECIDED"}
    assert [decisions[one]["document"]["decisionMaker"] for one in (first, second)] == [safe, "GOVERNANCE"]
    assert {one["document"]["decisionAccount"] for one in decisions.values()} == {safe}
    assert {one["signer"] for one in decisions.values()} == {RELAYER.address}, "a contract seals nothing"
    confirmed = decisions[first]["document"]["confirmedAt"]
    block = await chain.block(confirmed["block"])
    assert block is not None
    assert confirmed["blockHash"] == f"0x{block.hash.hex()}"
    assert "GOVERNANCE" in await dlq("show", second)

    rpc(alpha.rpc_urls[0], "evm_mine")
    rpc(alpha.rpc_urls[0], "anvil_setCode", safe, REVERTS)
    assert f"{len(records)} records verified" in await dlq("verify"), "what a Safe becomes later changes no decision"
    document = decisions[second]["document"] | {"dlqEntryId": third}
    with closing(open_dead_letters(f"sqlite:///{home}/.waybill/devnet/bridge.db")) as log:
        forged = Draft(key="forged", kind=RecordKind.DECIDED, event_id=third, at=1.0, document=document)
        log.append(forged, KeySealer(RELAYER))
    assert "as that contract says at the block it names" in await dlq("verify", code=FAILED)


def _change(draft: Path, to: Path) -> None:
    to.write_text(draft.read_text().replace("gateway is back", "gateway is gone"))


async def _make_operator(devnet: Devnet, chain: EvmChain, safe: str) -> None:
    parameters = devnet.deployment.chain("alpha").parameters
    assert parameters is not None
    arguments = encode(["uint64", "bytes32[]", "uint256[]"], [2, [operator_parameter(safe)], [1]])
    data = keccak(text="set(uint64,bytes32[],uint256[])")[:4] + arguments
    assert (await transact(chain, OWNER, Call(to=parameters, data=data))).succeeded


async def _hand_over(devnet: Devnet, chain: EvmChain, safe: str) -> None:
    """Gives the Safe the contract that names operators."""
    alpha = devnet.deployment.chain("alpha")
    assert alpha.parameters is not None
    offer = keccak(text="transferOwnership(address)")[:4] + encode(["address"], [safe])
    assert (await transact(chain, OWNER, Call(to=alpha.parameters, data=offer))).succeeded
    url, accept = alpha.rpc_urls[0], f"0x{keccak(text='acceptOwnership()')[:4].hex()}"
    rpc(url, "anvil_setBalance", safe, hex(10**18))
    rpc(url, "anvil_impersonateAccount", safe)
    rpc(url, "eth_sendTransaction", {"from": safe, "to": alpha.parameters, "data": accept})
    rpc(url, "anvil_stopImpersonatingAccount", safe)
    owner = keccak(text="owner()")[:4]
    async with asyncio.timeout(PATIENCE):
        while (await chain.call(Call(to=alpha.parameters, data=owner)))[12:].hex() != safe[2:].lower():
            await asyncio.sleep(0.1)  # chains tell nobody
