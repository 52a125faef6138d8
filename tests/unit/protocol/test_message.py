import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.message import HEADER_LENGTH, MAX_GAS_LIMIT, EnvelopeError, Kind, Message, decode_envelope
from tests.cases import for_each_case
from tests.golden import generate

GOLDEN: list[dict[str, Any]] = json.loads(generate.TARGET.read_text())["messages"]

words = st.binary(min_size=32, max_size=32)


def uints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(min_value=0, max_value=2**bits - 1)


messages = st.builds(
    Message,
    source_chain=uints(64),
    source_router=words,
    sender=words,
    nonce=uints(64),
    destination_chain=uints(64),
    destination_router=words,
    recipient=words,
    gas_limit=uints(64),
    sent_at=uints(64),
    ttl=uints(32),
    kind=st.sampled_from(Kind),
    quorum=uints(8),
    replaces=words,
    payload=st.binary(max_size=2048),
)


def golden_message(entry: dict[str, Any]) -> Message:
    stored = entry["message"]
    values: dict[str, Any] = {
        field.name: bytes.fromhex(stored[field.name][2:])
        if stored[field.name].startswith("0x")
        else int(stored[field.name])
        for field in fields(Message)
    }
    return Message(**{**values, "kind": Kind(values["kind"])})


@for_each_case("path", ["contracts/types/Message.sol", "dapp/src/message.ts"])
def test_the_gas_limit_is_the_same_everywhere(path: str) -> None:
    text = (Path(__file__).resolve().parents[3] / path).read_text()
    (stated,) = re.findall(r"MAX_GAS_LIMIT = ([\d_]+)", text)
    assert int(stated) == MAX_GAS_LIMIT


def test_the_golden_file_is_what_the_generator_writes() -> None:
    assert generate.TARGET.read_text() == generate.text()


@for_each_case("entry", GOLDEN)
def test_a_golden_message_has_the_golden_id_and_envelope(entry: dict[str, Any]) -> None:
    message = golden_message(entry)
    assert f"0x{message.id.hex()}" == entry["id"]
    assert f"0x{message.encode().hex()}" == entry["envelope"]


@for_each_case("entry", GOLDEN)
def test_a_golden_envelope_decodes_to_the_golden_message(entry: dict[str, Any]) -> None:
    envelope = decode_envelope(bytes.fromhex(entry["envelope"][2:]))
    assert envelope.message == golden_message(entry)
    assert envelope.is_genuine


@given(messages)
def test_decoding_an_envelope_gives_back_its_message_and_id(message: Message) -> None:
    envelope = decode_envelope(message.encode())
    assert envelope.message == message
    assert envelope.stated_id == message.id


@given(messages, st.data())
def test_no_flipped_byte_leaves_an_envelope_genuine(message: Message, data: st.DataObject) -> None:
    flipped = bytearray(message.encode())
    index = data.draw(st.integers(min_value=0, max_value=len(flipped) - 1))
    flipped[index] ^= data.draw(st.integers(min_value=1, max_value=255))
    try:
        envelope = decode_envelope(bytes(flipped))
    except EnvelopeError:
        assert index in {0, 205}  # an unknown version or kind
    else:
        assert not envelope.is_genuine


@given(messages, st.integers(min_value=0, max_value=HEADER_LENGTH - 1))
def test_short_envelope_is_refused_with_its_length(message: Message, length: int) -> None:
    with pytest.raises(EnvelopeError, match=f"envelope has {length} bytes"):
        decode_envelope(message.encode()[:length])


@given(messages, st.integers(min_value=0, max_value=255).filter(lambda version: version != 1))
def test_an_unknown_version_is_refused_by_its_number(message: Message, version: int) -> None:
    with pytest.raises(EnvelopeError, match=f"version {version} is unknown"):
        decode_envelope(bytes([version]) + message.encode()[1:])


@given(messages, st.integers(min_value=len(Kind), max_value=255))
def test_an_unknown_kind_is_refused_by_its_number(message: Message, kind: int) -> None:
    envelope = bytearray(message.encode())
    envelope[205] = kind
    with pytest.raises(EnvelopeError, match=f"kind {kind} is unknown"):
        decode_envelope(bytes(envelope))


@given(messages)
def test_a_message_expires_its_ttl_after_it_was_sent_or_never(message: Message) -> None:
    assert replace(message, ttl=0).expires_at is None
    if message.ttl:
        assert message.expires_at == message.sent_at + message.ttl
