"""Waybill's compiled contracts: their bytecode, and the compiler input that block explorers need to verify them.

In a checkout, forge compiles them. An installed package contains the output from when it was built; because the build
runs this
module before any dependency is installed, it uses the standard library alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
COMPILED: Final = Path(__file__).resolve().parent / "compiled"

_PROFILE: Final = "release"  # foundry.toml's profile for deployed contracts
_FORGE: Final = CHECKOUT / "build" / "tools" / "bin" / "forge"
_FORGE_HOME: Final = CHECKOUT / "build" / "cache" / "forge-home"
_SOURCES: Final = "sources.json"
_CONTRACTS: Final = (
    "contracts/Router.sol",
    "contracts/RouterExtension.sol",
    "contracts/atomic/AtomicCoordinator.sol",
    "contracts/examples/AtomicAssets.sol",
    "contracts/examples/Inbox.sol",
    "contracts/governance/Parameters.sol",
    "contracts/relaying/BoundedMulticall.sol",
)
_OUTPUTS: Final = ["abi", "evm.bytecode.object"]
_TAIL: Final = 12  # lines of output that an error shows


class ForgeError(Exception):
    """The contracts are not compiled or cannot be compiled; the message contains the end of forge's output."""


def is_checkout() -> bool:
    """Returns whether this is a clone of the repository with the contracts' sources, not an installed package."""
    return (CHECKOUT / "foundry.toml").exists()


@dataclass(frozen=True, slots=True)
class Artifact:
    """One compiled contract."""

    name: str
    source: str  # path as passed to the compiler
    compiler: str  # version with commit
    bytecode: bytes  # without constructor arguments
    settings: dict[str, Any]  # compiler settings
    sources: tuple[str, ...]  # paths of all source files

    @classmethod
    def load(cls, name: str) -> Artifact:
        """Reads a contract that `compile_contracts` has compiled.

        Raises:
            ForgeError: the contract is not compiled.
        """
        document = _read(f"{name}.json")
        return cls(
            name=name,
            source=document["source"],
            compiler=document["compiler"],
            bytecode=bytes.fromhex(document["bytecode"][2:]),
            settings=document["settings"],
            sources=tuple(document["sources"]),
        )

    def standard_json(self) -> dict[str, Any]:
        """Returns the compiler's standard JSON input for this contract, as Sourcify and Etherscan take it."""
        texts: dict[str, str] = _read(_SOURCES)
        return {
            "language": "Solidity",
            "sources": {path: {"content": texts[path]} for path in self.sources},
            "settings": self.settings | {"outputSelection": {self.source: {self.name: _OUTPUTS}}},
        }


async def compile_contracts() -> None:
    """Compiles the contracts in a checkout; does nothing in an installed package, which contains them.

    Raises:
        ForgeError: forge is missing or failed.
    """
    if not is_checkout():
        return
    await _forge("build", "contracts")
    out = CHECKOUT / tomllib.loads((CHECKOUT / "foundry.toml").read_text())["profile"][_PROFILE]["out"]
    COMPILED.mkdir(exist_ok=True)
    sources: dict[str, str] = {}
    adapters = sorted(path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "contracts/adapters").glob("*.sol"))
    for source in (*_CONTRACTS, *adapters):
        name = Path(source).stem
        artifact = json.loads((out / f"{name}.sol" / f"{name}.json").read_text())
        if artifact["bytecode"]["object"] == "0x":
            continue  # abstract
        metadata = artifact["metadata"]
        settings = {key: value for key, value in metadata["settings"].items() if key != "compilationTarget"}
        sources |= {path: (CHECKOUT / path).read_text() for path in metadata["sources"]}
        document = {
            "source": source,
            "compiler": metadata["compiler"]["version"],
            "bytecode": artifact["bytecode"]["object"],
            "settings": settings,
            "sources": sorted(metadata["sources"]),
        }
        _write(f"{name}.json", document)
    _write(_SOURCES, dict(sorted(sources.items())))


def _read(name: str) -> Any:
    try:
        return json.loads((COMPILED / name).read_text())
    except FileNotFoundError:
        hint = "run `make setup`" if is_checkout() else "install a package that `make dist` has built"
        raise ForgeError(f"the contracts are not compiled: {COMPILED / name} is missing; {hint}") from None


def _write(name: str, document: dict[str, Any]) -> None:
    """Replaces a file atomically, because another deployment may be reading it."""
    target, text = COMPILED / name, json.dumps(document, indent=1) + "\n"
    if target.exists() and target.read_text() == text:
        return
    fresh = target.with_name(f".{name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(target)


async def _forge(*arguments: str) -> None:
    if not _FORGE.exists():
        raise ForgeError(f"forge is missing ({_FORGE}); run `make setup`")
    process = await asyncio.create_subprocess_exec(
        str(_FORGE),
        *arguments,
        cwd=CHECKOUT,
        # forge keeps its caches in its home directory.
        env={**os.environ, "FOUNDRY_PROFILE": _PROFILE, "NO_COLOR": "1", "HOME": str(_FORGE_HOME)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    text = output.decode(errors="replace")
    if process.returncode:
        raise ForgeError(
            f"compiling the contracts failed (forge exited with status {process.returncode}):\n{_relevant(text)}"
        )


def _relevant(output: str) -> str:
    """Returns forge's output from its first error on, or its last lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.lstrip().startswith("Error")]
    return "\n".join((lines[errors[0] :] if errors else lines[-_TAIL:])[:_TAIL])


if __name__ == "__main__":
    asyncio.run(compile_contracts())
