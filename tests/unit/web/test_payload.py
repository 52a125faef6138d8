"""A message's content is always text, whatever a stranger put into it."""

from __future__ import annotations

import html

from eth_abi.abi import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.web.pages.message import payload_text
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


@settings(max_examples=25, deadline=None)
@given(payload=st.binary(max_size=300))
def test_payload_is_shown_without_control_characters(payload: bytes) -> None:
    shown = payload_text(payload)
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    assert shown in (payload.decode(errors="replace"), f"0x{payload.hex()}")
