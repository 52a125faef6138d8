"""Proofs of messages: what an honest block has is proven, and no change of a proof proves anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
import rlp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trie.hexary import HexaryTrie

from bridge.protocol.message import Message
from bridge.protocol.proof import MessageProof, ProofError, check, encode_header, prove_logs
from tests.unit.indexer.logs import ALPHA, BETA, ROUTERS, message, topics_and_data
from tests.unit.indexer.world import Event, executed, received, routed

Receipts = list[dict[str, Any]]


def log_of(chain: int, event: Event) -> dict[str, Any]:
    name, values = event
    topics, data = topics_and_data(name, **values)
    return {
        "address": "0x" + ROUTERS[chain].hex(),
        "topics": ["0x" + topic.hex() for topic in topics],
        "data": "0x" + data.hex(),
    }


def receipt(logs: Sequence[Mapping[str, Any]], gas: int = 21_000, **changes: str) -> dict[str, Any]:
    return {
        "type": "0x2",
        "status": "0x1",
        "cumulativeGasUsed": hex(gas),
        "logsBloom": "0x" + "00" * 256,
        "logs": list(logs),
    } | changes


def header_of(receipts: Receipts, number: int) -> bytes:
    """The header of a block with those receipts, of which the trie is built here and not by what is tested."""
    trie = HexaryTrie({})
    for place, one in enumerate(receipts):
        kind = int(one["type"], 16)
        logs = [
            [
                bytes.fromhex(log["address"][2:]),
                [bytes.fromhex(t[2:]) for t in log["topics"]],
                bytes.fromhex(log["data"][2:]),
            ]
            for log in one["logs"]
        ]
        more = [int(one["depositNonce"], 16), 1] if kind == 0x7E else []
        content = rlp.encode([int(one["status"], 16), int(one["cumulativeGasUsed"], 16), bytes(256), logs, *more])
        trie[rlp.encode(place)] = (bytes([kind]) if kind else b"") + content
    fields: list[Any] = [b"\x01" * 32, b"\x02" * 32, b"\x03" * 20, b"\x04" * 32, b"\x05" * 32, trie.root_hash]
    fields += [bytes(256), 0, number, 30_000_000, 21_000, 1_700_000_000 + number, b"", b"\x06" * 32, bytes(8), 7]
    return bytes(rlp.encode(fields))


def is_of(sent: Message) -> Any:
    return lambda log: len(log["topics"]) > 1 and log["topics"][1] == "0x" + sent.id.hex()


def proven_blocks(sent: Message, source: Receipts, destination: Receipts) -> MessageProof:
    source_logs = prove_logs(ALPHA, header_of(source, 7), source, is_of(sent))
    return MessageProof(sent.id, (*source_logs, *prove_logs(BETA, header_of(destination, 9), destination, is_of(sent))))


def trusting(proof: MessageProof) -> dict[int, set[bytes]]:
    found: dict[int, set[bytes]] = {}
    for one in proof.logs:
        found.setdefault(one.chain_id, set()).add(one.block_hash)
    return found


SENT, OTHER = message(1), message(2)


def whole_proof(before: int = 3, after: int = 2) -> MessageProof:
    noise = [receipt([log_of(ALPHA, routed(OTHER))], gas=place) for place in range(before)]
    later = [receipt([], type="0x0", gas=place) for place in range(after)]
    source = [*noise, receipt([log_of(ALPHA, routed(OTHER)), log_of(ALPHA, routed(SENT))]), *later]
    arrival = [log_of(BETA, received(SENT, 1)), log_of(BETA, received(OTHER, 1)), log_of(BETA, received(SENT, 3))]
    destination = [*noise, receipt([*arrival, log_of(BETA, executed(SENT))], type="0x0")]
    return proven_blocks(SENT, source, destination)


@given(before=st.integers(0, 300), after=st.integers(0, 20))
@settings(max_examples=25)
def test_a_block_of_any_length_proves_what_it_has(before: int, after: int) -> None:
    proof = MessageProof.from_json(orjson.dumps(whole_proof(before, after).to_json()))
    proven = check(proof, trusting(proof))
    assert proven.message == SENT
    assert sorted(proven.received) == [1, 3]
    assert proven.created.block_number == 7
    assert proven.executed is not None
    assert proven.executed.block_time == 1_700_000_009


@given(data=st.data())
def test_no_changed_byte_or_place_proves_anything_else(data: st.DataObject) -> None:
    proof = whole_proof()
    trusted, honest = trusting(proof), check(proof, trusting(proof))
    at = data.draw(st.integers(0, len(proof.logs) - 1))
    one = proof.logs[at]
    what = data.draw(st.sampled_from(["header", "node", "transaction", "log", "chain_id", "cut"]))
    if what == "header":
        changed = replace(one, header=altered(data, one.header))
    elif what == "node":
        place = data.draw(st.integers(0, len(one.nodes) - 1))
        nodes = [altered(data, node) if place == index else node for index, node in enumerate(one.nodes)]
        changed = replace(one, nodes=tuple(nodes))
    elif what == "cut":
        changed = replace(one, nodes=one.nodes[:-1])
    else:
        value = data.draw(st.integers(0, 400))
        assume(value != getattr(one, what))
        place_elsewhere: dict[str, Any] = {what: value}
        changed = replace(one, **place_elsewhere)
    logs = [changed if at == index else log for index, log in enumerate(proof.logs)]
    try:
        found = check(MessageProof(proof.message_id, tuple(logs)), trusted)
    except ProofError:
        return
    # Another place may have another true event of this message, and nothing more.
    assert what == "log"
    assert found.message == honest.message
    assert set(found.received) <= set(honest.received)


def altered(data: st.DataObject, content: bytes) -> bytes:
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(1, 255))
    return content[:place] + bytes([content[place] ^ other]) + content[place + 1 :]


def test_an_event_of_another_router_proves_nothing() -> None:
    theirs = log_of(BETA, received(SENT, 2)) | {"address": "0x" + "cc" * 20}
    proof = proven_blocks(SENT, [receipt([log_of(ALPHA, routed(SENT))])], [receipt([theirs])])
    with pytest.raises(ProofError, match="not of the message's router"):
        check(proof, trusting(proof))
    proof = proven_blocks(SENT, [receipt([log_of(ALPHA, routed(SENT)) | {"address": "0x" + "cc" * 20}])], [])
    with pytest.raises(ProofError, match="not of the message's router"):
        check(proof, trusting(proof))


def test_routers_of_one_address_are_told_apart_by_their_chains() -> None:
    whole = whole_proof()
    moved = replace(whole.logs[0], chain_id=BETA)
    with pytest.raises(ProofError, match="not of the message's router"):
        check(MessageProof(SENT.id, (moved, *whole.logs[1:])), {BETA: {one.block_hash for one in whole.logs}})


def test_events_of_other_messages_prove_nothing() -> None:
    whole = whole_proof()
    arrivals = prove_logs(
        BETA, header_of(theirs := [receipt([log_of(BETA, received(OTHER, 1))])], 9), theirs, is_of(OTHER)
    )
    mixed = MessageProof(SENT.id, (whole.logs[0], *arrivals))
    with pytest.raises(ProofError, match="is not about message 0x" + SENT.id.hex()):
        check(mixed, trusting(mixed))


@pytest.mark.parametrize("event", [received(SENT, 1), executed(SENT)])
def test_a_delivery_from_another_chain_proves_nothing(event: Event) -> None:
    name, values = event
    theirs = log_of(BETA, (name, values | {"source_chain": 5}))
    proof = proven_blocks(SENT, [receipt([log_of(ALPHA, routed(SENT))])], [receipt([theirs])])
    with pytest.raises(ProofError, match="says nothing of this message's delivery"):
        check(proof, trusting(proof))


def test_a_creation_on_the_destination_or_without_its_event_proves_nothing() -> None:
    whole = whole_proof()
    with pytest.raises(ProofError, match="its first event is MessageReceived"):
        check(MessageProof(SENT.id, whole.logs[1:]), trusting(whole))
    twice = MessageProof(SENT.id, (whole.logs[0], whole.logs[0]))
    with pytest.raises(ProofError, match="not of the message's router"):
        check(twice, trusting(whole))
    with pytest.raises(ProofError, match="has no event"):
        check(MessageProof(SENT.id, ()), {})


def test_a_message_with_a_made_up_id_proves_nothing() -> None:
    name, values = routed(OTHER)
    forged = log_of(ALPHA, (name, values | {"message_id": SENT.id}))
    proof = proven_blocks(SENT, [receipt([forged])], [])
    with pytest.raises(ProofError, match="has the id 0x" + OTHER.id.hex()):
        check(proof, trusting(proof))


def test_a_failed_transaction_proves_nothing() -> None:
    proof = proven_blocks(SENT, [receipt([log_of(ALPHA, routed(SENT))], status="0x0")], [])
    with pytest.raises(ProofError, match="transaction 0 of block"):
        check(proof, trusting(proof))


def test_a_rollups_deposit_has_two_fields_more() -> None:
    deposit = receipt([], type="0x7e", depositNonce="0x5", depositReceiptVersion="0x1")
    proof = proven_blocks(SENT, [deposit, receipt([log_of(ALPHA, routed(SENT))])], [])
    assert check(proof, trusting(proof)).message == SENT


def test_a_node_that_makes_up_receipts_or_a_header_is_refused() -> None:
    honest = [receipt([log_of(ALPHA, routed(SENT))])]
    with pytest.raises(ValueError, match="the node made them up"):
        prove_logs(ALPHA, header_of(honest, 7), [receipt([log_of(ALPHA, routed(OTHER))])], is_of(OTHER))
    names = ("parentHash", "sha3Uncles", "stateRoot", "transactionsRoot", "receiptsRoot", "mixHash")
    block = dict.fromkeys(names, "0x" + "01" * 32) | {"miner": "0x" + "02" * 20, "logsBloom": "0x", "extraData": "0x"}
    block |= dict.fromkeys(("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "nonce"), "0x00")
    with pytest.raises(ValueError, match="the node made it up"):
        encode_header(block | {"hash": "0x" + "00" * 32})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError"),
        (b'{"format": "waybill-proof-2", "messageId": "0x", "events": []}', "'waybill-proof-2'"),
        (b'{"format": "waybill-proof-1", "messageId": "00", "events": []}', "does not start with 0x"),
        (
            b'{"format": "waybill-proof-1", "messageId": "0x", "events": [{"chainId": -1, "header": "0x"}]}',
            "-1 is no place",
        ),
    ],
)
def test_what_is_no_proof_is_refused_with_what_is_wrong(text: bytes, reason: str) -> None:
    with pytest.raises(ProofError, match=reason):
        MessageProof.from_json(text)
