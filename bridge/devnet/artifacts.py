"""Loads compiled contracts: the GMPs' own, unpacked during set-up, and Waybill's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from eth_abi.abi import encode
from eth_utils import decode_hex
from eth_utils.abi import collapse_if_tuple

from bridge.deploy.artifacts import ForgeError, creation_code
from bridge.devnet.errors import DevnetError
from bridge.devnet.paths import GMP_ARTIFACTS
from bridge.protocol.contracts import Contract
from bridge.protocol.events import Abi, load_abi


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract, ready for deployment."""

    name: str
    abi: Abi
    bytecode: bytes
    contract: Contract

    @classmethod
    @cache
    def load(cls, gmp: str, name: str) -> Artifact:
        """Reads one of a GMP's contracts.

        Raises:
            DevnetError: set-up has not fetched the contract.
        """
        path = GMP_ARTIFACTS / gmp / f"{name}.json"
        try:
            content: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            raise DevnetError(
                f"contract {gmp}/{name} is missing ({path}); run `make setup`, or `waybill devnet up`, which fetches it"
            ) from None
        bytecode = decode_hex(content["bytecode"])
        return cls(f"{gmp}/{name}", content["abi"], bytecode, Contract(content["abi"]))

    @classmethod
    @cache
    def compiled(cls, name: str) -> Artifact:
        """Reads one of Waybill's contracts.

        Raises:
            DevnetError: the contract is not compiled.
        """
        try:
            bytecode = creation_code(name)
        except ForgeError as error:
            raise DevnetError(str(error)) from error
        abi = load_abi(name)
        return cls(name, abi, bytecode, Contract(abi))

    def creation_code(self, *arguments: Any) -> bytes:
        """Returns the bytecode with encoded constructor arguments."""
        types = [
            collapse_if_tuple(field) for item in self.abi if item["type"] == "constructor" for field in item["inputs"]
        ]
        return self.bytecode + encode(types, arguments)
