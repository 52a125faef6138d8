"""Deploys a network: checks, what each chain lacks, one deployments file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from eth_utils import keccak

from bridge.deploy.artifacts import ForgeError, compile_contracts, is_checkout
from bridge.deploy.contract_verification import write_sources
from bridge.deploy.gmp_chain_numbers import wrong_numbers
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.deploy.preview import ChainPreview, gas_price, preview_chain
from bridge.deploy.safe import Batch, make_batches, require_safe, save
from bridge.deploy.security import described, require_security
from bridge.deploy.sending import MOST_GAS, send_all
from bridge.deploy.transactions import (
    CREATE2_FACTORY,
    ROUTER_NAME,
    ChainContracts,
    ChainWork,
    DeployError,
    former_adapters,
    refuse_another_network,
)
from bridge.evm.chain import EvmChain
from bridge.evm.signing import Signer
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.records.spending import ether

T = TypeVar("T")

Progress = Callable[[str], None]

Send = Callable[[ChainWork, EvmChain], Awaitable[None]]
"""Has what a chain lacks included, in its order and as the owner's."""

_START_BLOCKS: Final = "start-blocks.json"
_ADAPTER_ADDED: Final = keccak(text="AdapterAdded(uint8,address)")


@dataclass(frozen=True, slots=True)
class Replacement:
    """Adapters that the plan's may replace.

    Attributes:
        gmps: whose.
        to_former: deliveries under way that are addressed to a former adapter, by the chain's name and the GMP's; None: no
            relayer's store says so.
        abandons_open: whether to switch although there are such deliveries.
    """

    gmps: AbstractSet[Gmp] = frozenset()
    to_former: Mapping[tuple[str, str], int] | None = None
    abandons_open: bool = False


NO_REPLACEMENT: Final = Replacement()


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
    to_switch: Mapping[str, tuple[str, ...]]
    """By chain: the GMPs whose former adapters speak until the next run."""

    @property
    def changed(self) -> bool:
        """Whether this run changed anything, on a chain or in the file."""
        return self.file_changed or any(outcome.done for outcome in self.outcomes)


async def deploy(
    plan: NetworkPlan,
    signer: Signer,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
    replacement: Replacement = NO_REPLACEMENT,
) -> Deployed:
    """Brings all chains of a network to the state that the plan describes, and writes the deployments file.

    What is there already stays as it is; a run that is repeated changes nothing.

    Args:
        plan: the network.
        signer: the owner's account, with funds on every chain: the one in the plan, or the one that has accepted its routers since.
        target: the deployments file.
        progress: is told what happens, one line at a time.
        accept_single_verifier: whether a GMP may believe one verifier alone.
        replacement: adapters that may be replaced by the plan's. The first run has senders address the new ones; the next one
            puts these in the former ones' place.

    Raises:
        PlanError: the plan of a public network leaves open who decides or who verifies.
        DeployError: a chain is not as the plan says, the account is not the owner's, or Foundry failed.
        WrongChainError: an endpoint is of another chain.
        TransientError: a chain can't be reached.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)

    missing, included = dict[str, int](), Counter[str]()

    async def send(work: ChainWork, chain: EvmChain) -> None:
        name = work.planned.name
        missing[name] = len(work.missing)
        await send_all(name, chain, signer, work.missing, lambda _: included.update([name]))

    try:
        comparing = _compared(plan, target, progress, replacement=replacement, account=signer.address)
        async with comparing as (chains, works, previous):
            progress(f"deploying to {', '.join(chain.name for chain in plan.chains)}")
            # A failure on one chain does not stop another half-way.
            runs = (_work_on(work, chain, send, previous, progress) for work, chain in zip(works, chains, strict=True))
            results = await asyncio.gather(*runs, return_exceptions=True)
            for failure in results:
                if isinstance(failure, BaseException):
                    raise failure
            deployed = tuple(result for result in results if isinstance(result, ChainDeployment))
        return _finished(plan, works, deployed, target)
    except asyncio.CancelledError:
        begun = [chain.name for chain in plan.chains if chain.name in missing]
        done = [f"{name}: {included[name]} of {missing[name]} transactions included" for name in begun]
        progress("\n".join(["interrupted", *(done or ["nothing was sent"]), "type the same command again: it goes on"]))
        raise


async def preview(
    plan: NetworkPlan,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
    replacement: Replacement = NO_REPLACEMENT,
    safe: str | None = None,
) -> list[ChainPreview]:
    """What `deploy` would send, and what that would cost. Needs no key and no money; arguments and errors as there.

    With `safe` it is what `deploy_by_safe` would write, and refuses what that refuses.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    async with _compared(plan, target, progress, replacement=replacement) as (chains, works, _):
        if safe is not None:
            await _require_owning_safe(plan, works, chains, safe)
        return [await preview_chain(work, chain) for work, chain in zip(works, chains, strict=True)]


async def deploy_by_safe(
    plan: NetworkPlan,
    safe: str,
    target: Path,
    progress: Progress = lambda _: None,
    *,
    accept_single_verifier: bool = False,
    replacement: Replacement = NO_REPLACEMENT,
) -> list[Batch] | Deployed:
    """Writes what is missing as batches of a Safe; once its owners have executed them, writes the deployments file.

    Args:
        plan: the network.
        safe: the owner: the plan's, or one that has accepted its routers since.
        target: the deployments file; the batches are in a folder beside it.
        progress: is told what happens, one line at a time.
        accept_single_verifier: whether a GMP may believe one verifier alone.
        replacement: as for `deploy`; each of the two steps makes batches of its own.

    Raises:
        DeployError: as `deploy`; or the Safe is not the owner, or not there.
    """
    require_security(plan, accept_single_verifier=accept_single_verifier)
    folder = target.with_suffix(".safe")
    async with _compared(plan, target, progress, replacement=replacement) as (chains, works, previous):
        await _require_owning_safe(plan, works, chains, safe)
        if any(work.missing for work in works):
            return await _write_batches(works, chains, folder)
        remembered = _remembered(folder)
        deployed = [
            await _describe(work, chain, remembered.get(work.planned.name), previous)
            for work, chain in zip(works, chains, strict=True)
        ]
        return _finished(plan, works, tuple(deployed), target)


async def _write_batches(works: Sequence[ChainWork], chains: Sequence[EvmChain], folder: Path) -> list[Batch]:
    """Writes what a Safe's owners are to execute into a folder, in place of what an earlier run wrote."""
    heads = {work.planned.name: (await chain.head()).number for work, chain in zip(works, chains, strict=True)}
    batches = [
        batch
        for work, chain in zip(works, chains, strict=True)
        for batch in await make_batches(work.planned.name, work.missing, chain, work.owner, folder)
    ]
    save(batches, folder)
    _remember(folder, {work.planned.name: heads[work.planned.name] for work in works if _makes_router(work)})
    return batches


def _remember(folder: Path, heads: dict[str, int]) -> None:
    """Keeps blocks that are older than the routers, for the deployments file that is written when the owners are done."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _START_BLOCKS).write_text(json.dumps(_remembered(folder) | heads, indent=2) + "\n")


def _remembered(folder: Path) -> dict[str, int]:
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
    write_sources(works, target.with_suffix(".sources"))
    outcomes = tuple(
        ChainOutcome(work.planned.name, tuple(transaction.name for transaction in work.missing)) for work in works
    )
    to_switch = {work.planned.name: tuple(gmp.label for gmp in work.former) for work in works if work.former}
    return Deployed(deployment, target, outcomes, changed, to_switch)


@asynccontextmanager
async def _compared(
    plan: NetworkPlan,
    target: Path,
    progress: Progress,
    *,
    replacement: Replacement,
    account: str | None = None,
) -> AsyncIterator[tuple[list[EvmChain], list[ChainWork], Deployment | None]]:
    """The chains of a plan, what each of them lacks, and what the deployments file says.

    Args:
        plan: the network.
        target: the deployments file.
        progress: is told what happens.
        replacement: adapters that may be replaced.
        account: the owner's account, which must be able to pay for what is missing. None skips both checks.

    Raises:
        DeployError: see `deploy`. The error lists what is wrong with the account on every chain.
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
        plan = await _looked_up(plan, chains)
        previous = _previous(target)
        if is_checkout():
            progress("compiling the contracts")
        try:
            await compile_contracts()
            router = ChainContracts.of(plan, plan.chains[0]).router.address
            refuse_another_network(router, await _deployed(plan, chains, previous))
            _refuse_shared_routers(plan, router, target)
            pairs = list(zip(plan.chains, chains, strict=True))
            formers = {
                planned.chain_id: await former_adapters(plan, planned, chain, replacement.gmps)
                for planned, chain in pairs
            }
            works = [await ChainWork.find(plan, planned, chain, formers) for planned, chain in pairs]
        except ForgeError as error:
            raise DeployError(str(error)) from error
        is_switch = not any(work.missing for work in works)
        _tell_of_replacements(works, replacement.gmps, progress, is_switch=is_switch)
        if is_switch:
            _require_none_open(works, replacement, progress)
            works = [work.switching() for work in works]
        if account is not None:
            _require_owner(plan, works, account)
            await _require_funds(zip(works, chains, strict=True), account)
        yield chains, works, previous


def _tell_of_replacements(
    works: Sequence[ChainWork], replacing: AbstractSet[Gmp], progress: Progress, *, is_switch: bool
) -> None:
    for gmp in sorted(replacing):
        label, places = gmp.label, ", ".join(work.planned.name for work in works if gmp in work.former)
        if not places:
            progress(
                f"{label}: nothing to replace, every router has the plan's adapter. To replace one, name a number that is not"
                f" used yet as `adapterNumber` under gmps.{label} of its chain in the network file"
            )
        elif is_switch:
            progress(
                f"{label}: the new adapter takes the former one's place on {places}. What is still addressed to the former one"
                " is refused from then on"
            )
        else:
            progress(
                f"{label}: from now on messages are addressed to the new adapter on {places}, and wait. Once `waybill status`"
                " shows no delivery to the former one, type the same command again: it puts the new one in its place"
            )


def _require_none_open(works: Sequence[ChainWork], replacement: Replacement, progress: Progress) -> None:
    """Does nothing if no delivery is under way to an adapter that is about to lose its place, or if that is accepted.

    Raises:
        DeployError: some are.
    """
    former = [(work.planned.name, gmp.label) for work in works for gmp in work.former]
    if former and replacement.to_former is None:
        progress("no relayer's store is here: whether deliveries to the former adapters are under way is unknown")
    counts = {one: (replacement.to_former or {}).get(one, 0) for one in former}
    is_open = [f"{count} over {gmp} on {chain}" for (chain, gmp), count in counts.items() if count]
    if is_open and not replacement.abandons_open:
        raise DeployError(
            f"deliveries to former adapters are under way: {', '.join(is_open)}. The new ones would refuse them. Wait until"
            " `waybill status` shows none, or give --abandon-open to switch all the same; what is abandoned can be retried"
        )


async def _require_funds(works: Iterable[tuple[ChainWork, EvmChain]], payer: str) -> None:
    """Does nothing if an account can pay for what is missing on each chain.

    Raises:
        DeployError: it can't.
    """
    asked = (_lacking_funds(work, chain, payer) for work, chain in works)
    if problems := [one for one in await asyncio.gather(*asked) if one is not None]:
        raise DeployError("\n".join(problems))


async def _lacking_funds(work: ChainWork, chain: EvmChain, payer: str) -> str | None:
    """What an account lacks to pay for what is missing on a chain; None if it lacks nothing."""
    holds, price = await chain.balance(payer), await gas_price(chain)
    if holds >= MOST_GAS * price * len(work.missing):
        return None
    name = work.planned.name
    try:
        needs = (await preview_chain(work, chain)).cost
    except DeployError as error:  # it can't be simulated
        if holds:
            return None
        return f"{payer} holds nothing on chain {name!r}: send it some; how much is not known, since {error}"
    if holds >= needs:
        return None
    return (
        f"{payer} holds {ether(holds)} on chain {name!r}, and what is missing costs about {ether(needs)} at the gas price of"
        f" now: send it {ether(needs - holds)} or more"
    )


async def _require_owning_safe(
    plan: NetworkPlan, works: Sequence[ChainWork], chains: Sequence[EvmChain], safe: str
) -> None:
    """Does nothing if there is a Safe at that address on each chain, and it is the owner.

    Raises:
        DeployError: there is none, or it is not.
    """
    _require_owner(plan, works, safe, always=True)
    for work, chain in zip(works, chains, strict=True):
        await require_safe(work.planned.name, chain, safe)


def _require_owner(plan: NetworkPlan, works: Sequence[ChainWork], account: str, *, always: bool = False) -> None:
    """Does nothing if the account may do all that is missing, or `always`: if it is the owner though nothing is.

    Raises:
        DeployError: it may not.
    """
    problems = dict[str, None]()
    for work in works:
        if not (work.missing or always) or work.owner.lower() == account.lower():
            continue
        if work.owner.lower() == plan.owner.lower():
            problems[
                f"the account is {account}, but the plan's owner is {plan.owner}: only the owner can connect routers; deploy"
                " as the owner, or name that account as owner and hand the routers over afterwards (`waybill role transfer`)"
            ] = None
        else:
            problems[
                f"the account is {account}, but the router on chain {work.planned.name!r} was handed over to {work.owner}:"
                " deploy as that account; `owner` in the network file stays, since addresses follow from it"
            ] = None
    if problems:
        raise DeployError("\n".join(problems))


async def _check(planned: PlannedChain, chain: EvmChain) -> None:
    """Looks for everything that must be there before."""
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


async def _looked_up(plan: NetworkPlan, chains: Sequence[EvmChain]) -> NetworkPlan:
    """The plan with those of the GMPs' contracts that the file leaves to the chains to name.

    Raises:
        DeployError: the file names others than the chains do, or calls a chain otherwise than a GMP.
    """
    filled, problems = [], []
    for planned, chain in zip(plan.chains, chains, strict=True):
        gmps, wrong = await plan.look_up(planned, chain, planned.gmps)
        wrong += await wrong_numbers(planned, chain)
        filled.append(planned.model_copy(update={"gmps": gmps}))
        problems += [f"chain {planned.name!r}: {one}" for one in wrong]
    if problems:
        raise DeployError("\n".join(problems))
    return plan.model_copy(update={"chains": tuple(filled)})


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


def _refuse_shared_routers(plan: NetworkPlan, router: str, target: Path) -> None:
    """Does nothing if no other network's deployments file beside the target names the plan's routers.

    Raises:
        DeployError: one does: two network files would decide about the same routers.
    """
    ids = {chain.chain_id: chain.name for chain in plan.chains}
    for file in sorted(target.parent.glob("*.json")):
        try:
            other = Deployment.from_json(file.read_text(), str(file))
        except DeploymentError:
            continue  # it says itself what is wrong with it where it is used
        shared = [one.name for one in other.chains if one.chain_id in ids and one.router.lower() == router.lower()]
        if other.network != plan.network and shared:
            raise DeployError(
                f"{file} names the router {router} on {', '.join(shared)} already, as network {other.network!r}: two network files"
                f" would decide about it. Change networks/{other.network}.json and deploy with --network {other.network}, or"
                " give this network another owner: addresses follow from it"
            )


async def _work_on(
    work: ChainWork, chain: EvmChain, send: Send, previous: Deployment | None, progress: Progress
) -> ChainDeployment:
    # Taken before anything is sent, so that the router is younger.
    head = await chain.head()
    await send(work, chain)
    progress(f"{work.planned.name}: {len(work.missing)} transactions included")
    return await _describe(work, chain, head.number if _makes_router(work) else None, previous)


def _makes_router(work: ChainWork) -> bool:
    return ROUTER_NAME in [one.name for one in work.missing]


async def _describe(
    work: ChainWork, chain: EvmChain, before: int | None, previous: Deployment | None
) -> ChainDeployment:
    planned, contracts = work.planned, work.contracts
    adapters = {gmp.label: adapter.address for gmp, adapter in contracts.adapters.items()}
    known = [one.gmps for one in previous.chains if one.chain_id == planned.chain_id] if previous else []
    # Until the switch, a former adapter speaks for its GMP, with the contracts that it was made for.
    former = {gmp.label: address for gmp, address in work.former.items()}
    sections = {label: gmps[label] for gmps in known for label in former if label in gmps}
    return ChainDeployment(
        chain_id=planned.chain_id,
        name=planned.name,
        rpc_urls=planned.rpc_urls,
        start_block=await _start_block(work, chain, before, previous),
        confirmations=planned.confirmations,
        finality=planned.finality,
        agreement=planned.agreement,
        router=contracts.router.address,
        adapters=adapters | former,
        gmps=planned.gmps | sections,
        verification=described(planned) or None,
        parameters=contracts.parameters.address,
        multicall=contracts.multicall.address,
        examples={name: own.address for name, own in contracts.examples.items()},
    )


async def _start_block(work: ChainWork, chain: EvmChain, before: int | None, previous: Deployment | None) -> int:
    """A block that is not younger than the router; `before`, if it is known."""
    router = work.contracts.router.address
    if before is not None:
        return before
    for known in previous.chains if previous else ():
        if (known.chain_id, known.router) == (work.planned.chain_id, router):
            return known.start_block
    # The file is lost, or was never written. The first thing that a router hears is which adapters it has.
    head = await chain.head()
    logs = await chain.logs(0, head.number, [router], [_ADAPTER_ADDED])
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
