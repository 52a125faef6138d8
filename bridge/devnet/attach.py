"""A devnet on anvils that somebody else started."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bridge.deploy.addresses import public_chain_ids
from bridge.deploy.plan import NetworkPlan
from bridge.devnet import anvil
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.devnet.anvil import AnvilProcess, ChainStatus
from bridge.devnet.errors import DevnetError
from bridge.devnet.fetch import bring_in
from bridge.devnet.network import (
    CHAIN_NAMES,
    Devnet,
    Folder,
    Node,
    Progress,
    Record,
    deploy_gmps,
    deploy_waybill,
    exclusively,
)
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import Deployment

_CLIENTS: Final = ("anvil", "hardhat")
_LEAST_BALANCE: Final = 10**18  # wei
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
_SECONDS: Final = 5.0  # that a node may take for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedChain:
    """A chain that the devnet uses and did not start."""

    name: str
    chain_id: int
    url: str

    @property
    def status(self) -> ChainStatus:
        """How it does now."""
        return anvil.look_at_url(self.name, self.chain_id, self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """What is known of an attached devnet between two commands."""

    chains: tuple[AttachedChain, ...]
    plan: dict[str, Any] | None = None  # once the GMPs are on all chains
    is_done: bool = False  # whether Waybill is on all chains

    @classmethod
    def read(cls, folder: Folder) -> Attachment | None:
        """What `write` wrote; None if nothing is attached."""
        try:
            document = json.loads(folder.attached.read_text())
        except FileNotFoundError:
            return None
        chains = tuple(AttachedChain(**fields) for fields in document["chains"])
        return cls(chains=chains, plan=document["plan"], is_done=document["is_done"])

    def write(self, folder: Folder) -> None:
        """Keeps it for the next command."""
        fresh = folder.attached.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
        fresh.replace(folder.attached)


async def attach(*, home: Path, urls: Sequence[str], progress: Progress = lambda _: None) -> Devnet:
    """Puts the GMPs, Waybill and the examples on anvils that the user started, and connects all with all.

    A message needs another chain to go to: where one URL is named, a second chain is started, which `down` ends. What is there
    already stays; after an interruption a second call goes on, and after a restart of an anvil it begins again.

    Args:
        home: the folder below which ``build/devnet`` and ``deployments`` are.
        urls: JSON-RPC endpoints, of one chain each.
        progress: is told what happens, one line at a time.

    Raises:
        DevnetError: a URL does not lead to a development chain; the devnet is up otherwise; a contract can't be deployed.
    """
    folder = Folder.below(home)
    with exclusively(folder):
        named = _named(urls)
        known, record = Attachment.read(folder), Record.read(folder)
        if known is None and record is not None:
            raise DevnetError("the devnet is up with chains of its own; run `waybill devnet down` first")
        if known is not None and known.chains != named:
            there = ", ".join(f"{one.url} (chain {one.chain_id})" for one in known.chains)
            raise DevnetError(f"the devnet is on {there}, not on {', '.join(urls)}; run `waybill devnet down` first")
        if known is not None and (found := await _as_it_is(folder, known, record)) is not None:
            return found
        return await _put_on(folder, named, known, record, progress)


async def _put_on(
    folder: Folder,
    named: tuple[AttachedChain, ...],
    known: Attachment | None,
    record: Record | None,
    progress: Progress,
) -> Devnet:
    await asyncio.to_thread(bring_in, progress)
    started = [one for one in record.anvils if anvil.is_alive(one)] if record is not None else []
    plan = NetworkPlan.model_validate(known.plan) if known is not None and known.plan else None
    nodes: list[Node] = [*named, *started]
    if plan is None or not await _has_gmps(nodes, plan):
        if plan is not None:
            await _require_empty(named, plan)
        anvil.stop(started)  # it knows contracts of chains that are gone
        started = []
        if len(named) == 1:
            started = [_second_chain(folder, named[0], progress)]
            Record(1, tuple(started)).write(folder)
        nodes = [*named, *started]
        progress(f"deploying the GMPs to {', '.join(node.name for node in nodes)}")
        Attachment(chains=named).write(folder)
        # Only an anvil's own clock mines blocks: nothing is known of how often, so an event counts at once.
        plan = await deploy_gmps(nodes, confirmations=0)
    document = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    Attachment(chains=named, plan=document).write(folder)
    deployment = await deploy_waybill(plan, folder.deployments_file, progress)
    for process in started:
        anvil.mine_every(process, 1)
    Attachment(chains=named, plan=document, is_done=True).write(folder)
    return _devnet(folder, named, started, deployment, started=True)


async def _as_it_is(folder: Folder, known: Attachment, record: Record | None) -> Devnet | None:
    """The devnet that a former call completed; None if it did not, or a chain has lost it since."""
    processes = record.anvils if record is not None else ()
    if not known.is_done or not folder.deployments_file.exists() or not all(map(anvil.is_alive, processes)):
        return None
    file = folder.deployments_file
    deployment = Deployment.from_json(file.read_text(), str(file))
    nodes: list[Node] = [*known.chains, *processes]
    urls = {node.chain_id: node.url for node in nodes}
    if urls.keys() != {chain.chain_id for chain in deployment.chains}:
        return None
    for chain in deployment.chains:
        async with await EvmChain.connect(chain.chain_id, [urls[chain.chain_id]]) as opened:
            if not await opened.code(chain.router):
                return None
    return _devnet(folder, known.chains, processes, deployment, started=False)


def _devnet(
    folder: Folder,
    named: Sequence[AttachedChain],
    processes: Sequence[AnvilProcess],
    deployment: Deployment,
    *,
    started: bool,
) -> Devnet:
    return Devnet(
        deployment=deployment,
        deployments_file=folder.deployments_file,
        chains=(*(one.status for one in named), *map(anvil.look_at, processes)),
        block_time=0,
        started=started,
    )


async def _has_gmps(nodes: Sequence[Node], plan: NetworkPlan) -> bool:
    """Whether the contracts of a plan's GMPs are still on the chains."""
    if [chain.chain_id for chain in plan.chains] != [node.chain_id for node in nodes]:
        return False
    for node, chain in zip(nodes, plan.chains, strict=True):
        places = _ADDRESS.findall(json.dumps(chain.model_dump(mode="json")["gmps"]))
        async with await EvmChain.connect(node.chain_id, [node.url]) as opened:
            if not all([await opened.code(place) for place in places]):
                return False
    return True


async def _require_empty(named: Sequence[AttachedChain], plan: NetworkPlan) -> None:
    """Makes sure that all chains were restarted, if one was: contracts on one know those on the others.

    Raises:
        DevnetError: a chain still has the former contracts.
    """
    for node in named:
        chain = [one for one in plan.chains if one.chain_id == node.chain_id]
        if chain and await _has_gmps([node], plan.model_copy(update={"chains": tuple(chain)})):
            raise DevnetError(
                f"{node.url} still has the contracts of a devnet whose other chains were restarted: restart its anvil too"
            )


def _second_chain(folder: Folder, first: AttachedChain, progress: Progress) -> AnvilProcess:
    port, name = anvil.free_port(), CHAIN_NAMES[1]
    progress(f"starting chain {name} on port {port}: messages need another chain to go to")
    return anvil.start(name=name, chain_id=first.chain_id + 1, port=port, log=folder.state / f"{name}.log")


def _named(urls: Sequence[str]) -> tuple[AttachedChain, ...]:
    """The chains behind the URLs, which must be development chains.

    Raises:
        DevnetError: one is not, does not answer, or two have the same chain id.
    """
    if len(urls) > len(CHAIN_NAMES):
        raise DevnetError(f"a devnet has at most {len(CHAIN_NAMES)} chains, not {len(urls)}")
    found = tuple(
        AttachedChain(name=name, chain_id=_chain_id(url), url=url) for name, url in zip(CHAIN_NAMES, urls, strict=False)
    )
    for chain in _repeated(found):
        raise DevnetError(
            f"two of the chains have id {chain.chain_id}: start {chain.url} with another one, such as"
            f" anvil --chain-id {chain.chain_id + 1}"
        )
    return found


def _repeated(chains: Sequence[AttachedChain]) -> Iterator[AttachedChain]:
    seen: set[int] = set()
    for chain in chains:
        if chain.chain_id in seen:
            yield chain
        seen.add(chain.chain_id)


def _chain_id(url: str) -> int:
    """The id of the development chain at a URL."""
    version, chain_id = str(_asked(url, "web3_clientVersion")), int(str(_asked(url, "eth_chainId")), 16)
    if not version.lower().startswith(_CLIENTS):
        raise DevnetError(
            f"{url} is not a development chain: it runs {version}. This command deploys with well-known keys, and only to anvil"
            " or hardhat; for other chains: waybill network create, then waybill deploy"
        )
    if chain_id in public_chain_ids():
        raise DevnetError(
            f"{url} has the id of a public chain, {chain_id}: start it with an id of its own, such as anvil --chain-id 31337"
        )
    deployer = account(DEPLOYER_KEY).address
    balance = int(str(_asked(url, "eth_getBalance", deployer, "latest")), 16)
    if balance < _LEAST_BALANCE:
        raise DevnetError(
            f"the first account of anvil, {deployer}, holds {balance} wei on {url}: start anvil with its own mnemonic, or send"
            " it 1 ether"
        )
    return chain_id


def _asked(url: str, method: str, *params: Any) -> Any:
    try:
        answer = anvil.answer(url, method, params, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise DevnetError(f"nothing answers JSON-RPC at {url} ({error}); start anvil there first") from error
    if "result" not in answer:
        raise DevnetError(f"{url} refuses {method}: {answer.get('error')}")
    return answer["result"]
