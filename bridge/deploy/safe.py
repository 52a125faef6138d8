"""Batches for a Safe: files to import into the Safe app, and the hashes that the owners compare before signing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import encode
from eth_abi.packed import encode_packed
from eth_utils import keccak

from bridge.client.client import TRANSACTION_GAS
from bridge.deploy.preview import Estimate, simulated
from bridge.deploy.transactions import DeployError, Transaction
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, UnansweredError, read_view

MULTI_SEND_CALL_ONLY: Final = {
    "1.3.0": "0x40A2aCCbd92BCA938b02010E17A5b8929b49130D",
    "1.4.1": "0x9641d764fc13c8B624c04430C7356C1C7C8102e2",
}
"""Contract that executes batches, by the Safe's version; it has the same address on all chains."""

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
_ROOM: Final = 9, 10  # share of a transaction's gas limit that a batch may use; the Safe's own checks need the rest
_TX_BUILDER: Final = "1.18.2"  # version of the app whose file format this is


@dataclass(frozen=True, slots=True)
class SafeTransaction:
    """The call that a Safe's owners sign for a batch."""

    chain_id: int
    safe: str
    nonce: int
    to: str
    data: bytes
    operation: int  # 0: call, 1: delegatecall

    @property
    def domain_hash(self) -> bytes:
        """Returns the hash of the chain and the Safe."""
        return keccak(encode(["bytes32", "uint256", "address"], [_DOMAIN, self.chain_id, self.safe]))

    @property
    def message_hash(self) -> bytes:
        """Returns the hash of the call. Hardware wallets display it beside the domain hash."""
        types = ["bytes32", "address", "uint256", "bytes32", "uint8", *["uint256"] * 3, *["address"] * 2, "uint256"]
        values = [_SAFE_TX, self.to, 0, keccak(self.data), self.operation, 0, 0, 0, _NOBODY, _NOBODY, self.nonce]
        return keccak(encode(types, values))

    @property
    def hash(self) -> bytes:
        """Returns the Safe's transaction hash, which the owners sign."""
        return keccak(b"\x19\x01" + self.domain_hash + self.message_hash)


@dataclass(frozen=True, slots=True)
class Batch:
    """Transactions that a Safe executes atomically."""

    chain: str
    file: Path
    title: str
    estimates: tuple[Estimate, ...]
    signed: SafeTransaction

    @property
    def gas(self) -> int:
        """Returns the total gas of all calls."""
        return sum(estimate.gas for estimate in self.estimates)


async def make_batches(
    name: str, transactions: Sequence[Transaction], chain: EvmChain, safe: str, folder: Path
) -> list[Batch]:
    """Splits transactions into batches that each fit in one transaction, to be executed in order.

    Args:
        name: Name of the chain.
        transactions: Transactions for the Safe to execute.
        chain: Connection to the chain.
        safe: Address of the Safe.
        folder: Folder for the batches' files.

    Raises:
        DeployError: the address is not a Safe of a supported version, or a transaction would revert.
    """
    if not transactions:
        return []
    version, nonce = await require_safe(name, chain, safe)
    parts = list(_split(await simulated(name, chain, safe, transactions)))
    multi_send = MULTI_SEND_CALL_ONLY[version]
    if any(len(part) > 1 for part in parts) and not await chain.code(multi_send):
        raise DeployError(
            f"chain {name!r} has no MultiSendCallOnly {version} at {multi_send}, which Safe {version} needs for batches"
        )
    batches = []
    for number, part in enumerate(parts):
        signed = _to_sign(chain.chain_id, safe, nonce + number, multi_send, part)
        title = f"Waybill on {name}, {number + 1} of {len(parts)}"
        batches.append(Batch(name, folder / name / f"{number + 1}.json", title, part, signed))
    return batches


def save(batches: Sequence[Batch], folder: Path) -> None:
    """Writes the batches' files, and removes those of an earlier run."""
    for old in folder.glob("*/*.json"):
        old.unlink()
    for batch in batches:
        batch.file.parent.mkdir(parents=True, exist_ok=True)
        batch.file.write_text(json.dumps(_batch_file(batch), indent=2) + "\n")


async def require_safe(name: str, chain: EvmChain, safe: str) -> tuple[str, int]:
    """Returns the version and the next nonce of a Safe.

    Raises:
        DeployError: the address is not a Safe of a supported version.
    """
    if not await chain.code(safe):
        raise DeployError(
            f"chain {name!r} has no contract at {safe}: create the Safe there at this address, or correct --safe"
        )
    try:
        version = str(await read_view(chain, _SAFE, safe, "VERSION"))
        nonce = int(await read_view(chain, _SAFE, safe, "nonce"))
        for function in ("getOwners", "getThreshold"):  # fails for a Safe that was not set up
            await read_view(chain, _SAFE, safe, function)
    except (UnansweredError, CallRevertedError) as error:
        raise DeployError(f"chain {name!r} has no Safe at {safe}: {error}") from error
    version = version.removesuffix("+L2")
    if version not in MULTI_SEND_CALL_ONLY:
        known = " and ".join(MULTI_SEND_CALL_ONLY)
        raise DeployError(f"chain {name!r}: the Safe {safe} has version {version}; supported are {known}")
    return version, nonce


def _split(estimates: Sequence[Estimate]) -> Iterator[tuple[Estimate, ...]]:
    part: list[Estimate] = []
    for estimate in estimates:
        if part and sum(other.gas for other in part) + estimate.gas > TRANSACTION_GAS * _ROOM[0] // _ROOM[1]:
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
    """Returns a file for Safe's transaction builder, in the format of github.com/safe-global/safe-react-apps."""
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
        "createdAt": 0,  # makes files reproducible
        "meta": meta,
        "transactions": transactions,
    }
    return document | {"meta": meta | {"checksum": checksum(document)}}


def checksum(document: dict[str, Any]) -> str:
    """Returns the checksum that the app expects in an imported file.

    This is the hash of the file with sorted keys and without its name.
    """
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
