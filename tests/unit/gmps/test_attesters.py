"""What strangers' services answer: one that lies or breaks stops no delivery that others can prove, and no process."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_utils import keccak

from bridge.gmps.attestation import JsonDocuments, PublicHosts
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.gmps.hyperlane.attester import HyperlaneCheckpoints
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.gmps.wormhole.attester import WormholeVaas
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, TransientError
from tests.builders import dispatch, message
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT, SOURCE, address
from tests.waiting import PATIENCE

KEYS = [Account.from_key(bytes([number]) * 32) for number in (1, 2, 3)]
ROOT = keccak(text="a root")
TO_HYPERLANE = dispatch(message(1), Gmp.HYPERLANE, evidence={"leaf": 5, "header": "00" * 77})
TO_WORMHOLE = dispatch(message(1), Gmp.WORMHOLE, evidence={"emitter": "ab" * 32, "sequence": 7})


class Documents(JsonDocuments):
    """Services by the beginning of their URLs."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self.documents = documents
        self.asked: list[str] = []

    async def json(self, url: str) -> Any:
        self.asked.append(url)
        return next(document for begin, document in self.documents.items() if url.startswith(begin))


class TwoOfThree(HyperlaneCheckpoints):
    """Validators of a destination that wants two of three signatures."""

    def __init__(self, web: JsonDocuments) -> None:
        super().__init__(DEPLOYMENT, {}, {chain.chain_id: address("announce") for chain in DEPLOYMENT.chains}, web)
        self.asked: list[str] = []
        self.ism: str | None = None

    async def _read(self, chain: object, address: str, contract: object, function: str, *arguments: Any) -> Any:
        self.asked.append(function)
        return {
            "recipientIsm": self.ism or address,
            "moduleType": 5,
            "validatorsAndThreshold": ([key.address for key in KEYS], 2),
            "getAnnouncedStorageLocations": [[f"http://v{number}"] for number in range(3)],
        }[function]


def checkpoint(number: int) -> dict[str, Any]:
    """What a validator that works publishes; see Hyperlane's CheckpointLib."""
    contracts = HyperlaneContracts.of(SOURCE)
    domain = keccak(contracts.domain.to_bytes(4, "big") + to_bytes32(contracts.merkle_tree_hook) + b"HYPERLANE")
    leaf_hash = keccak(bytes(77) + TO_HYPERLANE.envelope)
    signed = encode_defunct(keccak(domain + ROOT + (5).to_bytes(4, "big") + leaf_hash))
    signature = KEYS[number].sign_message(signed).signature
    return {"value": {"checkpoint": {"root": f"0x{ROOT.hex()}"}}, "serialized_signature": f"0x{signature.hex()}"}


BROKEN = {
    "no document": None,
    "a list": [1],
    "an unpaired root": {"value": {"checkpoint": {"root": "0x123"}}},
    "no signature": {"value": {"checkpoint": {"root": f"0x{ROOT.hex()}"}}},
    **{
        f"signature {text[:6]}… of {len(text) // 2 - 1} bytes": {**checkpoint(2), "serialized_signature": text}
        for text in ("0x", "0x" + "11" * 64, "0x" + "00" * 65, "0x" + "ff" * 64 + "1b", "0x" + "ff" * 65)
    },
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_faulty_validator_stops_no_delivery(answer: Any) -> None:
    web = Documents({"http://v0": answer, "http://v1": checkpoint(1), "http://v2": checkpoint(2)})
    attester = TwoOfThree(web)
    metadata = await attester.attest(TO_HYPERLANE)
    assert len(metadata) == 32 + 32 + 4 + 2 * 65
    web.documents["http://v1"] = answer
    with pytest.raises(TransientError, match="1 of 2 validators"):
        await attester.attest(TO_HYPERLANE)


async def test_owner_controlled_values_are_cached_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = Documents({f"http://v{number}": checkpoint(number) for number in range(3)})
    monkeypatch.setattr("bridge.gmps.hyperlane.attester._CACHE_TIME", 3_600.0)  # seconds
    attester = TwoOfThree(documents)
    await asyncio.gather(*(attester.attest(TO_HYPERLANE) for _ in range(10)))
    of_owners = ["recipientIsm", "moduleType", "getAnnouncedStorageLocations"]
    asked = Counter(attester.asked)
    assert [asked.pop(function) for function in of_owners] == [1, 1, 1]
    assert asked == {"validatorsAndThreshold": 10}  # an ISM may tell messages apart
    monkeypatch.setattr("bridge.gmps.hyperlane.attester._CACHE_TIME", 0.0)
    attester = TwoOfThree(documents)
    for _ in range(2):
        await attester.attest(TO_HYPERLANE)
    assert [Counter(attester.asked)[function] for function in of_owners] == [2, 2, 2]


async def test_changing_contract_names_do_not_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bridge.gmps.hyperlane.attester._MAX_CACHED", 5)
    monkeypatch.setattr("bridge.gmps.hyperlane.attester._CACHE_TIME", 0.0)
    attester = TwoOfThree(Documents({f"http://v{number}": checkpoint(number) for number in range(3)}))
    for number in range(20):
        attester.ism = address(f"ism {number}")
        await attester.attest(TO_HYPERLANE)
        assert len(attester._cached) <= 5


def vaa(mark: bytes) -> dict[str, str]:
    """A VAA of the message, whose only signature is made of that byte."""
    chain = WormholeContracts.of(SOURCE).chain_id.to_bytes(2, "big")
    body = bytes(8) + chain + bytes.fromhex("ab" * 32) + (7).to_bytes(8, "big") + b"\1" + TO_WORMHOLE.envelope
    content = b"\1" + bytes(4) + b"\1" + mark * 66 + body
    return {"vaaBytes": base64.b64encode(content).decode()}


@pytest.mark.parametrize("answer", [{"vaaBytes": "é"}, {"vaaBytes": 7}, {}, [], None, {"vaaBytes": "AQ=="}])
async def test_a_host_without_the_vaa_leaves_it_to_the_next_one(answer: Any) -> None:
    web = Documents({"http://first": answer, "http://second": vaa(b"\2")})
    attester = WormholeVaas(DEPLOYMENT, ("http://first", "http://second"), web)
    assert await attester.attest(TO_WORMHOLE) == base64.b64decode(vaa(b"\2")["vaaBytes"])


async def test_host_without_enough_signatures_is_skipped() -> None:
    def read(document: Any) -> bytes:
        if document == "unsigned":
            raise AttestationPendingError("a verifier has not signed yet")
        return bytes(document, "ascii")

    web = Documents({"http://first": "unsigned", "http://second": "signed"})
    hosts = PublicHosts(("http://first", "http://second"), web)
    assert await hosts.find(TO_WORMHOLE, "/results", read) == b"signed"
    web.documents["http://second"] = None
    with pytest.raises(AttestationPendingError, match="has not signed"):
        await hosts.find(TO_WORMHOLE, "/results", read)


NESTED = """
import asyncio, http.server, threading
import bridge.service.relayer_service  # and all that it imports: some of it raises Python's limit of recursion
from bridge.protocol.ports import UnansweredError
from bridge.gmps.attestation import JsonDocuments

class Brackets(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[" * 1_000_000)

server = http.server.HTTPServer(("127.0.0.1", 0), Brackets)
threading.Thread(target=server.serve_forever, daemon=True).start()
try:
    asyncio.run(JsonDocuments(timeout=60).json(f"http://127.0.0.1:{server.server_port}/checkpoint.json"))
except UnansweredError as error:
    print("unanswered:", error)
"""


def test_deeply_nested_answer_is_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "unanswered"), done.stderr[-2000:]
