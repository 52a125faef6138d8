"""`waybill doctor`: checks everything that a relayer needs, and reports problems with their remedies."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Final

import typer

from bridge.cli.output import CliError, ExitCode, result, rows_table, with_network
from bridge.cli.root import DEVNET
from bridge.cli.settings import WaybillSettings
from bridge.cli.workspace import Workspace
from bridge.deploy.addresses import is_testnet
from bridge.deploy.drift import find_drift
from bridge.deploy.plan import NetworkPlan, PlanError
from bridge.deploy.transactions import DeployError
from bridge.evm.chain import EvmChain
from bridge.evm.rpc_answers import WrongChainError
from bridge.evm.signing import InvalidKeyError
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.errors import StoreError
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import CallRevertedError, TerminalError, TransientError, read_view
from bridge.service.connections import connected
from bridge.service.keys import paying_signers, tripwire_signer
from bridge.service.settings import Settings, check_chains
from bridge.service.startup_checks import check_relayer, check_tripwire
from bridge.settings import SettingsError, unknown_variables

_SECONDS: Final = 3.0
"""Seconds to wait for one endpoint."""

_MAX_HEAD_AGE: Final = 300
"""Seconds. A chain whose newest block is older counts as down, as for the alert WaybillChainDown."""

_LOW_BALANCE: Final = 5 * 10**16
"""Wei. An account that holds less gets a warning."""

_OTHER_VARIABLES: Final = frozenset(
    f"WAYBILL_{name}"
    for name in (
        "CONFIG",
        "HOME",
        "KEY",
        "NETWORK",
        "PORT",
        "REQUESTS_PER_MINUTE",
        "SPARK_MASTER",
        "STALL_AFTER",
        "TRUSTED_PROXY",
        "WEB_HTTP",
    )
)
"""Variables that commands read in addition to the settings."""

_UNREACHABLE: Final = (TransientError, TerminalError, WrongChainError, CallRevertedError)
_FAILURES: Final = (*_UNREACHABLE, SettingsError, StoreError, CliError)
_COLUMNS: Final = {"check": "check", "result": "result", "found": "found", "advice": "what to do"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A finding with advice is a warning, unless the check failed."""

    check: str
    found: str
    advice: str = ""
    has_failed: bool = False

    @property
    def result(self) -> str:
        """Returns ``failed``, ``warning`` (the check passed, but may fail soon), or ``ok``."""
        if self.has_failed:
            return "failed"
        return "warning" if self.advice else "ok"

    def row(self) -> dict[str, str]:
        """Returns the finding for JSON."""
        return {"check": self.check, "result": self.result, "found": self.found, "advice": self.advice}


@dataclass(frozen=True, slots=True)
class _Subject:
    """A network with valid settings."""

    workspace: Workspace
    settings: Settings
    deployment: Deployment


def doctor(
    *,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Connect to nothing: check settings, keys and deployments, and whether relayer and tripwire can start.",
        ),
    ] = False,
) -> None:
    """Check settings, keys, deployments, stores, endpoints, clocks, contracts, balances and the tripwire. Changes nothing.

    Compares the chains with the network file, if there is one. `waybill status` shows what relayer and index are
    doing. Exits with status 1 if a check fails.

    Example: waybill doctor
    """
    workspace = Workspace.current()
    findings = list(_findings(workspace, offline=offline))
    value = [finding.row() for finding in findings]
    shown = [row | {"advice": with_network(row["advice"])} for row in value]
    result(value, rows_table(shown, _COLUMNS))
    if any(finding.has_failed for finding in findings):
        raise SystemExit(ExitCode.FAILED)


def _findings(workspace: Workspace, *, offline: bool) -> Iterator[Finding]:
    """Runs all checks, even if some fail."""
    yield Finding("versions", f"waybill {version('waybill')}, Python {platform.python_version()}")
    for name in unknown_variables(WaybillSettings, _OTHER_VARIABLES):
        yield Finding(f"variable {name}", "no setting has this name", "correct the name, or remove the variable")
    deployment = workspace.deployment()
    yield Finding("deployments", f"{len(deployment.chains)} chains in {workspace.deployments_file}")
    try:
        settings = workspace.settings()
        check_chains(settings, deployment)
    except SettingsError as error:
        yield Finding("settings", str(error), "correct them", has_failed=True)
        return
    yield Finding("settings", "valid")
    subject = _Subject(workspace, settings, deployment)
    for name, check in _OFFLINE if offline else (*_OFFLINE, *_ONLINE):
        try:
            yield from check(subject)
        except _FAILURES as error:
            yield Finding(name, str(error), "correct waybill.toml", has_failed=True)


def _relayer(subject: _Subject) -> Iterator[Finding]:
    is_devnet = subject.deployment.network == DEVNET
    check_relayer(subject.settings, subject.deployment, has_attesters=is_devnet)
    if subject.settings.store.startswith("sqlite:"):
        _ = subject.workspace.store  # raises an error if it is configured but does not exist
    yield Finding("relayer run", "can start")
    if not is_devnet:
        chosen = subject.settings.attestations.by_gmp(is_testnet=is_testnet(subject.deployment))
        gmps = frozenset[Gmp]().union(*(chain.gmp_numbers for chain in subject.deployment.chains))
        asked = {gmp.label: chosen.get(gmp) for gmp in sorted(gmps & subject.settings.gmps)}
        hosts = [f"{gmp}: {', '.join(hosts)}" for gmp, hosts in asked.items() if isinstance(hosts, tuple)]
        yield Finding("attestations of GMPs", "; ".join(hosts) or "on the chains themselves")


def _tripwire(subject: _Subject) -> Iterator[Finding]:
    if "tripwire" in subject.settings.model_fields_set:
        check_tripwire(subject.settings, subject.deployment)
        yield Finding("tripwire run", "can start")


def _stores(subject: _Subject) -> Iterator[Finding]:
    """Checks that each store can be read, if it exists. `waybill status` shows what is in them."""
    workspace, wrong_letters = subject.workspace, "correct url in [dlq]: lanes halt until letters can be written"
    for name, opened, remedy, command in (
        ("relayer's store", workspace.relayer_store, "", "waybill relayer run"),
        ("dead letters", workspace.letters, wrong_letters, "waybill relayer run"),
        ("index", workspace.index_if_any, "", "waybill index run"),
    ):
        try:
            with opened() as store:
                yield Finding(name, "readable") if store else Finding(name, "does not exist yet", command)
        except _FAILURES as error:
            yield Finding(name, str(error), remedy, has_failed=True)


def _chains(subject: _Subject) -> Sequence[Finding]:
    """Checks every endpoint alone, then each chain through all its endpoints."""
    settings, deployment = subject.settings, subject.deployment
    urls = settings.rpc_urls(deployment)

    async def work() -> list[Finding]:
        checks = []
        for chain in deployment.chains:
            asked = tuple(urls.get(chain.chain_id) or chain.rpc_urls)
            checks += [_endpoint(subject, chain, url) for url in asked]
            checks.append(_chain(subject, chain, asked))
        return [finding for found in await asyncio.gather(*checks) for finding in found]

    return asyncio.run(work())


async def _endpoint(subject: _Subject, here: ChainDeployment, url: str) -> list[Finding]:
    """Checks that an endpoint responds, serves the right chain, and has a recent head."""
    name = f"endpoint of {here.name}"
    origin = subject.settings.endpoint_policies(subject.deployment)[here.chain_id].origin
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
            head, now = await chain.head(), time.time()
    except _UNREACHABLE as error:
        advice = "correct rpcUrls, or [chains.…] rpc_urls in waybill.toml"
        return [Finding(name, str(error), advice, has_failed=True)]
    ahead = head.timestamp - now
    if ahead > subject.settings.reliability.max_clock_skew:
        text = f"{shown}: its newest block is {ahead:.0f} s in this machine's future"
        return [Finding(name, text, "set this machine's clock (NTP)", has_failed=True)]
    text = f"{shown}: chain {here.chain_id}, block {head.number}, {-ahead:.0f} s old"
    stale = "check that the node follows its chain, and that this machine's clock is right (NTP)"
    return [Finding(name, text, stale if ahead < -_MAX_HEAD_AGE else "")]


async def _chain(subject: _Subject, here: ChainDeployment, urls: tuple[str, ...]) -> list[Finding]:
    """Checks one chain. `_endpoint` reports endpoints that do not respond."""
    found: list[Finding] = []
    with suppress(*_UNREACHABLE):
        async with await EvmChain.connect(here.chain_id, urls, try_seconds=_SECONDS, chain_name=here.name) as chain:
            for check in (_contracts, _fees, _accounts, _pauser):
                found += [finding async for finding in check(subject, here, chain)]
    return found


async def _contracts(_: _Subject, here: ChainDeployment, chain: EvmChain) -> AsyncIterator[Finding]:
    places = {"router": here.router, **{f"adapter for {gmp}": at for gmp, at in here.adapters.items()}}
    missing = [name for name, address in places.items() if not await chain.code(address)]
    if missing:
        text = f"no contract at the address of {', '.join(missing)}"
        yield Finding(f"contracts on {here.name}", text, "use this network's deployments file", has_failed=True)
    else:
        yield Finding(f"contracts on {here.name}", f"all {len(places)} exist")


async def _fees(_: _Subject, here: ChainDeployment, chain: EvmChain) -> AsyncIterator[Finding]:
    """Checks that the chain supports EIP-1559, without which the relayer can't send transactions."""
    try:
        await chain.fees()
    except TransientError as error:
        advice = "leave the chain out of the deployments file: Waybill can send nothing there"
        yield Finding(f"fees on {here.name}", str(error), advice, has_failed=True)


async def _accounts(subject: _Subject, here: ChainDeployment, chain: EvmChain) -> AsyncIterator[Finding]:
    """Checks the balances of the relayer's accounts. Missing keys are reported by `_relayer`."""
    with suppress(SettingsError, InvalidKeyError):
        for account in {one.address for one in paying_signers(subject.settings, subject.deployment)[here.chain_id]}:
            advice = "fund it: deliveries wait without funds"
            yield _balance(f"account on {here.name}", account, await chain.balance(account), advice)


async def _pauser(subject: _Subject, here: ChainDeployment, chain: EvmChain) -> AsyncIterator[Finding]:
    """Checks that the router's tripwire is the configured account, and that the account can pay."""
    check, pauser = f"tripwire on {here.name}", None
    with suppress(SettingsError, InvalidKeyError):
        pauser = tripwire_signer(subject.settings).address
    named = await read_view(chain, ROUTER, here.router, "tripwire")
    if int(named, 16) == 0:
        advice = "have the owner call setTripwire: until then nothing pauses a lying GMP"
        yield Finding(check, "the router has no tripwire", advice)
    elif pauser is not None and pauser.lower() != named.lower():
        advice = "have the owner call setTripwire, or correct key or account in [tripwire]"
        yield Finding(check, f"the router names {named}, the settings {pauser}", advice, has_failed=True)
    else:
        yield _balance(check, named, await chain.balance(named), "fund it: it can't pause a GMP without funds")


def _balance(check: str, account: str, wei: int, advice: str) -> Finding:
    found = f"{account} holds {wei / 10**18:.4f} ether"
    return Finding(check, found, advice if wei < _LOW_BALANCE else "", has_failed=wei == 0)


def _plan(subject: _Subject) -> Sequence[Finding]:
    """Compares each chain with the network file, if there is one."""
    if not subject.workspace.plan_file.exists():
        return []

    async def work() -> list[Finding]:
        plan = NetworkPlan.read(subject.workspace.plan_file)
        async with connected(subject.deployment, subject.settings) as chains:
            return [
                await _planned(plan, subject.deployment.chain(chain_id), chain) for chain_id, chain in chains.items()
            ]

    try:
        return asyncio.run(work())
    except (PlanError, DeployError, *_UNREACHABLE) as error:
        return [Finding("network file", str(error), "fix it: until then the chains are not compared with the plan")]


async def _planned(plan: NetworkPlan, here: ChainDeployment, chain: EvmChain) -> Finding:
    name = f"plan of {here.name}"
    planned = next((one for one in plan.chains if one.chain_id == here.chain_id), None)
    if planned is None:
        return Finding(name, "the network file lacks this chain", "add it, or remove it from the deployments file")
    drift = await find_drift(plan, planned, chain, here.gmps)
    if not drift:
        return Finding(name, "addresses, floors, verifiers, roles and prices are as planned")
    advice = (
        "correct the file if the chain is right; else waybill role set and transfer change roles, and"
        " waybill deploy --dry-run previews the rest"
    )
    return Finding(name, "\n".join(drift), advice, has_failed=True)


_Check = Callable[[_Subject], Iterator[Finding] | Sequence[Finding]]

_OFFLINE: Final[Sequence[tuple[str, _Check]]] = (("relayer run", _relayer), ("tripwire run", _tripwire))
"""Checks that connect to nothing, and the name of the finding if one raises."""

_ONLINE: Final[Sequence[tuple[str, _Check]]] = (("stores", _stores), ("chains", _chains), ("network file", _plan))
