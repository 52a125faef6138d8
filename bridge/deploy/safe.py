"""What a Safe does: batches that the Safe's own app imports, and the hashes that its owners compare before they sign."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import encode
from eth_abi.packed import encode_packed
from eth_utils import keccak

from bridge.deploy.preview import Estimate, simulated
from bridge.deploy.sending import MOST_GAS
from bridge.deploy.transactions import DeployError, Transaction
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, UnansweredError, read_view

MULTI_SEND_CALL_ONLY: Final = {
    "1.3.0": "0x40A2aCCbd92BCA938b02010E17A5b8929b49130D",
    "1.4.1": "0x9641d764fc13c8B624c04430C7356C1C7C8102e2",
}
"""By the Safe's version: through which contract its app executes a batch. It has this address on all chains."""

_SAFE: Final = contract(
    "VERSION() returns (string)",
    "nonce() returns (uint256)",
    "getOwners() returns (address[])",
    "getThreshold() returns (uint256)",
)
_MULTI_SEND: Final = contract("multiSend(bytes)")
_DOMAIN: Final = keccak(text="EIP712Domain(uint256 chainId,address verifyingContract)")
_SAFE_TX: Final = keccak(
    text="SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,"
    "address gasToken,address refundReceiver,uint256 nonce)"
)
_NOBODY: Final = "0x" + "00" * 20
_ROOM: Final = 9, 10  # of the gas that a chain takes for one transaction: the Safe's own checks need some
_TX_BUILDER: Final = "1.18.2"  # the version of the app whose files these are


@dataclass(frozen=True, slots=True)
class SafeTransaction:
    """What the owners sign for a batch: what the Safe calls, and how."""

    chain_id: int
    safe: str
    nonce: int
    to: str
    data: bytes
    operation: int  # 0: call, 1: delegatecall

    @property
    def domain_hash(self) -> bytes:
        """Names the chain and the Safe."""
        return keccak(encode(["bytes32", "uint256", "address"], [_DOMAIN, self.chain_id, self.safe]))

    @property
    def message_hash(self) -> bytes:
        """Names what is done. A hardware wallet shows it and the domain's."""
        types = ["bytes32", "address", "uint256", "bytes32", "uint8", *["uint256"] * 3, *["address"] * 2, "uint256"]
        values = [_SAFE_TX, self.to, 0, keccak(self.data), self.operation, 0, 0, 0, _NOBODY, _NOBODY, self.nonce]
        return keccak(encode(types, values))

    @property
    def hash(self) -> bytes:
        """The Safe's transaction hash: what the owners sign."""
        return keccak(b"\x19\x01" + self.domain_hash + self.message_hash)


@dataclass(frozen=True, slots=True)
class Batch:
    """Transactions that a Safe executes as one."""

    chain: str
    file: Path
    title: str
    estimates: tuple[Estimate, ...]
    signed: SafeTransaction

    @property
    def gas(self) -> int:
        """All calls' together."""
        return sum(estimate.gas for estimate in self.estimates)


async def make_batches(
    name: str, transactions: Sequence[Transaction], chain: EvmChain, safe: str, folder: Path
) -> list[Batch]:
    """Transactions as batches, each small enough for one transaction. Batches are executed in their order.

    Args:
        name: of the chain.
        transactions: what the Safe is to do there.
        chain: where.
        safe: which has the role that they take.
        folder: where the files will be.

    Raises:
        DeployError: there is no Safe of a known version, or a transaction would be refused.
    """
    if not transactions:
        return []
    version, nonce = await require_safe(name, chain, safe)
    parts = list(_split(await simulated(name, chain, safe, transactions)))
    multi_send = MULTI_SEND_CALL_ONLY[version]
    if any(len(part) > 1 for part in parts) and not await chain.code(multi_send):
        raise DeployError(f"chain {name!r} has no MultiSendCallOnly of Safe {version} at {multi_send}")
    batches = []
    for number, part in enumerate(parts):
        signed = _to_sign(chain.chain_id, safe, nonce + number, multi_send, part)
        title = f"Waybill on {name}, {number + 1} of {len(parts)}"
        batches.append(Batch(name, folder / name / f"{number + 1}.json", title, part, signed))
    return batches


def save(batches: Sequence[Batch], folder: Path) -> None:
    """Writes the files of batches, and removes those of an earlier run."""
    for old in folder.glob("*/*.json"):
        old.unlink()
    for batch in batches:
        batch.file.parent.mkdir(parents=True, exist_ok=True)
        batch.file.write_text(json.dumps(_batch_file(batch), indent=2) + "\n")


async def require_safe(name: str, chain: EvmChain, safe: str) -> tuple[str, int]:
    """The version and the next nonce of a Safe on a chain of that name.

    Raises:
        DeployError: there is no Safe of a known version.
    """
    if not await chain.code(safe):
        raise DeployError(
            f"chain {name!r} has no Safe at {safe}, and no contract at all: create the Safe there at this address, or correct"
            " --safe"
        )
    try:
        version = str(await read_view(chain, _SAFE, safe, "VERSION"))
        nonce = int(await read_view(chain, _SAFE, safe, "nonce"))
        for function in ("getOwners", "getThreshold"):  # a Safe that was not set up has none, and refuses the first
            await read_view(chain, _SAFE, safe, function)
    except (UnansweredError, CallRevertedError) as error:
        raise DeployError(f"chain {name!r} has no Safe at {safe}: {error}") from error
    version = version.removesuffix("+L2")
    if version not in MULTI_SEND_CALL_ONLY:
        known = " and ".join(MULTI_SEND_CALL_ONLY)
        raise DeployError(f"chain {name!r}: the Safe {safe} is of version {version}; batches are for {known}")
    return version, nonce


def _split(estimates: Sequence[Estimate]) -> Iterator[tuple[Estimate, ...]]:
    part: list[Estimate] = []
    for estimate in estimates:
        if part and sum(one.gas for one in part) + estimate.gas > MOST_GAS * _ROOM[0] // _ROOM[1]:
            yield tuple(part)
            part = []
        part.append(estimate)
    yield tuple(part)


def _to_sign(chain_id: int, safe: str, nonce: int, multi_send: str, part: Sequence[Estimate]) -> SafeTransaction:
    calls = [estimate.transaction for estimate in part]
    if len(calls) == 1:
        return SafeTransaction(chain_id, safe, nonce, calls[0].to, calls[0].data, 0)
    types = ["uint8", "address", "uint256", "uint256", "bytes"]
    packed = b"".join(encode_packed(types, [0, call.to, 0, len(call.data), call.data]) for call in calls)
    return SafeTransaction(chain_id, safe, nonce, multi_send, _MULTI_SEND.encode("multiSend", packed), 1)


def _batch_file(batch: Batch) -> dict[str, Any]:
    """A file of Safe's transaction builder, as github.com/safe-global/safe-react-apps writes it."""
    calls = [estimate.transaction for estimate in batch.estimates]
    meta = {
        "name": batch.title,
        "description": ", ".join(call.name for call in calls),
        "txBuilderVersion": _TX_BUILDER,
        "createdFromSafeAddress": batch.signed.safe,
        "createdFromOwnerAddress": "",
    }
    transactions = [
        {
            "to": call.to,
            "value": "0",
            "data": f"0x{call.data.hex()}",
            "contractMethod": None,
            "contractInputsValues": None,
        }
        for call in calls
    ]
    document = {
        "version": "1.0",
        "chainId": str(batch.signed.chain_id),
        "createdAt": 0,  # the same batch makes the same file
        "meta": meta,
        "transactions": transactions,
    }
    return document | {"meta": meta | {"checksum": checksum(document)}}


def checksum(document: dict[str, Any]) -> str:
    """What the app compares an imported file with: the hash of all but the name, with sorted keys."""
    return "0x" + keccak(text=_serialised(document | {"meta": document["meta"] | {"name": None}})).hex()


def _serialised(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_serialised, value))}]"
    if isinstance(value, dict):
        keys = sorted(value)
        return "{" + _json(keys) + "".join(f"{_serialised(value[key])}," for key in keys) + "}"
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
