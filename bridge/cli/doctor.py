"""`waybill doctor`: looks at everything that a relayer needs, and says what is wrong with it and what to do."""

from __future__ import annotations

import asyncio
import itertools
import platform
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from eth_account import Account
from rich.console import Console

from bridge.cli.extras import is_installed
from bridge.cli.open_stores import index_if_any, open_letters, open_relayer_store
from bridge.cli.output import CliError, ExitCode, result, table, with_network
from bridge.cli.root import DEVNET
from bridge.cli.settings_rows import setting_rows, unread_variables
from bridge.cli.workspace import Workspace
from bridge.client import Client, RefusedError, RouteRequest
from bridge.deploy.addresses import is_testnet
from bridge.deploy.drift import find_drift
from bridge.deploy.plan import NetworkPlan, PlanError, PlannedChain
from bridge.deploy.transactions import DeployError
from bridge.evm.chain import EvmChain
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
from bridge.queries.lanes import is_late
from bridge.records.dead_letters import LetterStatus
from bridge.records.spending import ether
from bridge.rpc.answers import WrongChainError
from bridge.service.connections import connected
from bridge.service.keys import open_sealer, paying_signers, tripwire_signer
from bridge.service.startup_checks import check_tripwire
from bridge.settings import Settings, SettingsError, check_chains
from bridge.store import Store

_SECONDS: Final = 3.0  # that an endpoint may take
_OLD: Final = 300  # seconds after which a newest block is none, as for the alert WaybillChainDown
_LITTLE: Final = 5 * 10**16  # wei: an account with less is about to be empty


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
        _print_settings(workspace.settings())
        return
    findings = [_versions(), *_unread()]
    settings, wrong = _settings(workspace.settings)
    findings.append(wrong or Finding("settings", CheckResult.OK, "valid"))
    deployment = workspace.deployment()
    findings.append(
        Finding("deployments", CheckResult.OK, f"{len(deployment.chains)} chains in {workspace.deployments_file}")
    )
    findings += _verification(deployment)
    if settings is not None and offline:
        findings += _starting(workspace, settings, deployment)
    elif settings is not None:
        _, wrong = _settings(lambda: check_chains(settings, deployment))
        findings += [wrong] if wrong else []
        findings += _stores(workspace)
        findings.append(_dead_letters(settings))
        findings += asyncio.run(_chains(deployment, settings))
        findings += _completeness(workspace, deployment, settings)
        findings += _compared(workspace, deployment, settings)
    value = [asdict(finding) for finding in findings]
    result(value, render=lambda console: _draw(console, findings))
    if any(finding.result is CheckResult.FAILED for finding in findings):
        raise SystemExit(ExitCode.FAILED)


def _print_settings(settings: Settings) -> None:
    rows = setting_rows(settings)
    drawn = table(
        None, ["setting", "value", "set by", "meaning"], [[str(value) for value in row.values()] for row in rows]
    )
    result(rows, render=lambda console: console.print(drawn))


def _unread() -> list[Finding]:
    return [
        Finding(f"variable {name}", CheckResult.WARNING, "nothing reads it", "is it misspelt? correct or remove it")
        for name in unread_variables()
    ]


def _starting(workspace: Workspace, settings: Settings, deployment: Deployment) -> Iterable[Finding]:
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


def _versions() -> Finding:
    installed = [name for name in ("web3", "SQLAlchemy", "pydantic") if is_installed(name.lower())]
    libraries = ", ".join(f"{name} {version(name)}" for name in installed)
    found = f"waybill {version('waybill')}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {libraries}"
    return Finding("versions", CheckResult.OK, found)


def _settings(reading: Callable[[], Any]) -> tuple[Any, Finding | None]:
    try:
        return reading(), None
    except SettingsError as error:
        return None, Finding("settings", CheckResult.FAILED, str(error), "waybill doctor --settings")


def _verification(deployment: Deployment) -> Iterable[Finding]:
    """Who vouches for messages, as the deployments file says; what a GMP may change by itself is a warning."""
    for chain in deployment.chains:
        for gmp, who in (chain.verification or {}).items():
            left = who.startswith(DEFAULT) and adapter_class(Gmp.parse(gmp)).CONTRACTS.VERIFICATION is not None
            section = f"verification.{gmp} in networks/{deployment.network}.json"
            advice = (
                f"choose it under {section}" if left else f"name two under {section}" if who.endswith(ALONE) else ""
            )
            yield Finding(f"{gmp} on {chain.name}", CheckResult.WARNING if advice else CheckResult.OK, who, advice)


def _stores(workspace: Workspace) -> Iterable[Finding]:
    try:
        with open_relayer_store(workspace) as store:
            if store is None:
                yield Finding("relayer's store", CheckResult.WARNING, "there is none yet", "waybill relayer run")
            else:
                held = store.lanes.held()
                yield Finding("relayer's store", CheckResult.OK, "readable")
                if held:
                    yield Finding("lanes", CheckResult.WARNING, f"{len(held)} held", "waybill lane list")
    except (StoreError, TransientError) as error:
        yield Finding("relayer's store", CheckResult.FAILED, str(error))
    named = {one.chain_id: one.name for one in workspace.deployment().chains}
    max_lag = workspace.settings().index.max_lag
    with index_if_any(workspace) as index:
        if index is None:
            yield Finding("index", CheckResult.WARNING, "there is none yet", "waybill index run")
            return
        for chain in index.chains():
            name = f"index of {named.get(chain.chain_id, chain.chain_id)}"
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
    pauser, wrong = _pauser(settings)
    findings += [wrong] if wrong else []
    urls, policies = settings.rpc_urls(deployment), settings.endpoint_policies(deployment)
    checks: list[Awaitable[list[Finding]]] = [_attestations(deployment, settings)]
    for deployed in deployment.chains:
        skew, origin = settings.reliability.max_clock_skew, policies[deployed.chain_id].origin
        asked = urls.get(deployed.chain_id) or deployed.rpc_urls
        checks += [_endpoint(deployed, url, skew, origin) for url in asked]
        checks.append(_on_chain(deployed, asked, accounts.get(deployed.chain_id, ())))
        checks.append(_paused(deployed, asked))
        checks.append(_tripwire(deployed, asked, pauser))
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


def _pauser(settings: Settings) -> tuple[str | None, Finding | None]:
    """The tripwire's account by the settings; None if they name none, or one that can't be opened."""
    table = settings.tripwire
    if not (table.key or table.signer):
        return None, None
    try:
        return tripwire_signer(settings).address, None
    except (SettingsError, InvalidKeyError) as error:
        return None, Finding("tripwire's signer", CheckResult.FAILED, str(error), "correct key or signer in [tripwire]")


async def _attestations(deployment: Deployment, settings: Settings) -> list[Finding]:
    """Whether a relayer knows where each GMP's attestations come from; a devnet's are made here."""
    if deployment.network == DEVNET:
        return []
    chosen = settings.attestations.settings(is_testnet=is_testnet(deployment))
    try:
        web = JsonDocuments(timeout=settings.attestations.timeout)  # asks nothing here
        attesters = create_attesters(deployment, {}, chosen, settings.gmps, web)
    except AttestationError as error:
        return [Finding("attestations of GMPs", CheckResult.FAILED, str(error), "without it no relayer starts")]
    asked = {gmp.label: attestation_choice(gmp, chosen) for gmp in attesters}
    hosts = [f"{gmp}: {', '.join(hosts)}" for gmp, hosts in asked.items() if isinstance(hosts, tuple)]
    return [Finding("attestations of GMPs", CheckResult.OK, "; ".join(hosts) or "on the chains themselves")]


async def _endpoint(deployed: ChainDeployment, url: str, most_skew: float, origin: str) -> list[Finding]:
    """One endpoint alone: is it there, is it that chain, how old is its newest block?"""
    name = f"endpoint of {deployed.name}"
    try:
        async with await EvmChain.connect(
            deployed.chain_id,
            [url],
            request_seconds=_SECONDS,
            try_seconds=_SECONDS,
            origin=origin,
            chain_name=deployed.name,
        ) as chain:
            shown = chain.endpoint_states[0].name
            head, began = await chain.head(), time.time()
    except (TransientError, TerminalError, WrongChainError) as error:
        advice = "correct rpcUrls, or [chains.…] rpc_urls in waybill.toml"
        return [Finding(name, CheckResult.FAILED, str(error), advice)]
    ahead = head.timestamp - began
    if ahead > most_skew:
        clock = f"its newest block is {ahead:.0f} s in this machine's future"
        return [Finding(name, CheckResult.FAILED, f"{shown}: {clock}", "set this machine's clock (NTP)")]
    text = f"{shown}: chain {deployed.chain_id}, block {head.number}, {-ahead:.0f} s old"
    if ahead < -_OLD:
        advice = (
            "does the node still follow its chain, and is this machine's clock right (NTP)? compare with an explorer"
        )
        return [Finding(name, CheckResult.WARNING, text, advice)]
    return [Finding(name, CheckResult.OK, text)]


async def _on_chain(deployed: ChainDeployment, urls: Iterable[str], accounts: Iterable[str]) -> list[Finding]:
    """Contracts and accounts, as the endpoints together have them."""
    findings = []
    try:
        async with await EvmChain.connect(
            deployed.chain_id, tuple(urls), try_seconds=_SECONDS, chain_name=deployed.name
        ) as chain:
            places = {"router": deployed.router, **{f"adapter for {gmp}": at for gmp, at in deployed.adapters.items()}}
            missing = [name for name, address in places.items() if not await chain.code(address)]
            if missing:
                text = f"no contract at the address of {', '.join(missing)}"
                advice = "is the deployments file of this network?"
                findings.append(Finding(f"contracts on {deployed.name}", CheckResult.FAILED, text, advice))
            else:
                findings.append(Finding(f"contracts on {deployed.name}", CheckResult.OK, f"{len(places)} are there"))
            balances = [(account, await chain.balance(account)) for account in accounts]
            findings += (_balance(deployed.name, account, wei) for account, wei in balances)
            findings += await _base_fee(deployed, chain)
    except (TransientError, TerminalError, WrongChainError):
        return findings  # its endpoints' own findings say so
    return findings


async def _base_fee(deployed: ChainDeployment, chain: EvmChain) -> list[Finding]:
    """A chain without EIP-1559, on which nothing can be sent."""
    try:
        await chain.fees()
    except TransientError as error:
        advice = "Waybill can send nothing there; leave the chain out of the deployments file"
        return [Finding(f"fees on {deployed.name}", CheckResult.FAILED, str(error), advice)]
    return []


async def _paused(deployed: ChainDeployment, urls: Iterable[str]) -> list[Finding]:
    """The GMPs over which the router sends and takes nothing now."""
    try:
        async with await EvmChain.connect(
            deployed.chain_id, tuple(urls), try_seconds=_SECONDS, chain_name=deployed.name
        ) as chain:
            paused = await gmp_pauses(deployed, chain)
    except (TransientError, TerminalError, WrongChainError, CallRevertedError):
        return []  # the findings about its endpoints and contracts say so
    if not paused:
        return [Finding(f"GMPs on {deployed.name}", CheckResult.OK, "none is paused")]
    advice = f"waybill gmp resume {paused[0].gmp.label} --chains {deployed.name} ends it, if the GMP is sound"
    return [Finding(f"GMPs on {deployed.name}", CheckResult.WARNING, "\n".join(one.text for one in paused), advice)]


async def _tripwire(deployed: ChainDeployment, urls: Iterable[str], pauser: str | None) -> list[Finding]:
    """Whom the router lets pause a GMP that lies, and whether the settings name that account and it can pay."""
    name = f"tripwire on {deployed.name}"
    try:
        async with await EvmChain.connect(
            deployed.chain_id, tuple(urls), try_seconds=_SECONDS, chain_name=deployed.name
        ) as chain:
            named = await read_view(chain, ROUTER, deployed.router, "tripwire")
            balance = await chain.balance(named)
    except (TransientError, TerminalError, WrongChainError):
        return []  # its endpoints' own findings say so
    except CallRevertedError:
        return [
            Finding(name, CheckResult.FAILED, "the router does not name one", "is it a Waybill router of this version?")
        ]
    if int(named, 16) == 0:
        advice = "the owner calls setTripwire: without it nothing pauses a GMP that lies"
        return [Finding(name, CheckResult.WARNING, "the router names none", advice)]
    if pauser is not None and pauser.lower() != named.lower():
        advice = "the owner calls setTripwire, or correct key or signer in [tripwire]"
        return [Finding(name, CheckResult.FAILED, f"the router names {named}, the settings {pauser}", advice)]
    result = CheckResult.FAILED if balance == 0 else CheckResult.WARNING if balance < _LITTLE else CheckResult.OK
    advice = "" if result is CheckResult.OK else "send it some: without it no pause can be sent"
    return [Finding(name, result, f"{named} holds {balance / 10**18:.4f} ether", advice)]


def _compared(workspace: Workspace, deployment: Deployment, settings: Settings) -> list[Finding]:
    """Compares each chain with the network file, and asks each GMP for a quote."""
    file = workspace.plan_file
    if not file.exists():
        return []
    try:
        plan = NetworkPlan.read(file)
    except PlanError as error:
        return [
            Finding("network file", CheckResult.WARNING, str(error), "without it nothing is compared with the plan")
        ]

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
    except (TransientError, TerminalError, WrongChainError) as error:
        return [Finding("network file", CheckResult.WARNING, str(error), "nothing was compared with the plan")]


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


def _balance(chain: str, account: str, wei: int) -> Finding:
    result = CheckResult.FAILED if wei == 0 else CheckResult.WARNING if wei < _LITTLE else CheckResult.OK
    advice = "" if result is CheckResult.OK else "send it some: without it deliveries wait"
    return Finding(f"account on {chain}", result, f"{account} holds {wei / 10**18:.4f} ether", advice)


def _draw(console: Console, findings: list[Finding]) -> None:
    rows = [[finding.check, finding.result.value, finding.found, with_network(finding.advice)] for finding in findings]
    console.print(table(None, ["check", "result", "found", "what to do"], rows))
