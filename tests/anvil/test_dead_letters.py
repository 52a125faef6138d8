"""Dead letters from end to end: a GMP fails on a real chain, the relayer buries, an operator with a role on chain decides."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from eth_abi.abi import decode

from bridge.client import Client, RouteRequest
from bridge.dead_letters.signing import decision_signer
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.gmps.axelar.adapter import AxelarContracts
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.events import MessageRouted, decode_event, topic_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message, decode_envelope
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process, until
from tests.anvil.rpc import rpc
from tests.anvil.test_relayer import Traffic, blocks
from tests.anvil.traffic import DAPP, RELAYER
from tests.unit.dead_letters.servers import webhook_server
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

FAILED, UNKNOWN_ID = 1, 3
OPERATOR = account(DEPLOYER_KEY)
STRANGER_KEY = ANVIL_KEYS[5]
REVERTS = "0x60006000fd"
DELEGATES_TO = "0xef0100"
FEW_TRIES = {"WAYBILL_POLICIES": '{"plain": {"max_retries": 1, "base": 0.1, "cap": 0.2}}'}


@pytest.fixture
def waybill(devnet: Devnet, tmp_path: Path) -> Waybill:
    return Waybill(new_home(devnet, tmp_path))


@contextmanager
def broken_axelar(devnet: Devnet, chain: str = "beta") -> Iterator[None]:
    """While this holds, Axelar's gateway on a chain refuses everything."""
    deployed = devnet.deployment.chain(chain)
    url, gateway = deployed.rpc_urls[0], AxelarContracts.of(deployed).gateway
    code = rpc(url, "eth_getCode", gateway, "latest")
    rpc(url, "anvil_setCode", gateway, REVERTS)
    yield
    rpc(url, "anvil_setCode", gateway, code)


async def routed(devnet: Devnet, chains: dict[int, EvmChain]) -> list[Message]:
    """All messages of the network."""
    found = []
    for deployed in devnet.deployment.chains:
        chain = chains[deployed.chain_id]
        for log in await chain.logs(0, (await chain.head()).number, [deployed.router], [topic_of("MessageRouted")]):
            event = decode_event(log.topics, log.data)
            assert isinstance(event, MessageRouted)
            found.append(decode_envelope(event.envelope).message)
    return found


async def test_dead_letter_is_reported_and_decided_by_an_operator(
    devnet: Devnet, chains: dict[int, EvmChain], waybill: Waybill, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic, client, home = Traffic(devnet, chains), Client(devnet.deployment, chains), waybill.home
    started = datetime.now(UTC)

    async def command(*arguments: str, code: int = 0) -> str:
        ended = await asyncio.to_thread(waybill, "dlq", *arguments)
        assert ended.code == code, ended.err + ended.out
        return ended.out + ended.err

    with webhook_server() as hook:
        alerts = {"WAYBILL_DLQ": json.dumps({"alerts": {"webhook": hook.url}})}
        (home / "waybill.toml").write_text('[accounts.stranger]\nenvironment = "STRANGER_KEY"\n')
        monkeypatch.setenv("STRANGER_KEY", STRANGER_KEY)
        async with blocks(devnet):
            with process(home, home / "relayer.log", **FEW_TRIES, **alerts) as relayer:
                with broken_axelar(devnet):
                    sent = [await traffic.send(Gmp.AXELAR) for _ in range(4)]
                    await until(lambda: len(hook.posted) == 4, "four alerts")
                ids = [f"0x{message.id.hex()}/axelar/0" for message in sent]
                assert {one["details"]["eventId"] for one in hook.posted} == set(ids)
                await _nobody_else_decides(command, ids, f"0x{sent[0].id.hex()}")

                first, second, third, fourth = ids
                await command(
                    "decide", third, "retry", "--rationale", "a new message, over another GMP", "--gmps", "wormhole"
                )
                _becomes_a_smart_account(devnet)
                await command("decide", first, "abandon", "--rationale", "the recipient is retired")
                assert "ABANDONED" in await command("decide", first, "requeue", "--rationale", "no, wait", code=FAILED)
                await command("decide", second, "escalate", "--rationale", "every message over axelar dies")
                await command("decide", fourth, "requeue", "--rationale", "the gateway is back")

                replacement, notice, proposal = await _consequences(devnet, chains, sent)
                shown = await asyncio.to_thread(waybill.json, "message", "show", f"0x{replacement.id.hex()}")
                assert shown["message"]["replaces"] == f"0x{sent[2].id.hex()}"
                abandoned = await asyncio.to_thread(waybill, "message", "show", f"0x{sent[0].id.hex()}")
                assert "an operator has decided" in abandoned.out
                for message in (replacement, notice, proposal, sent[3]):
                    assert (await client.wait(message, timeout=PATIENCE)).executed, relayer.log
                assert not (await client.progress(sent[0])).executed, "abandoned is abandoned"
                await until(lambda: "dead letter recovered" in relayer.log, "the requeued one is closed")
                assert relayer.terminate() == 0
    assert "9 records verified" in await command("verify")
    records = [json.loads(line) for line in (await command("export")).splitlines()]
    decisions = {one["eventId"]: one["document"] for one in records if one["kind"] == "DECIDED"}
    assert {decision["decisionMaker"] for decision in decisions.values()} == {OPERATOR.address}
    assert [decisions[event_id]["dlqEntryId"] for event_id in ids] == ids
    assert [decisions[event_id]["rationale"] for event_id in ids] == [
        "the recipient is retired", "every message over axelar dies", "a new message, over another GMP",
        "the gateway is back",
    ]  # fmt: skip
    assert {decision_signer(decision) for decision in decisions.values()} == {OPERATOR.address}
    for decision in decisions.values():
        assert started <= datetime.fromisoformat(decision["decisionAt"]) <= datetime.now(UTC)
    assert [decisions[event_id]["decisionType"] for event_id in ids] == [
        "ABANDON", "GOVERNANCE_ESCALATION", "RETRY", "REQUEUE",
    ]  # fmt: skip
    assert decisions[third]["newMessageId"] == f"0x{replacement.id.hex()}"
    statuses = {one["id"]: one["status"] for one in json.loads(await command("list", "--json"))}
    assert [statuses[event_id] for event_id in ids] == ["ABANDONED", "PENDING_REVIEW", "RETRY_QUEUED", "RECOVERED"]


async def test_governance_hears_of_failed_votes_and_a_changed_log(
    devnet: Devnet, chains: dict[int, EvmChain], waybill: Waybill
) -> None:
    client, home = Client(devnet.deployment, chains, DAPP), waybill.home
    request = RouteRequest(
        destination="beta",
        recipient=devnet.deployment.chain("beta").examples["inbox"],
        payload=b"what was voted for",
        gmps=(Gmp.AXELAR,),
        kind=Kind.GOVERNANCE_EXECUTE,
    )
    tries = {"WAYBILL_POLICIES": '{"governance_execute": {"max_retries": 1, "base": 0.1, "cap": 0.2}}'}

    async def told(count: int) -> list[Message]:
        async with asyncio.timeout(PATIENCE):
            while len(found := await _to_governance(devnet, chains)) < count:  # chains tell nobody
                await asyncio.sleep(0.2)
        return found

    async with blocks(devnet):
        with process(home, home / "relayer.log", **tries) as relayer:
            with broken_axelar(devnet):
                failed = (await client.route("alpha", request)).message
                (vote,) = await told(1)
            about, _, event_id, why = decode(["bytes32", "bytes32", "string", "string"], vote.payload)
            assert (about, event_id) == (failed.id, f"0x{failed.id.hex()}/axelar/0")
            assert "a new vote is needed" in why
            relayer.kill()
        with process(home, home / "relayer.log", **tries) as relayer:
            with sqlite3.connect(home / ".waybill" / "devnet" / "bridge.db", timeout=30) as store:
                store.execute("update dead_letter_log set signer = ?", (DAPP.address,))
            _, alarm = await told(2)
            nothing, _, _, what = decode(["bytes32", "bytes32", "string", "string"], alarm.payload)
            assert nothing == bytes(32)
            assert "the log of dead letters was changed" in what
            for message in (vote, alarm):
                assert (await client.wait(message, timeout=PATIENCE)).executed, relayer.log
            assert len(await _to_governance(devnet, chains)) == 2, "each is told once, whatever is killed"


async def _to_governance(devnet: Devnet, chains: dict[int, EvmChain]) -> list[Message]:
    """What the relayer itself has told governance."""
    found = [one for one in await routed(devnet, chains) if one.kind is Kind.GOVERNANCE_PROPOSAL]
    assert {from_bytes32(one.sender) for one in found} <= {RELAYER.address}
    return found


async def _nobody_else_decides(command: object, ids: list[str], message_id: str) -> None:
    assert callable(command)
    why = ("--rationale", "because")
    shown = await command("show", message_id)
    for question in ("permanent or transient", "systemic or isolated", "would retry succeed", "governance warranted"):
        assert question in shown
    assert "is not an operator on chain" in await command(
        "decide", ids[0], "abandon", *why, "--key", STRANGER_KEY, code=FAILED
    )
    assert "needs a rationale" in await command("decide", ids[0], "abandon", "--rationale", " ", code=FAILED)
    assert "no dead letter" in await command("show", "0x" + "00" * 32, code=UNKNOWN_ID)
    assert "may re-issue the message" in await command(
        "decide", ids[2], "retry", *why, "--sender", "stranger", code=FAILED
    )
    assert "4 records verified" in await command("verify")


def _becomes_a_smart_account(devnet: Devnet) -> None:
    """The dApp's account delegates to code that takes messages, as EIP-7702 lets it: from now on it can be told something."""
    alpha = devnet.deployment.chain("alpha")
    code = DELEGATES_TO + alpha.examples["inbox"].removeprefix("0x")
    rpc(alpha.rpc_urls[0], "anvil_setCode", DAPP.address, code)


async def _consequences(
    devnet: Devnet, chains: dict[int, EvmChain], sent: list[Message]
) -> tuple[Message, Message, Message]:
    """What decisions about the messages have put on the chains: the new message, the sender's notice, the proposal."""
    messages = await routed(devnet, chains)
    (replacement,) = [one for one in messages if one.replaces == sent[2].id]
    assert (replacement.payload, replacement.sender) == (sent[2].payload, sent[2].sender)
    assert replacement.id != sent[2].id
    (notice,) = [one for one in messages if one.kind is Kind.ACK]
    assert (notice.recipient, notice.destination_chain) == (sent[0].sender, sent[0].source_chain)
    what, about, _, why = decode(["string", "bytes32", "bytes32", "string"], notice.payload)
    assert (what, about, why) == ("ABANDONED", sent[0].id, "the recipient is retired")
    (proposal,) = [one for one in messages if one.kind is Kind.GOVERNANCE_PROPOSAL]
    assert sent[1].id in proposal.payload
    return replacement, notice, proposal
