"""Writes `messages.json`: messages with their ids and envelopes, that every implementation is checked against.

python -m tests.golden.generate          write it
python -m tests.golden.generate --check  fail if it is out of date
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from bridge.protocol.message import Kind, Message

TARGET: Final = Path(__file__).parent / "messages.json"

_USUAL: Final = Message(
    source_chain=1,
    source_router=bytes.fromhex("11" * 20).rjust(32, b"\0"),
    sender=bytes.fromhex("22" * 20).rjust(32, b"\0"),
    nonce=1,
    destination_chain=10,
    destination_router=bytes.fromhex("33" * 20).rjust(32, b"\0"),
    recipient=bytes.fromhex("44" * 20).rjust(32, b"\0"),
    gas_limit=200_000,
    sent_at=1_700_000_000,
    ttl=604_800,
    kind=Kind.PLAIN,
    quorum=2,
    replaces=bytes(32),
    payload=b"hello",
)

_HIGHEST: Final[dict[str, Any]] = {
    "source_chain": 2**64 - 1,
    "source_router": b"\xff" * 32,
    "sender": b"\xff" * 32,
    "nonce": 2**64 - 1,
    "destination_chain": 2**64 - 1,
    "destination_router": b"\xff" * 32,
    "recipient": b"\xff" * 32,
    "gas_limit": 2**64 - 1,
    "sent_at": 2**64 - 1,
    "ttl": 2**32 - 1,
    "kind": Kind(max(Kind)),
    "quorum": 2**8 - 1,
    "replaces": b"\xff" * 32,
}


def messages() -> Iterator[tuple[str, Message]]:
    """Named messages: usual ones, awkward payloads, and every field at its highest value alone and together."""
    yield "usual", _USUAL
    yield "empty payload", replace(_USUAL, payload=b"")
    yield "one zero byte", replace(_USUAL, payload=b"\0")
    yield "one word", replace(_USUAL, payload=bytes(range(32)))
    yield "65 bytes", replace(_USUAL, payload=bytes(range(65)))
    yield "1 KB", replace(_USUAL, payload=b"".join(hashlib.sha256(bytes([n])).digest() for n in range(32)))
    yield "never expires", replace(_USUAL, ttl=0)
    yield "stands in for another", replace(_USUAL, replaces=_USUAL.id)
    for kind in Kind:
        yield f"kind {kind.name}", replace(_USUAL, kind=kind)
    for name, value in _HIGHEST.items():
        yield f"highest {name}", replace(_USUAL, **{name: value})
    yield "highest everything", replace(_USUAL, **_HIGHEST)
    lowest: dict[str, Any] = {name: _zero(value) for name, value in _HIGHEST.items()}
    yield "zero everything", Message(**lowest, payload=b"")


def text() -> str:
    """The file's content: integers are decimal strings, because JSON numbers end at 2^53; bytes are hex."""
    entries = [
        {
            "name": name,
            "message": {field.name: _json(getattr(message, field.name)) for field in fields(Message)},
            "id": _json(message.id),
            "envelope": _json(message.encode()),
        }
        for name, message in messages()
    ]
    return json.dumps({"version": 1, "messages": entries}, indent=1) + "\n"


def _zero(value: int | bytes) -> int | bytes:
    if isinstance(value, Kind):
        return Kind.PLAIN
    return bytes(32) if isinstance(value, bytes) else 0


def _json(value: int | bytes) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(int(value))


def main() -> int:
    """Generates or checks; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write tests/golden/messages.json")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if the file is out of date")
    if parser.parse_args().check:
        if TARGET.read_text() == text():
            return 0
        print(f"{TARGET.name} is out of date: run python -m tests.golden.generate", file=sys.stderr)
        return 1
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
