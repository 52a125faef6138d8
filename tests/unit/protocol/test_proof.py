"""Proofs of messages: what an honest block has is proven, and no change of a proof proves anything else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
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
from tests.unit.indexer.world import Event, executed, failed, received, routed

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
        "logsBloom": "0x00",
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
        content = rlp.encode([int(one["status"], 16), int(one["cumulativeGasUsed"], 16), bytes(1), logs, *more])
        trie[rlp.encode(place)] = (bytes([kind]) if kind else b"") + content
    fields: list[Any] = [b"\x01" * 32, b"\x02" * 32, b"\x03" * 20, b"\x04" * 32, b"\x05" * 32, trie.root_hash]
    fields += [bytes(1), 0, number, 30_000_000, 21_000, 1_700_000_000 + number, b"", b"\x06" * 32, bytes(8), 7]
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
    for again in (whole.logs[0], whole.logs[1]):
        with pytest.raises(ProofError, match="has an event twice"):
            check(MessageProof(SENT.id, (*whole.logs, again)), trusting(whole))
    with pytest.raises(ProofError, match="has no event"):
        check(MessageProof(SENT.id, ()), {})


def test_a_message_to_its_own_chain_proves_nothing() -> None:
    """Else a contract of anybody's could name the true router as its destination, and nothing would show whose event it is."""
    forged = message(1, destination_chain=ALPHA, source_router=(b"\xcc" * 20).rjust(32, b"\0"))
    log = log_of(ALPHA, routed(forged)) | {"address": "0x" + "cc" * 20}
    proof = proven_blocks(forged, [receipt([log])], [])
    with pytest.raises(ProofError, match="no router creates such a message"):
        check(proof, trusting(proof))


@pytest.mark.parametrize(
    "change", [lambda n: n[::-1], lambda n: (*n, n[-1]), lambda n: (n[0], *n), lambda n: (*n, b"\xc0")]
)
def test_nodes_that_are_not_the_way_prove_nothing(change: Any) -> None:
    whole = whole_proof()
    first = replace(whole.logs[0], nodes=tuple(change(whole.logs[0].nodes)))
    with pytest.raises(ProofError, match="do not lead"):
        check(MessageProof(SENT.id, (first, *whole.logs[1:])), trusting(whole))


def test_a_place_before_the_first_proves_nothing() -> None:
    whole = whole_proof()
    for place in ({"log": -1}, {"transaction": -1}):
        moved: dict[str, Any] = {**place}
        with pytest.raises(ProofError, match="do not lead"):
            check(MessageProof(SENT.id, (replace(whole.logs[0], **moved), *whole.logs[1:])), trusting(whole))


def test_a_node_is_hashed_before_it_is_decoded() -> None:
    deep = b"\xc0"
    for _ in range(2_000):
        deep = rlp.codec.length_prefix(len(deep), 0xC0) + deep
    whole = whole_proof()
    first = replace(whole.logs[0], nodes=(deep,))
    with pytest.raises(ProofError, match="not the next one"):
        check(MessageProof(SENT.id, (first, *whole.logs[1:])), trusting(whole))


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
        (b'{"format": "waybill-proof-1", "messageId": "00", "events": []}', "is not 0x and pairs"),
        (
            b'{"format": "waybill-proof-1", "messageId": "0x", "events": [{"chainId": -1, "header": "0x"}]}',
            "-1 is no place",
        ),
    ],
)
def test_what_is_no_proof_is_refused_with_what_is_wrong(text: bytes, reason: str) -> None:
    with pytest.raises(ProofError, match=reason):
        MessageProof.from_json(text)


CASES = Path(__file__).parents[3] / "dapp" / "test" / "proofs.json"


def cases() -> dict[str, Any]:
    """One true proof, and for each rule of the checkers one that breaks it alone."""
    whole, strange = whole_proof(), "0x" + "cc" * 20
    name, values = routed(OTHER)
    arrival, arrived = received(SENT, 1)

    def from_logs(source: Mapping[str, Any], *destination: Mapping[str, Any], **changes: Any) -> MessageProof:
        return proven_blocks(SENT, [receipt([source], **changes)], [receipt(list(destination))] if destination else [])

    def with_first(**changes: Any) -> MessageProof:
        return MessageProof(SENT.id, (replace(whole.logs[0], **changes), *whole.logs[1:]))

    own = message(1, destination_chain=ALPHA)
    nodes = whole.logs[0].nodes
    broken = {
        "the source's router": from_logs(log_of(ALPHA, routed(SENT)) | {"address": strange}),
        "the destination's router": from_logs(
            log_of(ALPHA, routed(SENT)), log_of(BETA, received(SENT, 1)) | {"address": strange}
        ),
        "the event's message": MessageProof(
            SENT.id,
            (
                whole.logs[0],
                *prove_logs(
                    BETA, header_of(theirs := [receipt([log_of(BETA, received(OTHER, 1))])], 9), theirs, is_of(OTHER)
                ),
            ),
        ),
        "the envelope's id": from_logs(log_of(ALPHA, (name, values | {"message_id": SENT.id}))),
        "the event's source": from_logs(
            log_of(ALPHA, routed(SENT)), log_of(BETA, (arrival, arrived | {"source_chain": 5}))
        ),
        "the kind of delivery": from_logs(log_of(ALPHA, routed(SENT)), log_of(BETA, failed(SENT))),
        "the creation": MessageProof(SENT.id, whole.logs[1:]),
        "the chains": proven_blocks(own, [receipt([log_of(ALPHA, routed(own))])], []),
        "the status": from_logs(log_of(ALPHA, routed(SENT)), status="0x0"),
        "each event once": MessageProof(SENT.id, (*whole.logs, whole.logs[-1])),
        "the first node's hash": with_first(nodes=(nodes[0][:-1] + b"\1", *nodes[1:])),
        "the last node's hash": with_first(nodes=(*nodes[:-1], nodes[-1][:-1] + b"\1")),
        "no node behind": with_first(nodes=(*nodes, nodes[-1])),
        "every node": with_first(nodes=nodes[:-1]),
        "the transaction's place": with_first(transaction=0),
        "the event's place": with_first(log=7),
        "the chain": with_first(chain_id=1),
        "the header": with_first(header=whole.logs[0].header[:-1] + b"\1"),
    }
    trusted = {chain: sorted("0x" + one.hex() for one in hashes) for chain, hashes in trusting(whole).items()}
    for what, proof in broken.items():
        if what not in ("the chain", "the header"):  # only the trusted blocks speak against these two
            for chain, hashes in trusting(proof).items():
                trusted[chain] = sorted({*trusted[chain], *("0x" + one.hex() for one in hashes)})
    text = {what: proof.to_json() for what, proof in broken.items()}
    text["the format"] = whole.to_json() | {"format": "waybill-proof-2"}
    return {
        "trusted": {str(chain): hashes for chain, hashes in trusted.items()},
        "true": whole.to_json(),
        "broken": text,
    }


def test_each_rule_refuses_what_breaks_it_alone_in_the_file_that_the_kit_reads_too() -> None:
    """`dapp/test/proof.test.ts` reads the file. After a change of the cases: WRITE_PROOFS=1 pytest tests/unit/protocol."""
    made = cases()
    if os.environ.get("WRITE_PROOFS"):
        CASES.write_text(orjson.dumps(made, option=orjson.OPT_INDENT_2).decode() + "\n")
    kept = orjson.loads(CASES.read_bytes())
    assert kept == made
    trusted = {int(chain): {bytes.fromhex(one[2:]) for one in hashes} for chain, hashes in kept["trusted"].items()}
    assert check(MessageProof.from_json(orjson.dumps(kept["true"])), trusted).executed
    for what, proof in kept["broken"].items():
        assert is_refused(orjson.dumps(proof), trusted), f"{what} was not looked at"


def is_refused(proof: bytes, trusted: Mapping[int, set[bytes]]) -> bool:
    try:
        check(MessageProof.from_json(proof), trusted)
    except ProofError:
        return True
    return False
