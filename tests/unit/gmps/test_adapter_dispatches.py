"""Which logs an adapter takes for Waybill's, made by hand with one thing wrong at a time, and what it then still has to send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import pytest
from eth_abi.abi import encode
from eth_utils import keccak
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from bridge.gmps.axelar.adapter import AxelarContracts
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.ccip.message import MESSAGE_SENT
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.gmps.layerzero.adapter import LayerZeroContracts, Packet
from bridge.gmps.registry import adapter_class
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.addresses import created_adapter, to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, Dispatch, Log
from tests.builders import ALPHA, BETA, block, message, word
from tests.cases import for_each_case

GMPS = tuple(Gmp)
every_gmp = pytest.mark.parametrize("gmp", GMPS, ids=lambda gmp: gmp.label)


def address(name: str) -> str:
    return to_checksum_address(keccak(text=name)[12:])


def chain(chain_id: int, name: str, index: int) -> dict[str, object]:
    return {
        "chainId": chain_id,
        "name": name,
        "rpcUrls": ["http://127.0.0.1:1"],
        "startBlock": 0,
        "confirmations": 1,
        "router": address(f"{name} router"),
        "adapters": {gmp.label: address(f"{name} {gmp.label}") for gmp in GMPS},
        "gmps": {
            "hyperlane": {
                "domain": 1000 + index,
                "mailbox": address(f"{name} mailbox"),
                "merkleTreeHook": address(f"{name} hook"),
            },
            "axelar": {
                "chainName": f"{name}-axelar",
                "gateway": address(f"{name} gateway"),
                "gasService": address(f"{name} gas service"),
                "domainSeparator": "0x" + "00" * 32,
            },
            "wormhole": {"chainId": 10_000 + index, "core": address(f"{name} core")},
            "layerzero": {"eid": 30_000 + index, "endpoint": address(f"{name} endpoint")},
            "ccip": {
                "selector": 10**19 + index,
                "router": address(f"{name} ccip router"),
                "onRamp": address(f"{name} on-ramp"),
            },
        },
    }


DEPLOYMENT = Deployment.model_validate(
    {"version": 1, "network": "test", "chains": [chain(ALPHA, "alpha", 1), chain(BETA, "beta", 2)]}
)
SOURCE, DESTINATION = DEPLOYMENT.chain(ALPHA), DEPLOYMENT.chain(BETA)


class NoAttester:
    async def attest(self, dispatch: Dispatch) -> bytes:
        raise AssertionError(dispatch)


def adapter(gmp: Gmp, deployment: Deployment = DEPLOYMENT) -> BaseAdapter:
    return adapter_class(gmp)(deployment, {}, NoAttester())


def own_message(**changes: object) -> Message:
    values = {"source_router": to_bytes32(SOURCE.router), "destination_router": to_bytes32(DESTINATION.router)}
    return message(**{**values, **changes})  # type: ignore[arg-type]  # the builder takes any field


@dataclass(frozen=True)
class Sent:
    """What a GMP's event is made of; the defaults are what Waybill's adapter makes it of."""

    sender: str | None = None
    envelope: bytes = b""
    destination: ChainDeployment = DESTINATION
    emitter: str | None = None


def log(emitter: str, topics: tuple[bytes, ...], data: bytes, index: int) -> Log:
    where = block(10)
    return Log(
        address=emitter,
        topics=topics,
        data=data,
        block_number=where.number,
        block_hash=where.hash,
        transaction_hash=word("transaction"),
        log_index=index,
    )


def hyperlane_logs(sent: Sent) -> list[Log]:
    sender = to_bytes32(sent.sender or SOURCE.adapters["hyperlane"])
    recipient = to_bytes32(DESTINATION.adapters["hyperlane"])
    domain = HyperlaneContracts.of(sent.destination).domain
    header = b"\x03" + (7).to_bytes(4, "big") + HyperlaneContracts.of(SOURCE).domain.to_bytes(4, "big") + sender
    body = header + domain.to_bytes(4, "big") + recipient + sent.envelope
    topics = (keccak(text="Dispatch(address,uint32,bytes32,bytes)"), sender, domain.to_bytes(32, "big"), recipient)
    emitter = sent.emitter or HyperlaneContracts.of(SOURCE).mailbox
    inserted = encode(["bytes32", "uint32"], [keccak(body), 7])
    return [
        log(emitter, topics, encode(["bytes"], [body]), 3),
        log(
            HyperlaneContracts.of(SOURCE).merkle_tree_hook,
            (keccak(text="InsertedIntoTree(bytes32,uint32)"),),
            inserted,
            4,
        ),
    ]


def axelar_logs(sent: Sent) -> list[Log]:
    sender = to_bytes32(sent.sender or SOURCE.adapters["axelar"])
    topics = (keccak(text="ContractCall(address,string,string,bytes32,bytes)"), sender, keccak(sent.envelope))
    values = [AxelarContracts.of(sent.destination).chain_name, DESTINATION.adapters["axelar"], sent.envelope]
    emitter = sent.emitter or AxelarContracts.of(SOURCE).gateway
    return [log(emitter, topics, encode(["string", "string", "bytes"], values), 3)]


def wormhole_logs(sent: Sent) -> list[Log]:
    sender = to_bytes32(sent.sender or SOURCE.adapters["wormhole"])
    topics = (keccak(text="LogMessagePublished(address,uint64,uint32,bytes,uint8)"), sender)
    data = encode(["uint64", "uint32", "bytes", "uint8"], [7, 0, sent.envelope, 1])
    return [log(sent.emitter or WormholeContracts.of(SOURCE).core, topics, data, 3)]


def layerzero_logs(sent: Sent, receiver: bytes | None = None, version: int = 1) -> list[Log]:
    sender = to_bytes32(sent.sender or SOURCE.adapters["layerzero"])
    header = bytes([version]) + (7).to_bytes(8, "big") + LayerZeroContracts.of(SOURCE).eid.to_bytes(4, "big") + sender
    header += LayerZeroContracts.of(sent.destination).eid.to_bytes(4, "big")
    header += receiver or to_bytes32(DESTINATION.adapters["layerzero"])
    data = encode(["bytes", "bytes", "address"], [header + word("guid") + sent.envelope, b"", address("library")])
    emitter = sent.emitter or LayerZeroContracts.of(SOURCE).endpoint
    return [log(emitter, (keccak(text="PacketSent(bytes,bytes,address)"),), data, 3)]


OFF_RAMP = address("off-ramp")


def packed(
    envelope: bytes,
    *,
    sender: str | None = None,
    destination: ChainDeployment = DESTINATION,
    receiver: bytes = bytes.fromhex(DESTINATION.adapters["ccip"][2:]),
    version: int = 1,
    tokens: bytes = b"",
) -> bytes:
    """A message as CCIP's verifiers sign it."""
    selectors = (CcipContracts.of(one).selector.to_bytes(8, "big") for one in (SOURCE, destination))
    gas = (900_000).to_bytes(4, "big") + (500_000).to_bytes(4, "big")
    content = bytes([version]) + b"".join(selectors) + (7).to_bytes(8, "big") + gas + bytes(4) + keccak(b"verifiers")
    on_ramp = to_bytes32(str(CcipContracts.of(SOURCE).on_ramp))
    for value in (on_ramp, bytes.fromhex(OFF_RAMP[2:]), to_bytes32(sender or SOURCE.adapters["ccip"]), receiver):
        content += bytes([len(value)]) + value
    for value in (b"", tokens, envelope):
        content += len(value).to_bytes(2, "big") + value
    return content


def ccip_log(content: bytes, *, sender: str | None = None, emitter: str | None = None) -> Log:
    destination = encode(["uint64"], [CcipContracts.of(DESTINATION).selector])
    topics = (MESSAGE_SENT, destination, to_bytes32(sender or SOURCE.adapters["ccip"]), keccak(content))
    types = ["address", "uint256", "bytes", "(address,uint32,uint32,uint256,bytes)[]", "bytes[]"]
    data = encode(types, [address("token"), 0, content, [], []])
    return log(emitter or str(CcipContracts.of(SOURCE).on_ramp), topics, data, 3)


def ccip_logs(sent: Sent) -> list[Log]:
    content = packed(sent.envelope, sender=sent.sender, destination=sent.destination)
    return [ccip_log(content, sender=sent.sender, emitter=sent.emitter)]


LOGS: dict[Gmp, Callable[[Sent], list[Log]]] = {
    Gmp.HYPERLANE: hyperlane_logs,
    Gmp.AXELAR: axelar_logs,
    Gmp.WORMHOLE: wormhole_logs,
    Gmp.LAYERZERO: layerzero_logs,
    Gmp.CCIP: ccip_logs,
}


def dispatches(gmp: Gmp, sent: Sent) -> list[Dispatch]:
    return adapter(gmp).dispatches(ALPHA, LOGS[gmp](sent))


@every_gmp
def test_own_dispatch_is_recognised_and_pinned_to_its_log(gmp: Gmp) -> None:
    sent = own_message()
    (found,) = dispatches(gmp, Sent(envelope=sent.encode()))
    assert (found.gmp, found.message_id, found.envelope) == (gmp, sent.id, sent.encode())
    assert (found.source_chain, found.destination_chain) == (ALPHA, BETA)
    assert (found.block_number, found.block_hash, found.log_index) == (10, block(10).hash, 3)
    assert found.transaction_hash == word("transaction")


@every_gmp
def test_watch_covers_emitters_and_topics(gmp: Gmp) -> None:
    watch = adapter(gmp).watch(ALPHA)
    logs = LOGS[gmp](Sent(envelope=own_message().encode()))
    assert {one.address for one in logs} == set(watch.addresses)
    assert {one.topics[0] for one in logs} == set(watch.topics)


@every_gmp
def test_another_sender_is_not_waybill(gmp: Gmp) -> None:
    assert dispatches(gmp, Sent(sender=address("stranger"), envelope=own_message().encode())) == []


@every_gmp
def test_dispatch_of_another_own_adapter_is_recognised(gmp: Gmp) -> None:
    """An adapter that was replaced, or that has just taken the place of the one in the deployments file."""
    envelope = own_message().encode()
    for number in range(1, 8):
        sender = created_adapter(SOURCE.router, int(gmp), number)
        (found,) = dispatches(gmp, Sent(sender=sender, envelope=envelope))
        stated = {"sender", "source_address", "emitter"} & found.evidence.keys()
        assert {str(found.evidence[name])[-40:].lower() for name in stated} <= {sender[2:].lower()}


@every_gmp
@pytest.mark.parametrize(
    ("router", "number", "is_of_gmp"),
    [(SOURCE.router, 8, True), (SOURCE.router, 1, False), (DESTINATION.router, 1, True)],
    ids=["number that no router creates", "another GMP", "another router"],
)
def test_adapter_of_another_creator_is_not_recognised(gmp: Gmp, router: str, number: int, is_of_gmp: bool) -> None:
    sender = created_adapter(router, int(gmp) + (not is_of_gmp), number)
    assert dispatches(gmp, Sent(sender=sender, envelope=own_message().encode())) == []


@every_gmp
def test_equal_log_of_another_contract_is_ignored(gmp: Gmp) -> None:
    assert dispatches(gmp, Sent(emitter=address("decoy"), envelope=own_message().encode())) == []


@every_gmp
def test_envelope_with_a_wrong_id_is_ignored(gmp: Gmp) -> None:
    envelope = own_message().encode()
    assert dispatches(gmp, Sent(envelope=envelope[:1] + word("another id") + envelope[33:])) == []
    assert dispatches(gmp, Sent(envelope=envelope + b"!")) == []


@every_gmp
@pytest.mark.parametrize(
    "changes",
    [
        {"source_chain": 1},
        {"source_chain": BETA},
        {"source_router": to_bytes32(address("another router"))},
        {"destination_chain": 1},
    ],
    ids=["unknown source", "other source", "other router", "unknown destination"],
)
def test_a_message_of_another_deployment_is_left_out(gmp: Gmp, changes: dict[str, object]) -> None:
    assert dispatches(gmp, Sent(envelope=own_message(**changes).encode())) == []


@for_each_case("gmp", [gmp for gmp in GMPS if gmp is not Gmp.WORMHOLE])
def test_message_with_another_destination_at_the_gmp_is_ignored(gmp: Gmp) -> None:
    assert dispatches(gmp, Sent(envelope=own_message().encode(), destination=SOURCE)) == []


@every_gmp
def test_chain_without_the_gmp_is_not_watched(gmp: Gmp) -> None:
    document = DEPLOYMENT.model_dump(by_alias=True)
    del document["chains"][1]["adapters"][gmp.label]
    lacking = adapter(gmp, Deployment.model_validate(document))
    assert lacking.watch(BETA).addresses == ()
    assert lacking.dispatches(BETA, LOGS[gmp](Sent(envelope=own_message().encode()))) == []
    assert lacking.dispatches(ALPHA, LOGS[gmp](Sent(envelope=own_message().encode()))) == []


@every_gmp
@given(envelope=st.binary(max_size=600), data=st.binary(max_size=600), cut=st.integers(0, 4))
def test_nothing_that_a_log_holds_stops_the_adapter(gmp: Gmp, envelope: bytes, data: bytes, cut: int) -> None:
    assert dispatches(gmp, Sent(envelope=envelope)) == []
    logs = LOGS[gmp](Sent(envelope=own_message().encode()))
    assert adapter(gmp).dispatches(ALPHA, [replace(one, data=data) for one in logs]) == []
    assert len(adapter(gmp).dispatches(ALPHA, [replace(one, topics=one.topics[:cut]) for one in logs])) <= 1


NO_ADDRESS = b"\x01" + bytes(31)


def test_unusable_layerzero_packet_is_ignored() -> None:
    sent, layerzero = Sent(envelope=own_message().encode()), adapter(Gmp.LAYERZERO)
    assert layerzero.dispatches(ALPHA, layerzero_logs(sent, receiver=NO_ADDRESS)) == []
    assert layerzero.dispatches(ALPHA, layerzero_logs(sent, version=2)) == []


def test_a_layerzero_dispatch_holds_all_of_its_packet() -> None:
    (sent,) = layerzero_logs(Sent(envelope=own_message().encode()))
    (found,) = adapter(Gmp.LAYERZERO).dispatches(ALPHA, [sent])
    packet = Packet.of_log(sent, sent.address)
    assert packet is not None
    assert Packet.of_dispatch(found) == packet
    assert (packet.nonce, packet.source_eid, packet.destination_eid) == (7, 30_001, 30_002)
    assert (packet.receiver, packet.guid) == (DESTINATION.adapters["layerzero"], word("guid"))
    assert packet.payload_hash == keccak(word("guid") + found.envelope)


class Delivered:
    """A destination whose router has the receipt, and whose GMP refuses all that was delivered before."""

    chain_id = BETA

    async def call(self, call: Call, **_: object) -> bytes:
        if call.to == DESTINATION.router and call.data[:4] == ROUTER.selector("hasReceived"):
            return encode(["bool"], [True])
        raise CallRevertedError(b"")


@every_gmp
async def test_what_was_delivered_before_is_done_and_needs_no_call(gmp: Gmp) -> None:
    (dispatch,) = dispatches(gmp, Sent(envelope=own_message().encode()))
    chain = cast(Chain, Delivered())
    adapter = adapter_class(gmp)(DEPLOYMENT, {ALPHA: chain, BETA: chain}, NoAttester())
    assert await adapter.next_call(dispatch, b"") is None
