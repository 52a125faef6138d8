"""`waybill message prove` and `verify-proof`: a message's events against the block hashes that real nodes name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import rlp

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import EventRecord
from bridge.protocol.message import Message
from bridge.queries.proofs import prove_message
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import PATIENCE
from tests.anvil.rpc import rpc
from tests.anvil.test_relayer import Traffic, blocks, relaying

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * PATIENCE)]


def options_for(devnet: Devnet, proof: Path) -> list[str]:
    """`--block` for each block of the chains' own that the proof rests on: its hash as the node says it."""
    options = []
    for one in json.loads(proof.read_text())["events"]:
        url = next(chain.url for chain in devnet.chains if chain.chain_id == one["chainId"])
        number = block_number(one["header"])
        options += ["--block", f"{one['chainId']}={rpc(url, 'eth_getBlockByNumber', hex(number), False)['hash']}"]
    return options


def block_number(header: str) -> int:
    return int.from_bytes(rlp.decode(bytes.fromhex(header[2:]))[8], "big")


async def test_an_executed_message_is_proven_by_its_blocks_hashes_with_nothing_running(
    devnet: Devnet, chains: Mapping[int, EvmChain], tmp_path: Path
) -> None:
    traffic = Traffic(devnet, chains)
    async with blocks(devnet), relaying(devnet, tmp_path):
        message = await traffic.send(Gmp.HYPERLANE, Gmp.AXELAR, quorum=2)
        await traffic.all_executed()
    waybill, file = Waybill(new_home(devnet, tmp_path)), tmp_path / "proof.json"
    made = await asyncio.to_thread(waybill, "message", "prove", "0x" + message.id.hex())
    assert made.code == 0, made.err
    file.write_text(made.out)
    options = options_for(devnet, file)
    await assert_an_index_only_saves_the_search(devnet, chains, message, made.out)
    elsewhere = Waybill(tmp_path / "without any network")

    proven = elsewhere.json("message", "verify-proof", str(file), *options)
    assert proven["messageId"] == "0x" + message.id.hex()
    assert sorted(proven["received"]) == ["axelar", "hyperlane"]
    assert proven["created"]["chainId"] == message.source_chain
    assert proven["executed"]["chainId"] == message.destination_chain
    assert waybill("message", "verify-proof", str(file), *options, "--network", "devnet").code == 0

    refused = elsewhere("message", "verify-proof", str(file), *options[2:])
    assert refused.code == 1
    assert "is not among the trusted blocks" in refused.err
    altered = json.loads(made.out)
    altered["messageId"] = "0x" + "ab" * 32
    file.write_text(json.dumps(altered))
    assert "is not about message 0xabab" in elsewhere("message", "verify-proof", str(file), *options).err


async def assert_an_index_only_saves_the_search(
    devnet: Devnet, chains: Mapping[int, EvmChain], message: Message, whole: str
) -> None:
    """With an index that has read the destination up to the first receipt, the proof is the same."""
    created, first, *_ = json.loads(whole)["events"]
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(EventRecord))
    known = [
        EventRecord(
            **nothing | {"event": name, "chain_id": one["chainId"], "block_number": block_number(one["header"])}
        )
        for name, one in (("MessageRouted", created), ("MessageReceived", first))
    ]
    read_to = {one.chain_id: one.block_number for one in known}
    proof = await prove_message(devnet.deployment, chains, message, known, read_to)
    assert json.loads(whole) == proof.to_json()


async def test_a_message_on_its_way_is_proven_as_far_as_it_has_come(
    devnet: Devnet, chains: Mapping[int, EvmChain], tmp_path: Path
) -> None:
    message = await Traffic(devnet, chains).send(Gmp.AXELAR)
    waybill, file = Waybill(new_home(devnet, tmp_path)), tmp_path / "proof.json"
    file.write_text((await asyncio.to_thread(waybill, "message", "prove", "0x" + message.id.hex())).out)
    proven = waybill("message", "verify-proof", str(file), *options_for(devnet, file))
    assert proven.code == 0, proven.err
    assert "not in this proof" in proven.out


def test_what_is_no_proof_and_no_block_is_refused_with_the_value(tmp_path: Path) -> None:
    waybill, file = Waybill(tmp_path), tmp_path / "proof.json"
    assert "can't be read: No such file" in waybill("message", "verify-proof", str(file)).err
    file.write_text("{}")
    assert "that is no proof of a message" in waybill("message", "verify-proof", str(file)).err
    wrong = waybill("message", "verify-proof", str(file), "--block", "alpha=0x12")
    assert wrong.code == 2
    assert "'alpha=0x12' names no block" in wrong.err
