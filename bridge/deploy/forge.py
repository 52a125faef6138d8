"""Runs the Foundry script that deploys one chain."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.protocol.gmps import Gmp

CHECKOUT: Final = Path(__file__).resolve().parents[2]
FORGE: Final = CHECKOUT / "build" / "tools" / "bin" / "forge"
FORGE_HOME: Final = CHECKOUT / "build" / "cache" / "forge-home"
SCRIPT: Final = "scripts/Deploy.s.sol"

ROUTER: Final = "router"  # what the script calls it among the things done

_TAIL = 12  # lines of output that an error shows


def how_to_get() -> str:
    """What brings the contracts and the tools that deploy them: set-up, which only a clone of the repository has."""
    if (CHECKOUT / "foundry.toml").exists():
        return "run `make setup`"
    return (
        "the installed package has neither contracts nor chains: clone the repository, run `make setup` in it, and use its"
        " .venv/bin/waybill"
    )


class ForgeError(Exception):
    """forge is missing or failed; the text carries the end of what it said."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What the script found or made on one chain."""

    start_block: int  # the newest block before the script sent anything
    router: str
    adapters: Mapping[str, str]  # by the GMP's name
    parameters: str
    multicall: str
    examples: Mapping[str, str]
    done: tuple[str, ...]  # what was missing and is there now, in order

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ScriptResult:
        """The result from the file that the script wrote."""
        return cls(
            start_block=document["startBlock"],
            router=document["router"],
            adapters={gmp.label: document[gmp.label] for gmp in Gmp if gmp.label in document},
            parameters=document["parameters"],
            multicall=document["multicall"],
            examples={name: document[name] for name in ("inbox", "heartbeats") if name in document},
            done=tuple(document["done"]),
        )


async def compile_script() -> None:
    """Compiles what the script needs; done once, so that chains can be deployed at the same time.

    Raises:
        ForgeError: the compiler refused.
    """
    await _forge("compiling the contracts", ["build", "contracts", SCRIPT], {})


async def run_script(*, plan: Path, result: Path, rpc_url: str, key: str) -> ScriptResult:
    """Brings one chain to the state that the plan describes.

    Args:
        plan: the plan for all chains.
        result: where the script writes what it did.
        rpc_url: the chain's endpoint; it says which chain of the plan this is.
        key: the owner's private key.

    Raises:
        ForgeError: the script failed.
    """
    # Keys and endpoints go by the environment: a command line is open to every user of the machine.
    environment = {
        "WAYBILL_PLAN": str(plan.relative_to(CHECKOUT)),
        "WAYBILL_RESULT": str(result.relative_to(CHECKOUT)),
        "WAYBILL_DEPLOYER_KEY": key,
        "FOUNDRY_ETH_RPC_URL": rpc_url,
    }
    # One transaction at a time: of several, anvil may leave one in its pool for as long as nothing else comes.
    await _forge("deploying", ["script", SCRIPT, "--broadcast", "--slow", "--offline"], environment)
    return ScriptResult.from_json(json.loads(await asyncio.to_thread(result.read_text)))


async def _forge(what: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    if not FORGE.exists():
        raise ForgeError(f"forge is missing ({FORGE}); {how_to_get()}")
    process = await asyncio.create_subprocess_exec(
        str(FORGE),
        *arguments,
        cwd=CHECKOUT,
        env={**os.environ, **environment, "NO_COLOR": "1", "HOME": str(FORGE_HOME)},  # it keeps caches there
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
        raise ForgeError(f"{what} failed (forge ended with code {process.returncode}):\n{_essence(text)}")


def _essence(output: str) -> str:
    """The lines of forge's output from its error on, or the last ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.lstrip().startswith("Error")]
    return "\n".join((lines[errors[0] :] if errors else lines[-_TAIL:])[:_TAIL])
