"""A message's content: decoded where its ABI is known, and always text, whatever a stranger put into it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from eth_abi.abi import encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.protocol.message import Kind
from bridge.web.payload import PayloadAbi, PayloadAbiError, decode_payload, read_abis
from tests.unit.indexer.world import failed, received, routed, sent_message
from tests.unit.web.explorer import RPC, World, page, patient, text_of

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe\x00\x07"
PRINTABLE, _, _ = HOSTILE.partition("\u202e")


def test_a_payload_full_of_markup_and_control_characters_stays_text(world: World) -> None:
    sent = sent_message(payload=HOSTILE.encode())
    printable = sent_message(2, payload=PRINTABLE.encode())
    world.alpha.mine(routed(sent), routed(printable))
    world.beta.mine(
        received(sent, 1), received(sent, 2, 2), failed(sent, b"\x08\xc3\x79\xa0" + encode(["string"], [HOSTILE]))
    )
    world.index()
    explorer = world.explorer(patient(public_rpc=RPC))
    for message in (sent, printable):
        body = explorer.get(page(message)).text
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert not {"\u202e", "\x00", "\x07"} & set(body)
    assert f"0x{HOSTILE.encode().hex()}" in explorer.get(page(sent)).text
    assert PRINTABLE in html.unescape(explorer.get(page(printable)).text)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.binary(max_size=300), kind=st.sampled_from(Kind))
def test_whatever_the_bytes_a_payload_is_shown_without_control_characters(payload: bytes, kind: Kind) -> None:
    shown = decode_payload(sent_message(payload=payload, kind=kind), ())
    assert shown.length == len(payload)
    assert all(character.isprintable() or character in "\n\t" for character in shown.text)


def test_a_payload_is_decoded_by_the_abi_of_its_recipient(world: World, tmp_path: Path) -> None:
    file = tmp_path / "abis.toml"
    file.write_text(
        '[[payload]]\nrecipient = "0x2222222222222222222222222222222222222222"\nvalues = ["address owner", "uint256 amount"]\n'
    )
    owner = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    sent = sent_message(payload=encode(["address", "uint256"], [owner, 42]))
    other = replace(sent, nonce=2, payload=b"not that at all")
    world.alpha.mine(routed(sent), routed(other))
    world.index()
    explorer = world.explorer(payloads=read_abis(file))
    shown = text_of(explorer.get(page(sent)).text)
    assert "decoded" in shown
    assert f"owner address {owner.lower()}" in shown.replace(owner, owner.lower())
    assert "amount uint256 42" in shown
    assert "not that at all" in explorer.get(page(other)).text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("x = 1", "must hold [[payload]]"),
        ("[[payload]]\nvalues = []", "give values"),
        ('[[payload]]\nvalues = ["adress owner"]', "adress owner"),
        ('[[payload]]\nvalues = ["address owner"]\nrecipient = "0x12"', "0x12"),
        ('[[payload]]\nvalues = ["address owner"]\nkind = "letter"', "LETTER"),
        ("[[payload", "abis.toml"),
    ],
)
def test_a_wrong_file_of_abis_is_refused_by_name(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "abis.toml"
    file.write_text(content)
    with pytest.raises(PayloadAbiError, match=re.escape(problem)):
        read_abis(file)


def test_a_cancellation_is_decoded_without_being_told_how() -> None:
    struct = "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"
    word = bytes(32)
    original = (1, word, word, 1, 2, word, word, 3, 4, 5, 0, 2, word, b"")
    payload = encode([struct, "bytes32", "uint8"], [original, b"\x11" * 32, 3])
    shown = decode_payload(sent_message(kind=Kind.CANCELLATION, payload=payload), ())
    assert [(field.name, field.value) for field in shown.fields][1:] == [
        ("payload hash", "0x" + "11" * 32),
        ("state", "3"),
    ]


def test_an_abi_fits_by_recipient_and_kind() -> None:
    sent = sent_message(kind=Kind.QUERY)
    assert PayloadAbi(types=(), names=(), kind=Kind.QUERY).fits(sent)
    assert not PayloadAbi(types=(), names=(), kind=Kind.ACK).fits(sent)
    assert not PayloadAbi(types=(), names=(), recipient=bytes(32)).fits(sent)
