"""Deploys a network: checks, one script per chain, one deployments file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import encode
from eth_account import Account
from eth_utils import keccak
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.address import to_checksum_address

from bridge.deploy.forge import CHECKOUT, ROUTER, ForgeError, ScriptResult, compile_script, run_script
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.deploy.security import described, require_security
from bridge.evm.chain import EvmChain
from bridge.gmps.registry import adapter_class
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError, GmpSection
from bridge.protocol.gmps import Gmp

Progress = Callable[[str], None]

# The account that creates contracts at addresses their code determines; it is on nearly every chain, at this address.
_CREATE2_FACTORY: Final = "0x4e59b44847b379578588920cA78FbF26c0B4956C"

_ANOTHER_NETWORK: Final = (
    "the deployments file names a router that is deployed, and this checkout and plan would make another one beside it;"
    " deploy with the version and the owner that made it, or give the new network a name of its own\n"
)

_ADAPTER_ADDED: Final = keccak(text="AdapterAdded(uint8,address)")


class DeployError(Exception):
    """The network can't be deployed; the text names the chain and the reason."""


@dataclass(frozen=True, slots=True)
class ChainOutcome:
    """What was missing on one chain and is there now."""

    name: str
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deployed:
    """A network that is as its plan says."""

    deployment: Deployment
    path: Path  # the deployments file
    outcomes: tuple[ChainOutcome, ...]
    file_changed: bool

    @property
    def changed(self) -> bool:
        """Whether this run changed anything, on a chain or in the file."""
        return self.file_changed or any(outcome.done for outcome in self.outcomes)


async def deploy(
    plan: NetworkPlan,
    key: str,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
) -> Deployed:
    """Brings all chains of a network to the state that the plan describes, and writes the deployments file.

    What is there already stays as it is; a run that is repeated changes nothing.

    Args:
        plan: the network.
        key: private key of the plan's owner, with funds on every chain.
        target: the deployments file.
        progress: is told what happens, one line at a time.
        accept_single_verifier: whether a GMP may believe one verifier alone.

    Raises:
        PlanError: the plan of a public network leaves open who decides or who verifies.
        DeployError: a chain is not as the plan says, the key is not the owner's, or Foundry failed.
        WrongChainError: an endpoint is of another chain.
        TransientError: a chain can't be reached.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    _require_owner(plan, key)
    async with AsyncExitStack() as stack:
        chains = []
        for planned in plan.chains:
            chain = await EvmChain.connect(planned.chain_id, planned.endpoints, retry_seconds=3)
            chains.append(await stack.enter_async_context(chain))
        progress(f"checking the GMPs' contracts on {len(chains)} chains")
        for planned, chain in zip(plan.chains, chains, strict=True):
            await _check(planned, chain, plan.owner)
        urls = [chain.answering_url for chain in chains]
        previous = _previous(target)
        results = await _run_scripts(plan, urls, key, await _deployed(plan, chains, previous), progress)
        deployed = [
            await _describe(planned, chain, result, previous)
            for planned, chain, result in zip(plan.chains, chains, results, strict=True)
        ]
    deployment = Deployment(version=1, network=plan.network, chains=tuple(deployed))
    changed = _write(deployment, target)
    outcomes = tuple(
        ChainOutcome(planned.name, result.done) for planned, result in zip(plan.chains, results, strict=True)
    )
    return Deployed(deployment, target, outcomes, changed)


def _require_owner(plan: NetworkPlan, key: str) -> None:
    try:
        address = Account.from_key(key).address
    except ValueError:
        # The key itself must not appear in a log.
        raise DeployError("the deployer's key is not a private key (0x and 64 hex digits)") from None
    if address != plan.owner:
        raise DeployError(
            f"the deployer's key is that of {address}, but the plan's owner is {plan.owner}: only the owner can connect "
            "routers; deploy with its key, or name the deployer as owner and hand the routers over afterwards"
        )


async def _check(planned: PlannedChain, chain: EvmChain, owner: str) -> None:
    """Looks for everything that must be there before."""
    contracts = {"the CREATE2 factory": _CREATE2_FACTORY}
    for gmp, section in planned.gmps.items():
        contracts |= {f"gmps.{gmp}.{name}": text for name, value in section.items() if _is_address(text := str(value))}
    for gmp, chosen in planned.verification.items():
        contracts |= {f"verification.{gmp} {address}": address for address in _ADDRESS.findall(json.dumps(chosen))}
    codes = await asyncio.gather(*(chain.code(address) for address in contracts.values()))
    missing = [
        f"{name} ({address})" for (name, address), code in zip(contracts.items(), codes, strict=True) if not code
    ]
    if missing:
        raise DeployError(f"chain {planned.name!r} has no contract at {', '.join(missing)}")
    if await chain.balance(owner) == 0:
        raise DeployError(f"{owner} has no funds on chain {planned.name!r}")


_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}\b")


def _is_address(text: str) -> bool:
    return text.startswith("0x") and len(text) == 42


async def _deployed(plan: NetworkPlan, chains: Sequence[EvmChain], previous: Deployment | None) -> list[str]:
    """The routers that the deployments file names and that are there; none on a devnet that was started again."""
    known = {chain.chain_id: chain.router for chain in previous.chains} if previous else {}
    named = [
        (chain, known[planned.chain_id])
        for planned, chain in zip(plan.chains, chains, strict=True)
        if planned.chain_id in known
    ]
    codes = await asyncio.gather(*(chain.code(router) for chain, router in named))
    return sorted({router for (_, router), code in zip(named, codes, strict=True) if code})


async def _run_scripts(
    plan: NetworkPlan, urls: list[str], key: str, deployed: list[str], progress: Progress
) -> list[ScriptResult]:
    # Inside the checkout, which is all that a Foundry script may read and write.
    folder = CHECKOUT / "build" / "deploy" / f"{plan.network}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    document = plan.model_dump(mode="json", by_alias=True, exclude={"chains"})
    document |= {"deployed": deployed, "chains": [_for_script(plan, chain) for chain in plan.chains]}
    for role in ("guardian", "revoker"):
        document[role] = document[role] or f"0x{bytes(20).hex()}"
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(document))
    progress("compiling the contracts")
    try:
        await compile_script()
        progress(f"deploying to {', '.join(chain.name for chain in plan.chains)}")
        # A failure on one chain does not stop another half-way.
        runs = (
            _run_script(chain.name, url, plan_file, key, progress) for chain, url in zip(plan.chains, urls, strict=True)
        )
        results = await asyncio.gather(*runs, return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
    except ForgeError as error:
        hint = _ANOTHER_NETWORK if "AnotherNetworkDeployed" in str(error) else ""
        raise DeployError(f"{hint}{error}") from error
    finally:
        shutil.rmtree(folder)
    return [result for result in results if isinstance(result, ScriptResult)]


def _for_script(plan: NetworkPlan, planned: PlannedChain) -> dict[str, Any]:
    """A chain of the plan, with each GMP's adapter as bytes: the script knows no GMP."""
    return {
        "chainId": planned.chain_id,
        "name": planned.name,
        "adapters": [_adapter_for_script(gmp, planned.gmps[gmp.label]) for gmp in Gmp if gmp.label in planned.gmps],
        "steps": [step for gmp in Gmp if gmp.label in planned.gmps for step in _steps_for_script(plan, planned, gmp)],
    }


def _steps_for_script(plan: NetworkPlan, planned: PlannedChain, gmp: Gmp) -> Iterator[dict[str, Any]]:
    """What the adapter's verification takes, as bytes too. What it takes for two chains alike stands there once."""
    chosen = planned.chosen(gmp)
    steps = [step for _, connection in plan.connections(planned, gmp) if chosen for step in chosen.steps(connection)]
    for step in dict.fromkeys(steps):
        values = asdict(step)
        yield {
            "gmp": int(gmp),
            **{name: f"0x{value.hex()}" if isinstance(value, bytes) else value for name, value in values.items()},
        }


def _adapter_for_script(gmp: Gmp, section: GmpSection) -> dict[str, Any]:
    contracts = adapter_class(gmp).CONTRACTS.read(section)
    getter, number_type = contracts.NUMBER_OF
    types, values = zip(*contracts.arguments, strict=True)
    # The last argument of four as it stands behind the first three, each of which is one word.
    connect_types = ("uint64", "bytes32", "bytes32", number_type)
    last = encode(connect_types, (0, bytes(32), bytes(32), contracts.number))[3 * 32 :]
    signature = f"connect({','.join(connect_types)})"
    data = {
        "arguments": encode(types, values),
        "connect": function_signature_to_4byte_selector(signature),
        "number": last,
        "numberOf": function_signature_to_4byte_selector(f"{getter}(uint64)"),
        "answer": encode((number_type,), (contracts.number,)),
    }
    return {
        "gmp": int(gmp),
        "name": gmp.label,
        "contract": f"{contracts.ADAPTER}.sol:{contracts.ADAPTER}",
        **{name: f"0x{value.hex()}" for name, value in data.items()},
    }


async def _run_script(name: str, url: str, plan_file: Path, key: str, progress: Progress) -> ScriptResult:
    try:
        result = await run_script(plan=plan_file, result=plan_file.with_name(f"{name}.json"), rpc_url=url, key=key)
    except ForgeError as error:
        raise ForgeError(f"chain {name!r}: {error}") from error
    progress(f"{name}: {', '.join(result.done) or 'nothing to do'}")
    return result


async def _describe(
    planned: PlannedChain, chain: EvmChain, result: ScriptResult, previous: Deployment | None
) -> ChainDeployment:
    return ChainDeployment(
        chain_id=planned.chain_id,
        name=planned.name,
        rpc_urls=planned.rpc_urls,
        start_block=await _start_block(planned, chain, result, previous),
        confirmations=planned.confirmations,
        finality=planned.finality,
        agreement=planned.agreement,
        router=result.router,
        adapters=dict(result.adapters),
        gmps=planned.gmps,
        verification=described(planned) or None,
        parameters=result.parameters,
        multicall=result.multicall,
        examples=dict(result.examples),
    )


async def _start_block(
    planned: PlannedChain, chain: EvmChain, result: ScriptResult, previous: Deployment | None
) -> int:
    """A block that is not younger than the router."""
    if ROUTER in result.done:
        return result.start_block
    for known in previous.chains if previous else ():
        if (known.chain_id, known.router) == (planned.chain_id, to_checksum_address(result.router)):
            return known.start_block
    # The file is lost, or was never written. The first thing that a router hears is which adapters it has.
    head = await chain.head()
    logs = await chain.logs(0, head.number, [result.router], [_ADAPTER_ADDED])
    return logs[0].block_number if logs else 0


def _previous(target: Path) -> Deployment | None:
    try:
        return Deployment.from_json(target.read_text(), str(target))
    except FileNotFoundError:
        return None
    except DeploymentError as error:
        # What it names may be deployed: a second network over it would hide the first.
        raise DeployError(f"{error}\nrepair the file, or delete it if nothing that it names is in use") from error


def _write(deployment: Deployment, target: Path) -> bool:
    """Writes the deployments file in one step; returns whether it differs from the one before."""
    text = deployment.to_json()
    if target.exists() and target.read_text() == text:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(target)
    return True
