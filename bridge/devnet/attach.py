"""A devnet on anvil nodes that the user started."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bridge.deploy.addresses import public_chain_ids
from bridge.deploy.transactions import DeployError
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
_MIN_BALANCE: Final = 10**18  # wei
_SECONDS: Final = 5.0  # timeout of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedChain:
    """A chain that the devnet uses but did not start."""

    name: str
    chain_id: int
    url: str

    @property
    def status(self) -> ChainStatus:
        """Returns the chain's current status."""
        return anvil.look_at_url(self.name, self.chain_id, self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The state of an attached devnet, which is saved between commands."""

    chains: tuple[AttachedChain, ...]
    is_done: bool = False  # whether all contracts are deployed

    @classmethod
    def read(cls, folder: Folder) -> Attachment | None:
        """Reads the state that `write` saved, or returns None if nothing is attached."""
        try:
            document = json.loads(folder.attached.read_text())
        except FileNotFoundError:
            return None
        return cls(chains=tuple(AttachedChain(**fields) for fields in document["chains"]), is_done=document["is_done"])

    def write(self, folder: Folder) -> None:
        """Saves the state for the next command."""
        fresh = folder.attached.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
        fresh.replace(folder.attached)


async def attach(*, home: Path, urls: Sequence[str], progress: Progress = lambda _: None) -> Devnet:
    """Deploys the GMPs, Waybill and the examples on the user's anvil nodes, and connects every pair of chains.

    With a single URL, a second chain is started as a destination, which `down` stops. A second call keeps a
    deployment that is complete. After the anvils were restarted, it deploys again.

    Args:
        home: Folder that contains ``build/devnet`` and ``deployments``.
        urls: JSON-RPC endpoints, one per chain.
        progress: Callback for progress lines.

    Raises:
        DevnetError: a URL is not that of a development chain, another devnet is up, or a contract can't be deployed.
    """
    folder = Folder.below(home)
    with exclusively(folder):
        named = _named(urls)
        known, record = Attachment.read(folder), Record.read(folder)
        if known is None and record is not None:
            raise DevnetError("the devnet is up with chains of its own; run `waybill devnet down` first")
        if known is not None and known.chains != named:
            there = ", ".join(f"{chain.url} (chain {chain.chain_id})" for chain in known.chains)
            raise DevnetError(
                f"the devnet is attached to {there}, not to {', '.join(urls)}; to change its chains, run "
                "`waybill devnet down`, restart every chain empty, and run this command again"
            )
        started = [process for process in record.anvils if anvil.is_alive(process)] if record is not None else []
        if known is not None and known.is_done and (kept := await _kept(folder, named, started)) is not None:
            return _devnet(folder, named, started, kept, started=False)
        anvil.stop(started)  # its contracts are connected to chains that are gone
        return await _deploy(folder, named, progress)


async def _kept(folder: Folder, named: Sequence[AttachedChain], processes: Sequence[AnvilProcess]) -> Deployment | None:
    """Returns the deployment of an earlier call, or None if the user's chains were restarted.

    Raises:
        DevnetError: one of the user's chains still has contracts that refer to contracts on restarted chains.
    """
    deployment = Deployment.load(folder.deployments_file)
    routers = {chain.chain_id: chain.router for chain in deployment.chains}
    nodes: list[Node] = [*named, *processes]
    still_there = []
    for node in nodes:
        async with await EvmChain.connect(node.chain_id, [node.url]) as opened:
            if node.chain_id in routers and await opened.code(routers[node.chain_id]):
                still_there.append(node)
    if len(still_there) == len(routers):
        return deployment
    for node in still_there:
        if node in named:
            raise DevnetError(
                f"{node.url} still has the contracts of a devnet whose other chains were restarted: restart "
                "this anvil, too"
            )
    return None


async def _deploy(folder: Folder, named: tuple[AttachedChain, ...], progress: Progress) -> Devnet:
    await asyncio.to_thread(bring_in, progress)
    started = [_second_chain(folder, named[0], progress)] if len(named) == 1 else []
    if started:
        Record(1, tuple(started)).write(folder)
    Attachment(chains=named).write(folder)
    nodes: list[Node] = [*named, *started]
    progress(f"deploying the GMPs to {', '.join(node.name for node in nodes)}")
    # The user's anvil may mine only on demand, so events count without confirmations.
    plan = await deploy_gmps(nodes, confirmations=0)
    try:
        deployment = await deploy_waybill(plan, folder.deployments_file, progress)
    except DeployError as error:
        urls = ", ".join(chain.url for chain in named)
        raise DevnetError(
            f"Waybill can't be deployed to {urls}, perhaps because of contracts that an earlier devnet left there: restart "
            f"these chains empty, and run this command again. The cause: {error}"
        ) from error
    for process in started:
        anvil.mine_every(process, 1)
    for chain in named:
        _keep_time(chain, progress)
    Attachment(chains=named, is_done=True).write(folder)
    return _devnet(folder, named, started, deployment, started=True)


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
        chains=(*(chain.status for chain in named), *map(anvil.look_at, processes)),
        block_time=0,
        started=started,
    )


def _second_chain(folder: Folder, first: AttachedChain, progress: Progress) -> AnvilProcess:
    port, name = anvil.free_port(), CHAIN_NAMES[1]
    progress(f"starting chain {name} on port {port} as a destination")
    return anvil.start(name=name, chain_id=first.chain_id + 1, port=port, log=folder.state / f"{name}.log")


def _keep_time(chain: AttachedChain, progress: Progress) -> None:
    """Makes a node mine every second; otherwise the chain's clock would stop and no message would ever stall."""
    if not _request(chain.url, "hardhat_getAutomine"):
        return
    is_hardhat = "hardhat" in str(_request(chain.url, "web3_clientVersion")).lower()
    _request(chain.url, "evm_setIntervalMining", 1_000 if is_hardhat else 1)  # milliseconds or seconds
    progress(f"{chain.name} mined only for transactions: it mines every second from now on, so that its clock runs")


def _named(urls: Sequence[str]) -> tuple[AttachedChain, ...]:
    """Returns the chains at the URLs.

    Raises:
        DevnetError: a URL does not respond or is not that of a development chain, or two chains have the same id.
    """
    if len(urls) > len(CHAIN_NAMES):
        raise DevnetError(f"a devnet has at most {len(CHAIN_NAMES)} chains, not {len(urls)}")
    chains = tuple(
        AttachedChain(name=name, chain_id=_chain_id(url), url=url) for name, url in zip(CHAIN_NAMES, urls, strict=False)
    )
    for chain in _repeated(chains):
        raise DevnetError(
            f"two of the chains have id {chain.chain_id}: start {chain.url} with another id, such as anvil "
            f"--chain-id {chain.chain_id + 1}"
        )
    return chains


def _repeated(chains: Sequence[AttachedChain]) -> Iterator[AttachedChain]:
    seen: set[int] = set()
    for chain in chains:
        if chain.chain_id in seen:
            yield chain
        seen.add(chain.chain_id)


def _chain_id(url: str) -> int:
    """Returns the id of the development chain at a URL."""
    version, chain_id = str(_request(url, "web3_clientVersion")), int(str(_request(url, "eth_chainId")), 16)
    if not version.lower().startswith(_CLIENTS):
        raise DevnetError(
            f"{url} is not a development chain: it runs {version}. This command uses well-known keys and supports anvil and"
            " hardhat only; for other chains, use `waybill network create` and `waybill deploy`"
        )
    if chain_id in public_chain_ids():
        raise DevnetError(
            f"{url} has the id of a public chain, {chain_id}: start it with another id, such as anvil --chain-id 31337"
        )
    deployer = account(DEPLOYER_KEY).address
    balance = int(str(_request(url, "eth_getBalance", deployer, "latest")), 16)
    if balance < _MIN_BALANCE:
        raise DevnetError(
            f"anvil's first account {deployer} has only {balance} wei on {url}: start anvil with its default mnemonic, or send"
            " the account 1 ether"
        )
    return chain_id


def _request(url: str, method: str, *params: Any) -> Any:
    try:
        answer = anvil.answer(url, method, params, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise DevnetError(f"no JSON-RPC response from {url} ({error}); start anvil there first") from error
    if "result" not in answer:
        raise DevnetError(f"{url} rejected {method}: {answer.get('error')}")
    return answer["result"]
