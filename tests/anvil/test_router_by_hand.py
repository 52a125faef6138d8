"""The calls that a person makes with `cast`, against routers on real chains, and what the command says of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from eth_utils import keccak

from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DAPP_KEY, account
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.events import topic_of
from bridge.protocol.gmps import Gmp, bits_from_gmps
from bridge.protocol.message import Message, decode_envelope
from tests.anvil.command import Waybill, new_home
from tests.anvil.rpc import rpc
from tests.waiting import PATIENCE

CAST = Path(__file__).resolve().parents[2] / "build" / "tools" / "bin" / "cast"
ROUTE = "route((uint64,bytes32,bytes,uint64,uint32,uint8,uint8,bytes32,bool,uint8,(uint8,uint256)[],address))"
MESSAGE = "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"
PROFILES = keccak(text="profiles()")[:4].hex()
SET_PROFILE = "setProfile(uint64,(uint16,uint8,uint64,uint32,uint8,bool,uint40))"
RETRY = f"retryRoute((bytes32,{MESSAGE},uint8,(uint8,uint256)[],address))"
FEE = 10**16  # wei; more than any GMP asks, and the rest comes back


class Cast:
    """`cast send` to the router of one chain."""

    def __init__(self, devnet: Devnet) -> None:
        self.source, self.destination = devnet.deployment.chains
        self.url = self.source.rpc_urls[0]

    def send(
        self, key: str, signature: str, *arguments: str, value: int = 0, to: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(CAST), "send", to or self.source.router, signature, *arguments]
        options = ["--rpc-url", self.url, "--private-key", key, "--value", str(value), "--json"]
        return subprocess.run([*command, *options], capture_output=True, text=True, timeout=PATIENCE, check=False)

    def route(self, payload: bytes) -> Message:
        """Sends a message over Wormhole and returns it as the router created it."""
        recipient = to_bytes32(self.destination.examples["inbox"]).hex()
        request = (
            f"({self.destination.chain_id},0x{recipient},0x{payload.hex()},200000,0,0,1,0x{bytes(32).hex()},true,0,"
            f"[({int(Gmp.WORMHOLE)},{FEE})],{account(DAPP_KEY).address})"
        )
        done = self.send(DAPP_KEY, ROUTE, request, value=FEE)
        assert done.returncode == 0, done.stderr
        logs = rpc(
            self.url, "eth_getLogs", {"address": self.source.router, "topics": [f"0x{topic_of('MessageRouted').hex()}"]}
        )
        envelope = bytes.fromhex(logs[-1]["data"][2:])
        length = int.from_bytes(envelope[96:128], "big")
        return decode_envelope(envelope[128 : 128 + length]).message

    def retry(self, key: str, message: Message, message_id: bytes) -> subprocess.CompletedProcess[str]:
        fields = (
            f"({message.source_chain},0x{message.source_router.hex()},0x{message.sender.hex()},{message.nonce},"
            f"{message.destination_chain},0x{message.destination_router.hex()},0x{message.recipient.hex()},"
            f"{message.gas_limit},{message.sent_at},{message.ttl},{int(message.kind)},{message.quorum},"
            f"0x{message.replaces.hex()},0x{message.payload.hex()})"
        )
        request = f"(0x{message_id.hex()},{fields},1,[({int(Gmp.WORMHOLE)},{FEE})],{account(DAPP_KEY).address})"
        return self.send(key, RETRY, request, value=FEE)

    def send_unfunded(self, key: str, gmps: int) -> str:
        """Sends a message without its fee, as an ERC-7786 sender does, and returns its id."""
        answer = rpc(self.url, "eth_call", {"to": self.source.router, "data": f"0x{PROFILES}"}, "latest")
        profile = f"({gmps},1,200000,0,0,true,0)"
        chain = self.destination.chain_id
        done = self.send(key, SET_PROFILE, str(chain), profile, to=f"0x{answer[-40:]}")
        assert done.returncode == 0, done.stderr
        reference = chain.to_bytes((chain.bit_length() + 7) // 8, "big")
        recipient = f"0x00010000{len(reference):02x}{reference.hex()}14{self.destination.examples['inbox'][2:]}"
        done = self.send(key, "sendMessage(bytes,bytes,bytes[])", recipient, f"0x{b'hello'.hex()}", "[]")
        assert done.returncode == 0, done.stderr
        topics = [f"0x{topic_of('MessageUnfunded').hex()}"]
        return str(rpc(self.url, "eth_getLogs", {"address": self.source.router, "topics": topics})[-1]["topics"][1])


@pytest.fixture
def cast(devnet: Devnet) -> Cast:
    return Cast(devnet)


def test_unfunded_message_is_found_and_funded(cast: Cast, devnet: Devnet, tmp_path: Path) -> None:
    waybill = Waybill(new_home(devnet, tmp_path))
    message_id = cast.send_unfunded(ANVIL_KEYS[6], bits_from_gmps([Gmp.HYPERLANE, Gmp.WORMHOLE]))
    shown = waybill.json("message", "show", message_id)
    assert shown["message"]["payload"] == f"0x{b'hello'.hex()}"
    assert (shown["status"], shown["next"]) == (
        "UNFUNDED",
        f"fund it: `waybill message fund {message_id}`",
    )
    explained = waybill("message", "show", message_id)
    assert (explained.code, "it is not funded yet" in " ".join(explained.out.split())) == (
        0,
        True,
    )
    assert waybill.json("message", "fund", message_id)["gmps"] == ["hyperlane", "wormhole"]
    assert waybill.json("message", "show", message_id)["status"] == "ROUTED"
    again = waybill("message", "fund", message_id)
    assert (again.code, "is already paid for" in again.err) == (1, True)
    paid = waybill("message", "fund", f"0x{cast.route(b'hello').id.hex()}")
    assert (paid.code, "is already paid for" in paid.err) == (1, True)
