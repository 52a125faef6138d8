"""Writes the inputs for source verification at block explorers: standard JSON and constructor arguments by address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from eth_typing import HexAddress, HexStr
from web3.types import Nonce
from web3.utils.address import get_create_address

from bridge.deploy.artifacts import Artifact
from bridge.deploy.transactions import ChainContracts, ChainWork

INDEX = "contracts.json"


def write_sources(works: Sequence[ChainWork], folder: Path) -> None:
    """Writes the standard JSON of each contract, which is the same on all chains, and an index by chain and address."""
    index: dict[str, dict[str, dict[str, str]]] = {}
    for work in works:
        entries = index.setdefault(str(work.planned.chain_id), {})
        for address, artifact, arguments in _contracts(work.contracts):
            _write(folder / f"{artifact.name}.json", artifact.standard_json())
            entries[address] = {
                "contract": f"{artifact.source}:{artifact.name}",
                "compiler": artifact.compiler,
                "constructorArguments": arguments.hex(),
                "standardJson": f"{artifact.name}.json",
            }
    _write(folder / INDEX, index)


def _contracts(contracts: ChainContracts) -> Iterator[tuple[str, Artifact, bytes]]:
    for own in contracts:
        yield own.address, own.artifact, own.arguments
    # The router's constructor creates the extension as its first contract.
    extension: str = get_create_address(HexAddress(HexStr(contracts.router.address)), Nonce(1))
    yield extension, Artifact.load("RouterExtension"), b""


def _write(file: Path, document: object) -> None:
    text = json.dumps(document, indent=1) + "\n"
    if file.exists() and file.read_text() == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
