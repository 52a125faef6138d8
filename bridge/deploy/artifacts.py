"""Waybill's compiled contracts.

In a checkout, forge compiles them. An installed package contains the compiled contracts. The package build runs
this module before any dependency is installed, so it only uses the standard library.
"""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
COMPILED: Final = Path(__file__).resolve().parent / "compiled"

_PROFILE: Final = "release"  # foundry.toml's profile for deployed contracts
_FORGE: Final = CHECKOUT / "build" / "tools" / "bin" / "forge"
_FORGE_HOME: Final = CHECKOUT / "build" / "cache" / "forge-home"
_CONTRACTS: Final = (
    "contracts/Router.sol",
    "contracts/RouterExtension.sol",
    "contracts/atomic/AtomicCoordinator.sol",
    "contracts/examples/AtomicAssets.sol",
    "contracts/examples/Inbox.sol",
    "contracts/governance/Parameters.sol",
    "contracts/relaying/BoundedMulticall.sol",
)
_TAIL: Final = 12  # lines of output that an error shows


class ForgeError(Exception):
    """The contracts are not compiled or can't be compiled. The message contains the end of forge's output."""


def is_checkout() -> bool:
    """Returns whether this is a checkout with the contracts' sources, not an installed package."""
    return (CHECKOUT / "foundry.toml").exists()


def creation_code(name: str) -> bytes:
    """Returns the bytecode, without constructor arguments, of a contract that `compile_contracts` has compiled.

    Raises:
        ForgeError: the contract is not compiled.
    """
    try:
        document = json.loads((COMPILED / f"{name}.json").read_text())
    except FileNotFoundError:
        hint = "run `make setup`" if is_checkout() else "install a package that `make dist` has built"
        raise ForgeError(f"the contracts are not compiled: {COMPILED / name}.json is missing; {hint}") from None
    return bytes.fromhex(document["bytecode"][2:])


async def compile_contracts() -> None:
    """Compiles the contracts in a checkout. Does nothing in an installed package, which contains them.

    Raises:
        ForgeError: forge is missing or failed.
    """
    if not is_checkout():
        return
    await _forge("build", "contracts")
    out = CHECKOUT / tomllib.loads((CHECKOUT / "foundry.toml").read_text())["profile"][_PROFILE]["out"]
    COMPILED.mkdir(exist_ok=True)
    adapters = sorted(path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "contracts/adapters").glob("*.sol"))
    for source in (*_CONTRACTS, *adapters):
        name = Path(source).stem
        bytecode = json.loads((out / f"{name}.sol" / f"{name}.json").read_text())["bytecode"]["object"]
        if bytecode != "0x":  # abstract otherwise
            _write(f"{name}.json", {"bytecode": bytecode})


def _write(name: str, document: dict[str, str]) -> None:
    """Replaces a file atomically, because another deployment may be reading it."""
    target, text = COMPILED / name, json.dumps(document, indent=1) + "\n"
    if target.exists() and target.read_text() == text:
        return
    fresh = target.with_name(f".{name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(target)


async def _forge(*arguments: str) -> None:
    if not _FORGE.exists():
        raise ForgeError(f"forge not found at {_FORGE}; run `make setup`")
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
