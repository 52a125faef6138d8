"""The GMPs' own contracts, as set-up unpacked them, and examples of ours, as they were compiled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from eth_abi.abi import encode
from eth_utils import decode_hex
from eth_utils.abi import collapse_if_tuple

from bridge.deploy import artifacts as compiled
from bridge.devnet.errors import DevnetError
from bridge.devnet.paths import GMP_ARTIFACTS
from bridge.protocol.contracts import Contract
from bridge.protocol.events import Abi, load_abi


@dataclass(frozen=True, slots=True)
class Artifact:
    """One contract, ready to be deployed."""

    name: str
    abi: Abi
    bytecode: bytes
    contract: Contract  # its functions

    @classmethod
    @cache
    def load(cls, gmp: str, name: str) -> Artifact:
        """Reads a contract of a GMP.

        Raises:
            DevnetError: set-up has not brought it in.
        """
        path = GMP_ARTIFACTS / gmp / f"{name}.json"
        try:
            content: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            raise DevnetError(
                f"the contract {gmp}/{name} is missing ({path}); run `make setup`, or `waybill devnet up`, which fetches it"
            ) from None
        bytecode = decode_hex(content["bytecode"])
        return cls(f"{gmp}/{name}", content["abi"], bytecode, Contract(content["abi"]))

    @classmethod
    @cache
    def compiled(cls, name: str) -> Artifact:
        """Reads a contract of ours, which a deployment has compiled.

        Raises:
            DevnetError: it is not compiled.
        """
        try:
            bytecode = compiled.Artifact.load(name).bytecode
        except compiled.ForgeError as error:
            raise DevnetError(str(error)) from error
        abi = load_abi(name)
        return cls(name, abi, bytecode, Contract(abi))

    def creation_code(self, *arguments: Any) -> bytes:
        """What a transaction without a recipient carries to create it."""
        types = [
            collapse_if_tuple(field) for item in self.abi if item["type"] == "constructor" for field in item["inputs"]
        ]
        return self.bytecode + encode(types, arguments)
