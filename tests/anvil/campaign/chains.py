"""The routers under test, on two anvils, and what they are asked and answer."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.grammar import parse
from eth_utils import keccak
from eth_utils.abi import abi_to_signature, collapse_if_tuple

from bridge.devnet.paths import ANVIL
from bridge.protocol.events import load_abi
from bridge.protocol.message import Message
from tests.anvil.campaign.records import (
    MESSAGE,
    Call,
    Conduct,
    Profile,
    RevertError,
    bits,
    fields,
    interoperable,
    word,
)
from tests.anvil.rpc import free_ports
from tests.waiting import eventually

GAS = 16_000_000
PROFILE = "(uint16,uint8,uint64,uint32,uint8,bool,uint40)"
_FEES = "(uint8,uint256)[]"
_SIGNATURES = {
    "route": f"route((uint64,bytes32,bytes,uint64,uint32,uint8,uint8,bytes32,bool,uint8,{_FEES},address))",
    "retry_route": f"retryRoute((bytes32,{MESSAGE},uint8,{_FEES},address))",
    "send_message": "sendMessage(bytes,bytes,bytes[])",
    "fund": f"fund({MESSAGE},address)",
    "cancel": f"cancel({MESSAGE},uint8,{_FEES},address)",
    "report": f"report({MESSAGE},uint8,{_FEES},address)",
    "appoint_retrier": "appointRetrier(address)",
    "credit_surplus": "creditSurplus(address)",
    "withdraw": "withdraw(address)",
    "receive_message": "receiveMessage(uint64,bytes)",
    "execute": f"execute({MESSAGE})",
    "expire": f"expire({MESSAGE})",
    "add_adapter": "addAdapter(uint8,address)",
    "replace_adapter": "replaceAdapter(uint8,address)",
    "revoke_adapter": "revokeAdapter(uint8)",
    "set_peer": "setPeer(uint64,bytes32,uint8)",
    "revoke_peer": "revokePeer(uint64,bytes32)",
    "set_floor": "setFloor(uint64,uint8)",
    "set_policy": "setPolicy(uint64,uint8,uint16)",
    "pause_gmp": "pauseGmp(uint8,uint48)",
    "end_gmp_pause": "endGmpPause(uint8)",
    "pause_lane": "pauseLane(uint64,uint48)",
    "end_lane_pause": "endLanePause(uint64)",
}


class AnvilError(Exception):
    """An anvil does not do what it is asked."""


def call_data(signature: str, *arguments: Any) -> bytes:
    """What a contract is called with."""
    selector, types = keccak(text=signature)[:4], "(" + signature.partition("(")[2]
    if not arguments:
        return selector
    # A dynamic tuple that stands alone has its place before it, which arguments have not.
    return selector + encode([types], [arguments])[32 if parse(types).is_dynamic else 0 :]


def encoded(call: Call) -> bytes:
    """A call of a router as the EVM takes it."""
    return call_data(_SIGNATURES[call.method], *_arguments(call))


def _arguments(call: Call) -> Sequence[Any]:
    arguments: Sequence[Any]
    match call.method, call.arguments:
        case "route", (route,):
            *values, terms = vars(route).values()
            arguments = [(*values, *vars(terms).values())]
        case "retry_route", (stated, message, terms):
            arguments = [(stated, fields(message), *vars(terms).values())]
        case (("cancel" | "report"), (message, terms)):
            arguments = [fields(message), *vars(terms).values()]
        case "receive_message", (origin, stated, message):
            envelope = message.encode()
            arguments = [origin, envelope[:1] + stated + envelope[1 + len(stated) :]]
        case "send_message", (chain, recipient, payload):
            arguments = [interoperable(chain, recipient), payload, []]
        case (("set_peer" | "revoke_peer"), (chain, router, *others)):
            arguments = [chain, word(router), *others]
        case _, others:
            arguments = [_plain(argument) for argument in others]
    return arguments


def _plain(argument: Any) -> Any:
    if isinstance(argument, Message):
        return fields(argument)
    return bits(argument) if isinstance(argument, frozenset) else argument


# ---- events and errors


@dataclass(frozen=True)
class Event:
    """How an event lies in a log."""

    name: str
    indexed: tuple[str, ...]
    others: tuple[str, ...]
    order: tuple[int, ...]
    """Where each argument stands among the indexed ones and the others after them."""


@cache
def double() -> tuple[str, list[dict[str, Any]]]:
    """The code of a double as it runs, in hex, and its ABI."""
    source = Path(__file__).with_name("Double.sol")
    request = {
        "language": "Solidity",
        "sources": {source.name: {"content": source.read_text()}},
        "settings": {"outputSelection": {"*": {"*": ["evm.deployedBytecode.object", "abi"]}}, "evmVersion": "cancun"},
    }
    solc = ANVIL.with_name("solc")
    done = subprocess.run(
        [solc, "--standard-json"], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    output = json.loads(done.stdout)
    assert "contracts" in output, output["errors"]
    contract = output["contracts"][source.name]["Double"]
    return "0x" + contract["evm"]["deployedBytecode"]["object"], contract["abi"]


@cache
def events() -> dict[str, Event]:
    """Events of routers and doubles by topic."""
    found = {}
    for item in [*load_abi("Router"), *double()[1]]:
        if item["type"] == "event":
            types = [collapse_if_tuple(part) for part in item["inputs"]]
            is_indexed = [part["indexed"] for part in item["inputs"]]
            places = [index for index, it in enumerate(is_indexed) if it] + [
                i for i, it in enumerate(is_indexed) if not it
            ]
            topic = "0x" + keccak(text=abi_to_signature(item)).hex()  # type: ignore[arg-type]
            found[topic] = Event(
                item["name"],
                tuple(kind for kind, it in zip(types, is_indexed, strict=True) if it),
                tuple(kind for kind, it in zip(types, is_indexed, strict=True) if not it),
                tuple(places.index(index) for index in range(len(places))),
            )
    return found


@cache
def errors() -> dict[bytes, str]:
    """Names of errors of routers and doubles by selector."""
    items = [*load_abi("Router"), *double()[1]]
    return {keccak(text=abi_to_signature(i))[:4]: i["name"] for i in items if i["type"] == "error"}  # type: ignore[arg-type]


def error_name(data: bytes) -> str:
    """The name of the error that a call reverted with; empty if it gave no reason."""
    return errors().get(data[:4], data.hex()) if any(data[:4]) else ""


def decoded(log: dict[str, Any]) -> tuple[Any, ...]:
    """A log as the model notes events; a reason is its error's name."""
    event = events()[log["topics"][0]]
    topics = [
        decode([kind], bytes.fromhex(topic[2:]))[0]
        for kind, topic in zip(event.indexed, log["topics"][1:], strict=True)
    ]
    data = [*topics, *decode(event.others, bytes.fromhex(log["data"][2:]))]
    arguments = [data[place] for place in event.order]
    if event.name in ("DispatchFailed", "ExecutionFailed", "Called"):
        arguments[-1] = error_name(arguments[-1])
    return (log["address"], event.name, *arguments)


# ---- chains


class Chain:
    """One anvil. A block has one transaction, and time passes only when it is told to."""

    def __init__(self, chain_id: int, port: int, process: subprocess.Popen[bytes]) -> None:
        self.chain_id, self.process = chain_id, process
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        eventually(self._answers, "anvil")

    def _answers(self) -> bool:
        assert self.process.poll() is None, "anvil ended"
        try:
            self.rpc("eth_chainId")
        except ConnectionError:
            self._http.close()
            return False
        return True

    def rpc(self, method: str, *parameters: Any) -> Any:
        """One request.

        Raises:
            AnvilError: anvil refuses it.
        """
        answer = self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        if "error" in answer:
            raise AnvilError(method, answer["error"])
        return answer["result"]

    def rpcs(self, *requests: tuple[Any, ...]) -> None:
        """Several requests whose order does not matter.

        Raises:
            AnvilError: anvil refuses one of them.
        """
        batch = [
            {"jsonrpc": "2.0", "id": n, "method": name, "params": rest} for n, (name, *rest) in enumerate(requests)
        ]
        for answer in self._post(batch):
            if "error" in answer:
                raise AnvilError(answer["error"])

    def _post(self, request: Any) -> Any:
        self._http.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
        return json.loads(self._http.getresponse().read())

    def ask(self, to: str, data: bytes, caller: str | None = None, value: int = 0, gas: int = GAS) -> bytes:
        """What a call answers, without a transaction.

        Raises:
            RevertError: it reverts.
        """
        call = {"to": to, "data": "0x" + data.hex(), "value": hex(value), "gas": hex(gas)}
        answer = self._post(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "eth_call",
                "params": [call | ({"from": caller} if caller else {}), "latest"],
            }
        )
        if "error" in answer:
            error = answer["error"]
            if "data" not in error and "revert" not in error["message"]:
                raise AnvilError(error)
            raise RevertError(error_name(bytes.fromhex(error.get("data", "0x")[2:])))
        return bytes.fromhex(answer["result"][2:])

    def transact(self, caller: str, to: str | None, data: bytes, value: int = 0, gas: int = GAS) -> dict[str, Any]:
        """The receipt of a transaction."""
        transaction = {
            "from": caller,
            "data": "0x" + data.hex(),
            "value": hex(value),
            "gas": hex(gas),
            "gasPrice": "0x0",
        }
        receipt: dict[str, Any] = self.rpc("eth_sendTransactionSync", transaction | ({"to": to} if to else {}))
        return receipt

    def close(self) -> None:
        """Ends it."""
        self._http.close()
        self.process.kill()
        self.process.wait()

    def let_pass(self, now: int) -> None:
        """Sets the time of the newest block and of those to come."""
        self.rpc("evm_setNextBlockTimestamp", now)
        self.rpc("evm_mine")


def start(chain_id: int) -> Chain:
    """Starts an anvil on which calls cost nothing and anybody may be the caller."""
    (port,) = free_ports(1)
    command = [str(ANVIL), "--port", str(port), "--chain-id", str(chain_id), "--silent", "--hardfork", "cancun"]
    command += ["--auto-impersonate", "--gas-limit", "60000000", "--disable-code-size-limit", "--prune-history"]
    command += ["--gas-price", "0", "--block-base-fee-per-gas", "0", "--disable-min-priority-fee"]
    nowhere = subprocess.DEVNULL
    return Chain(chain_id, port, subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere))


def artifact(path: Path | None = None) -> bytes:
    """A router's creation code: of that artifact, or of the one that is deployed."""
    path = path or Path(os.environ.get("WAYBILL_ROUTER", "build/release/out/Router.sol/Router.json"))
    return bytes.fromhex(json.loads(path.read_text())["bytecode"]["object"][2:])


def words(data: bytes) -> list[int]:
    """An answer of a view as its words."""
    return [int.from_bytes(data[place : place + 32], "big") for place in range(0, len(data), 32)]


def conduct_data(conduct: Conduct, routers: Sequence[str]) -> bytes:
    """What a double is told its conduct with."""
    call = conduct.call
    target, value, data = (routers[call.router], call.value, encoded(call)) if call else ("0x" + "00" * 20, 0, b"")
    return call_data("behave(uint8,uint256,address,uint256,bytes)", conduct.mood, conduct.fee, target, value, data)


def profile_data(chain: int, profile: Profile) -> bytes:
    """What a router's profiles are told their default with."""
    gwei = profile.max_fee // 10**9
    values = (bits(profile.gmps), profile.quorum, profile.gas_limit, profile.ttl, 0, profile.retriable, gwei)
    return call_data(f"setDefaultProfile(uint64,{PROFILE})", chain, values)
