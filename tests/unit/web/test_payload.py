"""A message's content: decoded where its ABI is known, and always text, whatever a stranger put into it."""

from __future__ import annotations

import html

from eth_abi.abi import encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.protocol.message import Kind
from bridge.web.payload import decode_payload
from tests.unit.indexer.world import failed, received, routed, sent_message
from tests.unit.web.explorer import RPC, World, page, patient

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe\x00\x07"
PRINTABLE, _, _ = HOSTILE.partition("\u202e")


def test_hostile_payload_stays_text(world: World) -> None:
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
def test_payload_is_shown_without_control_characters(payload: bytes, kind: Kind) -> None:
    shown = decode_payload(sent_message(payload=payload, kind=kind))
    assert shown.length == len(payload)
    assert all(character.isprintable() or character in "\n\t" for character in shown.text)


def test_a_cancellation_is_decoded_without_being_told_how() -> None:
    struct = "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"
    word = bytes(32)
    original = (1, word, word, 1, 2, word, word, 3, 4, 5, 0, 2, word, b"")
    payload = encode([struct, "bytes32", "uint8"], [original, b"\x11" * 32, 3])
    shown = decode_payload(sent_message(kind=Kind.CANCELLATION, payload=payload))
    assert [(field.name, field.value) for field in shown.fields][1:] == [
        ("payload hash", "0x" + "11" * 32),
        ("state", "3"),
    ]
