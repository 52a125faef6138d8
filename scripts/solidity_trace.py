"""Finds the Solidity files whose code runs in the transactions of an anvil chain.

A transaction's steps have program counters, and the compiler's source maps give each its file. An address is matched with an
artifact by its code, so no list of addresses is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

ROOT: Final = Path(__file__).resolve().parents[1]
FORGE: Final = ROOT / "build" / "tools" / "bin" / "forge"
CONTRACTS: Final = "contracts"

_CALLS: Final = frozenset({"CALL", "CALLCODE", "DELEGATECALL", "STATICCALL"})
_PUSH1, _PUSH32 = 0x60, 0x7F
_TIMEOUT: Final = 60  # seconds for one trace


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract.

    Attributes:
        code: its code on chain, with zeros in the place of immutable values.
        immutables: where those are: first byte and length.
        files: by byte of the code, the file that an instruction there comes from; none: the compiler made it up.
    """

    code: bytes
    immutables: tuple[tuple[int, int], ...]
    files: dict[int, str]

    def is_at(self, code: bytes) -> bool:
        """Whether that is this contract's code, whatever its immutable values are."""
        if len(code) != len(self.code):
            return False
        blank = bytearray(code)
        for start, length in self.immutables:
            blank[start : start + length] = bytes(length)
        return bytes(blank) == self.code


def compile_contracts(work: Path) -> list[Artifact]:
    """Compile contracts/ as they are deployed, and at once: files compiled apart from each other would have the same numbers in their source maps.

    Raises:
        CalledProcessError: they do not compile.
    """
    places = {"FOUNDRY_OUT": str(work / "out"), "FOUNDRY_CACHE_PATH": str(work / "cache")}
    environment = {**os.environ, **places, "FOUNDRY_PROFILE": "release"}
    command = [str(FORGE), "build", CONTRACTS, "--force", "--quiet"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    documents = [json.loads(path.read_text()) for path in sorted((work / "out").glob("*.sol/*.json"))]
    numbers = {document["id"]: _file_of(document) for document in documents}
    return [_artifact(document, numbers) for document in documents if document["deployedBytecode"]["object"] != "0x"]


def _file_of(document: dict[str, Any]) -> str:
    (file,) = document["metadata"]["settings"]["compilationTarget"]
    return str(file)


def _artifact(document: dict[str, Any], numbers: dict[int, str]) -> Artifact:
    deployed = document["deployedBytecode"]
    code = bytes.fromhex(deployed["object"].removeprefix("0x"))
    references = deployed.get("immutableReferences", {}).values()
    positions = [(one["start"], one["length"]) for group in references for one in group]
    files = {
        position: numbers[number]
        for position, number in zip(instructions(code), file_numbers(deployed["sourceMap"]), strict=False)
        if number in numbers
    }
    return Artifact(code, tuple(positions), files)


def instructions(code: bytes) -> Iterator[int]:
    """The position of each instruction: what PUSH pushes is none."""
    position = 0
    while position < len(code):
        yield position
        instruction = code[position]
        position += 1 + (instruction - _PUSH1 + 1 if _PUSH1 <= instruction <= _PUSH32 else 0)


def file_numbers(source_map: str) -> Iterator[int]:
    """The number of each instruction's file; what an entry leaves out is as in the one before."""
    number = -1
    for entry in source_map.split(";"):
        parts = entry.split(":")
        if len(parts) > 2 and parts[2]:
            number = int(parts[2])
        yield number


@dataclass(slots=True)
class SolidityTrace:
    """Reads the transactions of one chain."""

    url: str
    artifacts: list[Artifact]
    _known: dict[str, Artifact | None] = field(default_factory=dict)

    def head(self) -> int:
        """The number of the chain's newest block."""
        return int(self._rpc("eth_blockNumber"), 16)

    def files(self, first: int, last: int) -> set[str]:
        """The files below contracts/ whose code ran in the transactions of some blocks."""
        blocks = [self._rpc("eth_getBlockByNumber", hex(number), True) for number in range(first, last + 1)]
        return {file for block in blocks for sent in block["transactions"] for file in self._files_of(sent)}

    def _files_of(self, sent: dict[str, Any]) -> Iterator[str]:
        # Of what is mined, anvil keeps no steps unless it is told to: the call is made again on the block before.
        call = {name: sent[name] for name in ("from", "to", "gas", "value", "input")}
        before = hex(int(sent["blockNumber"], 16) - 1)
        found = self._rpc("debug_traceCall", call, before, {"disableStorage": True, "disableMemory": True})
        receipt = self._rpc("eth_getTransactionReceipt", sent["hash"])
        if found["failed"] == (receipt["status"] == "0x1"):
            raise RuntimeError(f"transaction {sent['hash']} ends otherwise on the block before its own")
        steps = found["structLogs"]
        running = [str(sent["to"]).lower()]
        for number, step in enumerate(steps):
            del running[step["depth"] :]
            artifact = self._artifact_at(running[-1])
            file = artifact.files.get(step["pc"], "") if artifact else ""
            if file.startswith(f"{CONTRACTS}/"):
                yield file
            enters = number + 1 < len(steps) and steps[number + 1]["depth"] > step["depth"]
            if enters:
                # A call names the address whose code runs; CREATE does not, and its code is not deployed code.
                running.append(_address(step["stack"][-2]) if step["op"] in _CALLS else "")

    def _artifact_at(self, address: str) -> Artifact | None:
        if address not in self._known:
            code = bytes.fromhex(self._rpc("eth_getCode", address, "latest").removeprefix("0x")) if address else b""
            self._known[address] = next((one for one in self.artifacts if one.is_at(code)), None)
        return self._known[address]

    def _rpc(self, method: str, *params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = httpx.post(self.url, json=request, timeout=_TIMEOUT, trust_env=False).json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


def _address(word: str) -> str:
    return "0x" + word.removeprefix("0x").rjust(40, "0")[-40:]
