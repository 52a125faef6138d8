"""Deploys a network: checks the chains, sends the missing transactions, and writes the deployments file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eth_utils import keccak

from bridge.client import NotIncludedError, RefusedError, transact
from bridge.client.client import TRANSACTION_GAS
from bridge.deploy.artifacts import ForgeError, compile_contracts, is_checkout
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.deploy.preview import ChainPreview, gas_price, preview_chain
from bridge.deploy.safe import Batch, make_batches, require_safe, save
from bridge.deploy.security import require_security
from bridge.deploy.transactions import (
    CREATE2_FACTORY,
    ROUTER_NAME,
    ChainContracts,
    ChainWork,
    DeployError,
    refuse_another_network,
)
from bridge.evm.chain import EvmChain
from bridge.evm.signing import Signer
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.ports import Call
from bridge.records.spending import ether

Progress = Callable[[str], None]

_START_BLOCKS: Final = "start-blocks.json"
_ADAPTER_ADDED: Final = keccak(text="AdapterAdded(uint8,address)")


@dataclass(frozen=True, slots=True)
class ChainOutcome:
    """The transactions that were missing on one chain and are now included."""

    name: str
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deployed:
    """A network that matches its plan."""

    deployment: Deployment
    path: Path  # the deployments file
    outcomes: tuple[ChainOutcome, ...]
    file_changed: bool

    @property
    def changed(self) -> bool:
        """Whether this run changed a chain or the file."""
        return self.file_changed or any(outcome.done for outcome in self.outcomes)


async def deploy(
    plan: NetworkPlan,
    signer: Signer,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
) -> Deployed:
    """Brings all chains of a network to the planned state, and writes the deployments file.

    The deployment is idempotent: existing contracts and settings are kept, and a repeated run changes nothing.

    Args:
        plan: Network to deploy.
        signer: Account of the owner, with funds on every chain. The owner is the plan's owner, or an account
            that has accepted ownership since.
        target: Path of the deployments file.
        progress: Callback for progress lines.
        accept_single_verifier: Whether a GMP may rely on a single verifier.

    Raises:
        PlanError: the plan of a public network does not specify roles or verifiers.
        DeployError: a chain contradicts the plan, the account is not the owner, or Foundry failed.
        WrongChainError: an endpoint serves a different chain.
        TransientError: a chain can't be reached.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    async with _compare(plan, target, progress, account=signer.address) as (works, previous):
        progress(f"deploying to {', '.join(chain.name for chain in plan.chains)}")
        # A failure on one chain does not interrupt the others.
        runs = (_work_on(work, signer, previous, progress) for work in works)
        results = await asyncio.gather(*runs, return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
        deployed = tuple(result for result in results if isinstance(result, ChainDeployment))
    return _finished(plan, works, deployed, target)


async def _next_nonce(name: str, chain: EvmChain, account: str) -> int:
    """Returns an account's next nonce.

    Raises:
        DeployError: transactions of the account are pending.
    """
    nonce, pending = await chain.transaction_count(account), await chain.pending_count(account)
    if pending > nonce:
        raise DeployError(
            f"chain {name!r}: {pending - nonce} transactions of {account} are pending, perhaps from an interrupted run;"
            " wait until they are included or replace them, then deploy again"
        )
    return nonce


async def preview(
    plan: NetworkPlan,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
    safe: str | None = None,
) -> list[ChainPreview]:
    """Returns the transactions that `deploy` would send, with their cost.

    Needs neither a key nor funds. Arguments and errors are those of `deploy`. With `safe`, previews
    `deploy_by_safe`, including its checks.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    async with _compare(plan, target, progress) as (works, _):
        if safe is not None:
            await _require_owning_safe(plan, works, safe)
        return [await preview_chain(work) for work in works]


async def deploy_by_safe(
    plan: NetworkPlan,
    safe: str,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
) -> list[Batch] | Deployed:
    """Writes the missing transactions as batches for a Safe, or the deployments file once they are executed.

    Args:
        plan: Network to deploy.
        safe: Owner of the routers, which is the plan's owner or a Safe that has accepted ownership since.
        target: Path of the deployments file. The batches are written to a folder beside it.
        progress: Callback for progress lines.
        accept_single_verifier: Whether a GMP may rely on a single verifier.

    Raises:
        DeployError: see `deploy`; also if the Safe does not exist or is not the owner.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    folder = target.with_suffix(".safe")
    async with _compare(plan, target, progress) as (works, previous):
        await _require_owning_safe(plan, works, safe)
        if any(work.missing for work in works):
            return await _write_batches(works, folder)
        start_blocks = _saved_blocks(folder)
        deployed = [await _describe(work, start_blocks.get(work.name), previous) for work in works]
        return _finished(plan, works, tuple(deployed), target)


async def _write_batches(works: Sequence[ChainWork], folder: Path) -> list[Batch]:
    """Writes the batches for a Safe's owners to a folder, replacing those of an earlier run."""
    heads = {work.name: (await work.chain.head()).number for work in works if _makes_router(work)}
    batches = [
        batch for work in works for batch in await make_batches(work.name, work.missing, work.chain, work.owner, folder)
    ]
    save(batches, folder)
    _save_blocks(folder, heads)
    return batches


def _save_blocks(folder: Path, heads: dict[str, int]) -> None:
    """Saves blocks from before the routers' creation, to be used as start blocks in the deployments file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _START_BLOCKS).write_text(json.dumps(_saved_blocks(folder) | heads, indent=2) + "\n")


def _saved_blocks(folder: Path) -> dict[str, int]:
    try:
        heads: dict[str, int] = json.loads((folder / _START_BLOCKS).read_text())
    except FileNotFoundError:
        return {}
    return heads


def _finished(
    plan: NetworkPlan, works: Sequence[ChainWork], deployed: tuple[ChainDeployment, ...], target: Path
) -> Deployed:
    deployment = Deployment(version=1, network=plan.network, chains=deployed)
    changed = _write(deployment, target)
    outcomes = tuple(ChainOutcome(work.name, tuple(transaction.name for transaction in work.missing)) for work in works)
    return Deployed(deployment, target, outcomes, changed)


@asynccontextmanager
async def _compare(
    plan: NetworkPlan,
    target: Path,
    progress: Progress,
    *,
    account: str | None = None,
) -> AsyncIterator[tuple[list[ChainWork], Deployment | None]]:
    """Connects to the chains and compares each with the plan.

    Yields the work on each chain, and the previous deployment.

    Args:
        plan: Network to compare.
        target: Path of the deployments file.
        progress: Callback for progress lines.
        account: Owner's account, which must be able to pay for the missing transactions. None skips both checks.

    Raises:
        DeployError: see `deploy`. The error lists the account's problems on every chain.
    """
    async with AsyncExitStack() as stack:
        chains = []
        for planned in plan.chains:
            chain = await EvmChain.connect(
                planned.chain_id,
                planned.endpoints,
                try_seconds=3,
                agreement=planned.agreement or 1,
                origin=planned.origin,
                chain_name=planned.name,
            )
            chains.append(await stack.enter_async_context(chain))
        progress(f"checking the GMPs' contracts on {len(chains)} chains")
        for planned, chain in zip(plan.chains, chains, strict=True):
            await _check(planned, chain)
        plan = await _complete(plan, chains)
        previous = _previous(target)
        if is_checkout():
            progress("compiling the contracts")
        try:
            await compile_contracts()
            router = ChainContracts.of(plan, plan.chains[0]).router.address
            refuse_another_network(router, await _deployed(plan, chains, previous))
            _refuse_shared_routers(plan, router, target)
            works = [
                await ChainWork.find(plan, planned, chain) for planned, chain in zip(plan.chains, chains, strict=True)
            ]
        except ForgeError as error:
            raise DeployError(str(error)) from error
        if account is not None:
            _require_owner(plan, works, account)
            lacking = await asyncio.gather(*(_missing_funds(work, account) for work in works))
            if problems := list(filter(None, lacking)):
                raise DeployError("\n".join(problems))
        yield works, previous


async def _missing_funds(work: ChainWork, payer: str) -> str | None:
    """Returns a message about the funds that an account lacks on a chain, or None if it has enough."""
    balance, price = await work.chain.balance(payer), await gas_price(work.chain)
    if balance >= TRANSACTION_GAS * price * len(work.missing):
        return None
    name = work.name
    try:
        cost = (await preview_chain(work)).cost
    except DeployError as error:  # the endpoint cannot simulate
        if balance:
            return None
        return f"{payer} has no funds on chain {name!r}: send it some; the amount is unknown, because {error}"
    if balance >= cost:
        return None
    return (
        f"{payer} holds {ether(balance)} on chain {name!r}, but the deployment costs about {ether(cost)} at the current gas"
        f" price: send it at least {ether(cost - balance)}"
    )


async def _require_owning_safe(plan: NetworkPlan, works: Sequence[ChainWork], safe: str) -> None:
    """Checks that the address is a Safe and the owner on each chain.

    Raises:
        DeployError: the address is not a Safe, or not the owner.
    """
    _require_owner(plan, works, safe, always=True)
    for work in works:
        await require_safe(work.name, work.chain, safe)


def _require_owner(plan: NetworkPlan, works: Sequence[ChainWork], account: str, *, always: bool = False) -> None:
    """Checks that the account is the owner on each chain with missing transactions or, with `always`, on every chain.

    Raises:
        DeployError: the account is not the owner.
    """
    problems = dict[str, None]()
    for work in works:
        if not (work.missing or always) or work.owner.lower() == account.lower():
            continue
        if work.owner.lower() == plan.owner.lower():
            problems[
                f"the account is {account}, but the plan's owner is {plan.owner}: only the owner can connect routers; deploy"
                " as the owner, or make that account the plan's owner and transfer the routers later (`waybill role transfer`)"
            ] = None
        else:
            problems[
                f"the account is {account}, but ownership of the router on chain {work.name!r} was transferred to"
                f" {work.owner}: deploy as that account; do not change `owner` in the network file, which determines addresses"
            ] = None
    if problems:
        raise DeployError("\n".join(problems))


async def _check(planned: PlannedChain, chain: EvmChain) -> None:
    """Checks that the contracts on which the plan relies exist on a chain.

    Raises:
        DeployError: some of them do not exist on the chain.
    """
    contracts = {"the CREATE2 factory": CREATE2_FACTORY}
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


async def _complete(plan: NetworkPlan, chains: Sequence[EvmChain]) -> NetworkPlan:
    """Returns the plan completed with the GMP contracts that the file omits, as read from the chains.

    Raises:
        DeployError: the file's contracts or chain identifiers disagree with those on a chain.
    """
    completed, problems = [], []
    for planned, chain in zip(plan.chains, chains, strict=True):
        gmps, wrong = await plan.look_up(planned, chain, planned.gmps)
        completed.append(planned.model_copy(update={"gmps": gmps}))
        problems += [f"chain {planned.name!r}: {problem}" for problem in wrong]
    if problems:
        raise DeployError("\n".join(problems))
    return plan.model_copy(update={"chains": tuple(completed)})


_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}\b")


def _is_address(text: str) -> bool:
    return text.startswith("0x") and len(text) == 42


async def _deployed(plan: NetworkPlan, chains: Sequence[EvmChain], previous: Deployment | None) -> list[str]:
    """Returns the routers in the deployments file that exist on chain. After a devnet was restarted, none do."""
    known = {chain.chain_id: chain.router for chain in previous.chains} if previous else {}
    named = [
        (chain, known[planned.chain_id])
        for planned, chain in zip(plan.chains, chains, strict=True)
        if planned.chain_id in known
    ]
    codes = await asyncio.gather(*(chain.code(router) for chain, router in named))
    return sorted({router for (_, router), code in zip(named, codes, strict=True) if code})


def _refuse_shared_routers(plan: NetworkPlan, router: str, target: Path) -> None:
    """Checks that no deployments file of another network, in the target's folder, contains the plan's routers.

    Raises:
        DeployError: another network has the same routers, so two network files would control them.
    """
    ids = {chain.chain_id: chain.name for chain in plan.chains}
    for file in sorted(target.parent.glob("*.json")):
        try:
            other = Deployment.from_json(file.read_text(), str(file))
        except DeploymentError:
            continue  # reported when that network is used
        shared = [
            chain.name for chain in other.chains if chain.chain_id in ids and chain.router.lower() == router.lower()
        ]
        if other.network != plan.network and shared:
            raise DeployError(
                f"{file} already has the router {router} on {', '.join(shared)}, as network {other.network!r}; two network"
                f" files must not control one router. Change networks/{other.network}.json and deploy with --network"
                f" {other.network}, or give this network a different owner, since the owner determines the addresses"
            )


async def _work_on(work: ChainWork, signer: Signer, previous: Deployment | None, progress: Progress) -> ChainDeployment:
    # Read before sending, so that the router cannot be older than this block.
    name, chain = work.name, work.chain
    head = await chain.head()
    nonce = await _next_nonce(name, chain, signer.address) if work.missing else 0
    for place, transaction in enumerate(work.missing):
        call = Call(to=transaction.to, data=transaction.data)
        try:
            await transact(chain, signer, call, nonce=nonce + place)
        except (RefusedError, NotIncludedError) as error:
            raise DeployError(f"chain {name!r}: {transaction.name!r}: {error}; deploy again to continue") from error
    progress(f"{name}: {len(work.missing)} transactions included")
    return await _describe(work, head.number if _makes_router(work) else None, previous)


def _makes_router(work: ChainWork) -> bool:
    return ROUTER_NAME in [transaction.name for transaction in work.missing]


async def _describe(work: ChainWork, before: int | None, previous: Deployment | None) -> ChainDeployment:
    planned, contracts = work.planned, work.contracts
    adapters = {gmp.label: adapter.address for gmp, adapter in contracts.adapters.items()}
    return ChainDeployment(
        chain_id=planned.chain_id,
        name=planned.name,
        rpc_urls=planned.rpc_urls,
        start_block=await _start_block(work, before, previous),
        confirmations=planned.confirmations,
        finality=planned.finality,
        agreement=planned.agreement,
        router=contracts.router.address,
        adapters=adapters,
        gmps=planned.gmps,
        parameters=contracts.parameters.address,
        multicall=contracts.multicall.address,
        examples={name: own.address for name, own in contracts.examples.items()},
    )


async def _start_block(work: ChainWork, before: int | None, previous: Deployment | None) -> int:
    """Returns a block that is not newer than the router. This is `before` if it is known."""
    router = work.contracts.router.address
    if before is not None:
        return before
    for known in previous.chains if previous else ():
        if (known.chain_id, known.router) == (work.planned.chain_id, router):
            return known.start_block
    # Without a file, the router's first event tells: a deployment adds the adapters first.
    head = await work.chain.head()
    logs = await work.chain.logs(0, head.number, [router], [_ADAPTER_ADDED])
    return logs[0].block_number if logs else 0


def _previous(target: Path) -> Deployment | None:
    try:
        return Deployment.from_json(target.read_text(), str(target))
    except FileNotFoundError:
        return None
    except DeploymentError as error:
        # The routers in the file may exist; deploying a second network over it would hide the first.
        raise DeployError(f"{error}\ncorrect the file, or delete it if its contracts are not in use") from error


def _write(deployment: Deployment, target: Path) -> bool:
    """Writes the deployments file atomically. Returns whether it changed."""
    text = deployment.to_json()
    if target.exists() and target.read_text() == text:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(target)
    return True
