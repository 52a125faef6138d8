"""`waybill doctor`: looks at everything that a relayer needs, and says what is wrong with it and what to do."""

from __future__ import annotations

import asyncio
import itertools
import platform
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from typing import Annotated, Final

import typer
from eth_account import Account

from bridge.cli.extras import is_installed
from bridge.cli.open_stores import index_if_any, open_letters, open_relayer_store
from bridge.cli.output import CliError, ExitCode, result, rows_table, with_network
from bridge.cli.root import DEVNET
from bridge.cli.settings_rows import setting_rows, unread_variables
from bridge.cli.workspace import Workspace
from bridge.client import Client, RefusedError, RouteRequest
from bridge.deploy.addresses import is_testnet
from bridge.deploy.drift import find_drift
from bridge.deploy.plan import NetworkPlan, PlanError, PlannedChain
from bridge.deploy.transactions import DeployError
from bridge.evm.chain import EvmChain
from bridge.evm.rpc_answers import WrongChainError
from bridge.evm.signing import InvalidKeyError
from bridge.gmps.attestation import AttestationError, JsonDocuments
from bridge.gmps.registry import adapter_class, attestation_choice, create_attesters
from bridge.gmps.verification import ALONE, DEFAULT
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.errors import StoreError
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import CallRevertedError, TerminalError, TransientError, read_view
from bridge.queries.completeness import Counted, counted_lanes
from bridge.queries.gmp_pauses import gmp_pauses
from bridge.queries.lanes import chain_name, is_late
from bridge.records.dead_letters import LetterStatus
from bridge.records.spending import ether
from bridge.service.connections import connected
from bridge.service.keys import open_sealer, paying_signers, tripwire_signer
from bridge.service.settings import Settings, check_chains
from bridge.service.startup_checks import check_tripwire
from bridge.settings import SettingsError
from bridge.store import Store

_SECONDS: Final = 3.0  # that an endpoint may take
_OLD: Final = 300  # seconds after which a newest block is none, as for the alert WaybillChainDown
_LITTLE: Final = 5 * 10**16  # wei: an account with less is about to be empty
_SILENT: Final = (TransientError, TerminalError, WrongChainError)
_COLUMNS: Final = {"check": "check", "result": "result", "found": "found", "advice": "what to do"}
_SETTING_COLUMNS: Final = {"setting": "setting", "value": "value", "origin": "set by", "meaning": "meaning"}


class CheckResult(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"  # it works, and may not do so for long
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check, and what to do about it."""

    check: str
    result: CheckResult
    found: str
    advice: str = ""


def doctor(
    *,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Connect to nothing: check settings, keys and deployments, and whether relayer and tripwire start.",
        ),
    ] = False,
    show_settings: Annotated[
        bool,
        typer.Option(
            "--settings",
            help="Only print every setting: its value, what set it (flag, environment, file, profile), its meaning.",
        ),
    ] = False,
) -> None:
    """Check versions, settings, deployments, endpoints, chain ids, clocks, contracts, keys, balances, the tripwire and stores.

    Compares the chains with the network file, if there is one. Changes nothing. Exits with status 1 if a check has failed.

    Example: waybill doctor
    """
    workspace = Workspace.current()
    if show_settings:
        rows = setting_rows(workspace.settings())
        result(rows, render=lambda console: console.print(rows_table(rows, _SETTING_COLUMNS)))
        return
    findings = list(_checked(workspace, offline=offline))
    value = [asdict(finding) for finding in findings]
    shown = [row | {"advice": with_network(row["advice"])} for row in value]
    result(value, render=lambda console: console.print(rows_table(shown, _COLUMNS)))
    if any(finding.result is CheckResult.FAILED for finding in findings):
        raise SystemExit(ExitCode.FAILED)


def _checked(workspace: Workspace, *, offline: bool) -> Iterator[Finding]:
    """Makes the checks, each as soon as those that it builds on are made."""
    yield _versions()
    for name in unread_variables():
        yield Finding(
            f"variable {name}", CheckResult.WARNING, "nothing reads it", "is it misspelt? correct or remove it"
        )
    settings, problem = None, ""
    try:
        settings = workspace.settings()
    except SettingsError as error:
        problem = str(error)
    deployment = workspace.deployment()
    if settings is not None and not offline:
        try:
            check_chains(settings, deployment)
        except SettingsError as error:
            problem = str(error)
    if problem:
        yield Finding("settings", CheckResult.FAILED, problem, "waybill doctor --settings")
    else:
        yield Finding("settings", CheckResult.OK, "valid")
    found = f"{len(deployment.chains)} chains in {workspace.deployments_file}"
    yield Finding("deployments", CheckResult.OK, found)
    yield from _verification(deployment)
    if settings is None:
        return
    if offline:
        yield from _starting(workspace, settings, deployment)
        return
    yield from _stores(workspace)
    yield _dead_letters(settings)
    yield from asyncio.run(_chains(deployment, settings))
    yield from _completeness(workspace, deployment, settings)
    yield from _compared(workspace, deployment, settings)


def _versions() -> Finding:
    installed = [name for name in ("web3", "SQLAlchemy", "pydantic") if is_installed(name.lower())]
    libraries = ", ".join(f"{name} {version(name)}" for name in installed)
    found = f"waybill {version('waybill')}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {libraries}"
    return Finding("versions", CheckResult.OK, found)


def _verification(deployment: Deployment) -> Iterator[Finding]:
    """Compares the GMPs' verification with the deployments file; a GMP that may change its own is a warning."""
    for chain in deployment.chains:
        for gmp, who in (chain.verification or {}).items():
            section, advice = f"verification.{gmp} in networks/{deployment.network}.json", ""
            if who.startswith(DEFAULT) and adapter_class(Gmp.parse(gmp)).CONTRACTS.VERIFICATION is not None:
                advice = f"choose it under {section}"
            elif who.endswith(ALONE):
                advice = f"name two under {section}"
            yield Finding(f"{gmp} on {chain.name}", CheckResult.WARNING if advice else CheckResult.OK, who, advice)


def _starting(workspace: Workspace, settings: Settings, deployment: Deployment) -> Iterator[Finding]:
    """Whether the relayer, and the tripwire if it is set up, would start with these settings."""
    checks: dict[str, Callable[[], object]] = {"relayer run": partial(workspace.check_relayer, settings)}
    if "tripwire" in settings.model_fields_set:
        checks["tripwire run"] = partial(check_tripwire, settings, deployment, is_dry_run=False)
    for name, check in checks.items():
        try:
            check()
        except (SettingsError, CliError) as error:
            yield Finding(name, CheckResult.FAILED, str(error), "waybill doctor --settings")
        else:
            yield Finding(name, CheckResult.OK, "can start")


def _stores(workspace: Workspace) -> Iterator[Finding]:
    check = "relayer's store"
    try:
        with open_relayer_store(workspace) as store:
            held = store.lanes.held() if store else ()
            if store is None:
                yield Finding(check, CheckResult.WARNING, "there is none yet", "waybill relayer run")
            else:
                yield Finding(check, CheckResult.OK, "readable")
            if held:
                yield Finding("lanes", CheckResult.WARNING, f"{len(held)} held", "waybill lane list")
    except (StoreError, TransientError) as error:
        yield Finding(check, CheckResult.FAILED, str(error))
    max_lag = workspace.settings().index.max_lag
    with index_if_any(workspace) as index:
        if index is None:
            yield Finding("index", CheckResult.WARNING, "there is none yet", "waybill index run")
            return
        for chain in index.chains():
            name = f"index of {chain_name(workspace.deployment(), chain.chain_id)}"
            if chain.halted:
                yield Finding(name, CheckResult.FAILED, f"halted: {chain.halted}", "waybill report")
            elif is_late(chain, max_lag):
                yield Finding(name, CheckResult.WARNING, f"{chain.lag_seconds} s behind", "waybill index run")
            else:
                yield Finding(name, CheckResult.OK, f"block {chain.block}")


def _completeness(workspace: Workspace, deployment: Deployment, settings: Settings) -> list[Finding]:
    """Whether the relayer has found as many messages as the routers have counted."""

    async def compare(store: Store) -> list[Finding]:
        async with connected(deployment, settings, may_be_down=True) as chains:
            found = []
            for deployed in deployment.chains:
                others = [other.chain_id for other in deployment.chains if other is not deployed]
                counted = await counted_lanes(deployed, chains[deployed.chain_id], others, store)
                found += [_compared_counts(deployed, counted)] if counted else []
            return found

    try:
        with open_relayer_store(workspace) as store:
            return asyncio.run(compare(store)) if store is not None else []
    except (StoreError, TransientError, WrongChainError):
        return []  # the findings about stores and endpoints say so


def _compared_counts(deployed: ChainDeployment, counted: Sequence[Counted]) -> Finding:
    name = f"messages from {deployed.name}"
    silent = next((one for one in counted if one.created is None), None)
    if silent is not None:
        text = f"unverified: no endpoint tells what the router had counted at block {silent.block}: {silent.why}"
        advice = "add an endpoint that keeps the state of that block, such as an archive node"
        return Finding(name, CheckResult.WARNING, text, advice)
    created, found = sum(one.created or 0 for one in counted), sum(one.found for one in counted)
    text = f"{found} found of the {created} that the router had counted at block {counted[0].block}"
    if any(one.found < (one.created or 0) for one in counted):
        return Finding(name, CheckResult.WARNING, text, "a running relayer reads them again; is one running?")
    return Finding(name, CheckResult.OK, text)


def _dead_letters(settings: Settings) -> Finding:
    """The dead letters, which may be in a database of their own."""
    check = "dead letters"
    try:
        with open_letters(settings) as log:
            if log is None:
                return Finding(check, CheckResult.WARNING, "there are none yet", "waybill relayer run")
            waiting = log.counts().get(LetterStatus.PENDING_REVIEW, 0)
    except (StoreError, TransientError) as error:
        advice = "correct url in [dlq]: lanes halt while letters can't be written"
        return Finding(check, CheckResult.FAILED, str(error), advice)
    if waiting:
        return Finding(check, CheckResult.WARNING, f"{waiting} wait for a decision", "waybill dlq list")
    return Finding(check, CheckResult.OK, "none waits for a decision")


async def _chains(deployment: Deployment, settings: Settings) -> list[Finding]:
    findings, accounts = _relayer_accounts(deployment, settings)
    pauser = None
    if settings.tripwire.key or settings.tripwire.signer:
        try:
            pauser = tripwire_signer(settings).address
        except (SettingsError, InvalidKeyError) as error:
            advice = "correct key or signer in [tripwire]"
            findings.append(Finding("tripwire's signer", CheckResult.FAILED, str(error), advice))
    if deployment.network != DEVNET:
        findings.append(_attestations(deployment, settings))
    urls, policies = settings.rpc_urls(deployment), settings.endpoint_policies(deployment)
    checks: list[Awaitable[list[Finding]]] = []
    for here in deployment.chains:
        skew, origin = settings.reliability.max_clock_skew, policies[here.chain_id].origin
        asked = urls.get(here.chain_id) or here.rpc_urls
        checks += [_endpoint(here, url, skew, origin) for url in asked]
        checks.append(_on_chain(here, tuple(asked), accounts.get(here.chain_id, ()), pauser))
    return [*findings, *(finding for found in await asyncio.gather(*checks) for finding in found)]


def _relayer_accounts(deployment: Deployment, settings: Settings) -> tuple[list[Finding], dict[int, list[str]]]:
    """Who seals dead letters, and by chain who pays. Without a key, that is said of each chain."""
    try:
        seal = Finding("seal of dead letters", CheckResult.OK, open_sealer(settings).address)
        signers = paying_signers(settings, deployment)
    except (SettingsError, InvalidKeyError) as error:
        failed = Finding("signers", CheckResult.FAILED, str(error), "waybill doctor --offline")
        unknown = "not checked: no key pays for deliveries there"
        advice = "set WAYBILL_RELAYER_KEY, or name a signer under [[signers]], if a relayer is to run here"
        rows = [Finding(f"account on {one.name}", CheckResult.WARNING, unknown, advice) for one in deployment.chains]
        return [failed, *rows], {}
    return [seal], {chain_id: sorted({one.address for one in named}) for chain_id, named in signers.items()}


def _attestations(deployment: Deployment, settings: Settings) -> Finding:
    """Whether a relayer knows where each GMP's attestations come from; a devnet's are made here."""
    check = "attestations of GMPs"
    chosen = settings.attestations.settings(is_testnet=is_testnet(deployment))
    try:
        web = JsonDocuments(timeout=settings.attestations.TIMEOUT)  # asks nothing here
        attesters = create_attesters(deployment, {}, chosen, settings.gmps, web)
    except AttestationError as error:
        return Finding(check, CheckResult.FAILED, str(error), "without it no relayer starts")
    asked = {gmp.label: attestation_choice(gmp, chosen) for gmp in attesters}
    hosts = [f"{gmp}: {', '.join(hosts)}" for gmp, hosts in asked.items() if isinstance(hosts, tuple)]
    return Finding(check, CheckResult.OK, "; ".join(hosts) or "on the chains themselves")


async def _endpoint(here: ChainDeployment, url: str, most_skew: float, origin: str) -> list[Finding]:
    """One endpoint alone: is it there, is it that chain, how old is its newest block?"""
    name = f"endpoint of {here.name}"
    try:
        async with await EvmChain.connect(
            here.chain_id,
            [url],
            request_seconds=_SECONDS,
            try_seconds=_SECONDS,
            origin=origin,
            chain_name=here.name,
        ) as chain:
            shown = chain.endpoint_states[0].name
            head, began = await chain.head(), time.time()
    except _SILENT as error:
        advice = "correct rpcUrls, or [chains.…] rpc_urls in waybill.toml"
        return [Finding(name, CheckResult.FAILED, str(error), advice)]
    ahead = head.timestamp - began
    if ahead > most_skew:
        clock = f"its newest block is {ahead:.0f} s in this machine's future"
        return [Finding(name, CheckResult.FAILED, f"{shown}: {clock}", "set this machine's clock (NTP)")]
    text = f"{shown}: chain {here.chain_id}, block {head.number}, {-ahead:.0f} s old"
    if ahead < -_OLD:
        advice = (
            "does the node still follow its chain, and is this machine's clock right (NTP)? compare with an explorer"
        )
        return [Finding(name, CheckResult.WARNING, text, advice)]
    return [Finding(name, CheckResult.OK, text)]


async def _on_chain(
    here: ChainDeployment, urls: tuple[str, ...], accounts: Iterable[str], pauser: str | None
) -> list[Finding]:
    """Contracts, accounts, pauses and the tripwire, as the endpoints together have them."""
    findings = []
    try:
        async with await EvmChain.connect(here.chain_id, urls, try_seconds=_SECONDS, chain_name=here.name) as chain:
            findings.append(await _contracts(here, chain))
            for account in accounts:
                advice = "send it some: without it deliveries wait"
                findings.append(_balance(f"account on {here.name}", account, await chain.balance(account), advice))
            findings += await _base_fee(here, chain)
            findings.append(await _tripwire(here, chain, pauser))
            findings.append(await _paused(here, chain))
    except (*_SILENT, CallRevertedError):
        pass  # the findings about its endpoints and contracts say so
    return findings


async def _base_fee(here: ChainDeployment, chain: EvmChain) -> list[Finding]:
    """A chain without EIP-1559, on which nothing can be sent."""
    try:
        await chain.fees()
    except TransientError as error:
        advice = "Waybill can send nothing there; leave the chain out of the deployments file"
        return [Finding(f"fees on {here.name}", CheckResult.FAILED, str(error), advice)]
    return []


async def _contracts(here: ChainDeployment, chain: EvmChain) -> Finding:
    check = f"contracts on {here.name}"
    places = {"router": here.router, **{f"adapter for {gmp}": at for gmp, at in here.adapters.items()}}
    missing = [name for name, address in places.items() if not await chain.code(address)]
    if not missing:
        return Finding(check, CheckResult.OK, f"{len(places)} are there")
    text = f"no contract at the address of {', '.join(missing)}"
    return Finding(check, CheckResult.FAILED, text, "is the deployments file of this network?")


async def _paused(here: ChainDeployment, chain: EvmChain) -> Finding:
    """The GMPs over which the router sends and takes nothing now."""
    check, paused = f"GMPs on {here.name}", await gmp_pauses(here, chain)
    if not paused:
        return Finding(check, CheckResult.OK, "none is paused")
    advice = f"waybill gmp resume {paused[0].gmp.label} --chains {here.name} ends it, if the GMP is sound"
    return Finding(check, CheckResult.WARNING, "\n".join(one.text for one in paused), advice)


async def _tripwire(here: ChainDeployment, chain: EvmChain, pauser: str | None) -> Finding:
    """Whom the router lets pause a GMP that lies, and whether the settings name that account and it can pay."""
    check = f"tripwire on {here.name}"
    try:
        named = await read_view(chain, ROUTER, here.router, "tripwire")
    except CallRevertedError:
        unknown, advice = "the router does not name one", "is it a Waybill router of this version?"
        return Finding(check, CheckResult.FAILED, unknown, advice)
    if int(named, 16) == 0:
        advice = "the owner calls setTripwire: without it nothing pauses a GMP that lies"
        return Finding(check, CheckResult.WARNING, "the router names none", advice)
    if pauser is not None and pauser.lower() != named.lower():
        advice = "the owner calls setTripwire, or correct key or signer in [tripwire]"
        return Finding(check, CheckResult.FAILED, f"the router names {named}, the settings {pauser}", advice)
    return _balance(check, named, await chain.balance(named), "send it some: without it no pause can be sent")


def _balance(check: str, account: str, wei: int, advice: str) -> Finding:
    found = f"{account} holds {wei / 10**18:.4f} ether"
    if wei >= _LITTLE:
        return Finding(check, CheckResult.OK, found)
    return Finding(check, CheckResult.WARNING if wei else CheckResult.FAILED, found, advice)


def _compared(workspace: Workspace, deployment: Deployment, settings: Settings) -> list[Finding]:
    """Compares each chain with the network file, and asks each GMP for a quote."""
    file, check = workspace.plan_file, "network file"
    if not file.exists():
        return []
    try:
        plan = NetworkPlan.read(file)
    except PlanError as error:
        return [Finding(check, CheckResult.WARNING, str(error), "without it nothing is compared with the plan")]

    async def read() -> list[Finding]:
        async with connected(deployment, settings) as chains:
            compared = [
                await _planned(plan, planned, chains[planned.chain_id], deployment.chain(planned.chain_id))
                for planned in plan.chains
                if planned.chain_id in chains
            ]
            return [*compared, *await _fees(deployment, chains)]

    try:
        return asyncio.run(read())
    except _SILENT as error:
        return [Finding(check, CheckResult.WARNING, str(error), "nothing was compared with the plan")]


async def _planned(plan: NetworkPlan, planned: PlannedChain, chain: EvmChain, here: ChainDeployment) -> Finding:
    name = f"plan of {planned.name}"
    try:
        drift = await find_drift(plan, planned, chain, here.gmps)
    except DeployError as error:
        return Finding(name, CheckResult.WARNING, str(error), "then nothing is compared with the plan")
    if not drift:
        return Finding(name, CheckResult.OK, "addresses, floors, verifiers, roles and prices are as planned")
    advice = (
        "correct the file if the chain is right; else waybill role set and transfer change roles, and"
        " waybill deploy --dry-run shows what the rest takes"
    )
    return Finding(name, CheckResult.FAILED, "\n".join(drift), advice)


async def _fees(deployment: Deployment, chains: Mapping[int, EvmChain]) -> list[Finding]:
    """What each GMP asks for a small message on each lane."""
    client, found = Client(deployment, chains, Account.create()), []
    for here, there in itertools.permutations(deployment.chains, 2):
        for gmp in sorted(here.gmp_numbers & there.gmp_numbers):
            request = RouteRequest(
                destination=there.chain_id, recipient=there.router, payload=b"doctor", gmps=(gmp,), ttl=0
            )
            name = f"fee of {gmp.label} from {here.name} to {there.name}"
            try:
                asked = (await client.quote_route(here.chain_id, request))[gmp]
            except RefusedError as error:
                found.append(Finding(name, CheckResult.FAILED, str(error), "nothing can be sent over it: ask the GMP"))
            else:
                found.append(Finding(name, CheckResult.OK, f"{ether(asked)} for a small message"))
    return found
