"""Starts and stops devnets, and reports their status."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bridge.client import Client
from bridge.deploy.deploy import deploy
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.devnet import anvil
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, RELAYER_KEY, TRIPWIRE_KEY, account
from bridge.devnet.actions import deploy_actions
from bridge.devnet.anvil import AnvilProcess, ChainState, ChainStatus
from bridge.devnet.deployer import Deployer
from bridge.devnet.errors import DevnetError
from bridge.devnet.fetch import bring_in
from bridge.devnet.gmps import DevnetChain, GmpDevnet, gmp_devnet
from bridge.evm.chain import EvmChain, open_chains
from bridge.evm.signing import LocalSigner
from bridge.gmps.base_adapter import GmpContracts
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp

NETWORK: Final = "devnet"
FIRST_PORT: Final = 8545
FIRST_CHAIN_ID: Final = 31337
CHAIN_NAMES: Final = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")

_CONFIRMATIONS: Final = 1
_FLOOR: Final = 1  # for devnets only: a single GMP suffices, so that each can be tried alone

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devnet:
    """A running devnet."""

    deployment: Deployment
    deployments_file: Path
    chains: tuple[ChainStatus, ...]
    block_time: int  # seconds; 0: a block per transaction
    started: bool  # False if it was already up


class Node(Protocol):
    """The node of a local chain."""

    @property
    def name(self) -> str:
        """Returns the chain's name."""

    @property
    def chain_id(self) -> int:
        """Returns the chain's id."""

    @property
    def url(self) -> str:
        """Returns the URL of the JSON-RPC endpoint."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Paths of a devnet's files."""

    home: Path

    @classmethod
    def below(cls, home: Path) -> Folder:
        """Returns the paths below a folder."""
        return cls(home.resolve())

    @property
    def state(self) -> Path:
        """Returns the folder of process records and logs."""
        return self.home / "build" / "devnet"

    @property
    def record(self) -> Path:
        """Returns the path of the file that records the devnet's processes."""
        return self.state / "devnet.json"

    @property
    def attached(self) -> Path:
        """Returns the path of the file that records the attached chains."""
        return self.state / "attached.json"

    @property
    def deployments_file(self) -> Path:
        """Returns the path of the deployments file."""
        return self.home / "deployments" / f"{NETWORK}.json"


@dataclass(frozen=True, slots=True)
class Record:
    """The processes that the devnet started."""

    block_time: int
    anvils: tuple[AnvilProcess, ...]

    @classmethod
    def read(cls, folder: Folder) -> Record | None:
        """Reads the record that `write` saved, or returns None if nothing was started.

        Raises:
            DevnetError: the file is invalid.
        """
        try:
            document = json.loads(folder.record.read_text())
            return cls(document["blockTime"], tuple(AnvilProcess(**fields) for fields in document["chains"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DevnetError(
                f"{folder.record} is invalid ({error}); stop the anvil processes by hand and delete the file"
            ) from error

    def write(self, folder: Folder) -> None:
        """Saves the record for the next command."""
        document = {"blockTime": self.block_time, "chains": [process.to_json() for process in self.anvils]}
        fresh = folder.record.with_suffix(".new")
        fresh.write_text(json.dumps(document, indent=2) + "\n")
        fresh.replace(folder.record)


async def up(
    *,
    home: Path,
    chains: int = 2,
    block_time: int = 1,
    first_port: int | None = None,
    port_option: str = "--port",
    keep_states: int | None = None,
    progress: Progress = lambda _: None,
) -> Devnet:
    """Starts chains, deploys the GMPs and Waybill, and connects every pair of chains.

    The chains outlive this process. If a devnet with these parameters is already up, it is left unchanged.

    Args:
        home: Folder that contains ``build/devnet`` and ``deployments``.
        chains: Number of chains, 2 to 8.
        block_time: Seconds between blocks; 0 mines a block per transaction.
        first_port: Port of the first chain; the others get the next ports. None means the running devnet's
            port, or 8545.
        port_option: Command-line option of `first_port`, for errors.
        keep_states: See `bridge.devnet.anvil.start`.
        progress: Callback for progress lines.

    Raises:
        DevnetError: a devnet with different parameters is up or has crashed, a port is in use, or a contract
            can't be deployed.
    """
    if not 2 <= chains <= len(CHAIN_NAMES):
        raise DevnetError(f"a devnet has 2 to {len(CHAIN_NAMES)} chains, not {chains}")
    if block_time < 0:
        raise DevnetError(f"the block time is {block_time} s; it must be 0 (a block per transaction) or more")
    folder = Folder.below(home)
    with exclusively(folder):
        if folder.attached.exists():
            raise DevnetError("the devnet is attached to other chains; run `waybill devnet down` first")
        record = Record.read(folder)
        if record is not None:
            return _running(folder, record, chains, block_time, first_port)
        first = FIRST_PORT if first_port is None else first_port
        ports = {name: first + index for index, name in enumerate(CHAIN_NAMES[:chains])}
        for name, port in ports.items():
            anvil.require_free_port(port, name, port_option)
        await asyncio.to_thread(bring_in, progress)
        return await _start(folder, ports, block_time, keep_states, progress)


def down(*, home: Path) -> tuple[str, ...]:
    """Stops all chains and returns their names, or an empty tuple if the devnet was not up."""
    folder = Folder.below(home)
    with exclusively(folder):
        record = Record.read(folder)
        folder.attached.unlink(missing_ok=True)
        if record is None:
            return ()
        anvil.stop(list(record.anvils))
        folder.record.unlink()
        return tuple(process.name for process in record.anvils)


def status(*, home: Path) -> tuple[ChainStatus, ...]:
    """Returns the status of each chain, or an empty tuple if the devnet is not up."""
    record = Record.read(Folder.below(home))
    return tuple(anvil.look_at(process) for process in record.anvils) if record else ()


def _running(folder: Folder, record: Record, chains: int, block_time: int, first_port: int | None) -> Devnet:
    """Returns the running devnet if it has the requested parameters."""
    states = tuple(anvil.look_at(process) for process in record.anvils)
    broken = [
        f"{chain.name} {chain.state.value} (see {chain.log})"
        for chain in states
        if chain.state is not ChainState.RUNNING
    ]
    if broken:
        raise DevnetError(
            f"the devnet is not working: {', '.join(broken)}; run `waybill devnet down`, then `waybill devnet up`"
        )
    if (len(states), record.block_time) != (chains, block_time):
        raise DevnetError(
            f"the devnet is up with {len(states)} chains and a block time of {record.block_time} s, not {chains} and "
            f"{block_time} s; run `waybill devnet down` first"
        )
    if first_port not in (None, record.anvils[0].port):
        raise DevnetError(
            f"the devnet is up on port {record.anvils[0].port}, not {first_port}; run `waybill devnet down` first"
        )
    try:
        text = folder.deployments_file.read_text()
    except FileNotFoundError:
        raise DevnetError(
            f"the devnet is up, but {folder.deployments_file} is missing; run `waybill devnet down`, then `waybill devnet up`"
        ) from None
    deployment = Deployment.from_json(text, str(folder.deployments_file))
    return Devnet(
        deployment=deployment,
        deployments_file=folder.deployments_file,
        chains=states,
        block_time=block_time,
        started=False,
    )


async def _start(
    folder: Folder, ports: Mapping[str, int], block_time: int, keep_states: int | None, progress: Progress
) -> Devnet:
    processes: list[AnvilProcess] = []
    try:
        for index, (name, port) in enumerate(ports.items()):
            progress(f"starting chain {name} on port {port}")
            log = folder.state / f"{name}.log"
            chain_id = FIRST_CHAIN_ID + index
            processes.append(anvil.start(name=name, chain_id=chain_id, port=port, log=log, keep_states=keep_states))
            # Written after each chain, so that `down` finds all chains even if this process crashes.
            Record(block_time, tuple(processes)).write(folder)
        progress(f"deploying {len(Gmp)} GMPs to {len(processes)} chains")
        plan = await deploy_gmps(processes)
        deployment = await deploy_waybill(plan, folder.deployments_file, progress)
        for process in processes:
            anvil.mine_every(process, block_time)
    except BaseException:
        anvil.stop(processes)
        folder.record.unlink(missing_ok=True)
        raise
    return Devnet(
        deployment=deployment,
        deployments_file=folder.deployments_file,
        chains=tuple(anvil.look_at(process) for process in processes),
        block_time=block_time,
        started=True,
    )


async def deploy_waybill(plan: NetworkPlan, target: Path, progress: Progress) -> Deployment:
    """Deploys Waybill and the examples on chains that have the GMPs, and writes the deployments file."""
    deployed = await deploy(plan, LocalSigner.from_key(DEPLOYER_KEY), target, progress)
    await _appoint_relayer(deployed.deployment)
    async with open_chains(deployed.deployment) as opened:
        deployment = await deploy_actions(deployed.deployment, opened)
    await asyncio.to_thread(target.write_text, deployment.to_json())
    return deployment


async def _appoint_relayer(deployment: Deployment) -> None:
    """Appoints the relayer as retrier of the example dApp's messages."""
    relayer = account(RELAYER_KEY).address
    async with open_chains(deployment) as chains:
        dapp = Client(deployment, chains, account(DAPP_KEY))
        await asyncio.gather(*(dapp.appoint_retrier(chain_id, relayer) for chain_id in chains))


async def deploy_gmps(processes: Sequence[Node], *, confirmations: int = _CONFIRMATIONS) -> NetworkPlan:
    """Deploys all GMPs and returns a plan of the network."""
    async with AsyncExitStack() as stack:
        chains = [
            await stack.enter_async_context(await EvmChain.connect(process.chain_id, [process.url]))
            for process in processes
        ]
        planned = [
            DevnetChain(position=position, chain_id=process.chain_id, name=process.name)
            for position, process in enumerate(processes)
        ]
        contracts = await asyncio.gather(
            *(_deploy_gmps_on(chain, here, planned) for chain, here in zip(chains, planned, strict=True))
        )
        for gmp in Gmp:
            await _connect(chains, [deployed[gmp] for deployed in contracts], gmp_devnet(gmp))
    return NetworkPlan(
        version=1,
        network=NETWORK,
        owner=account(DEPLOYER_KEY).address,
        tripwire=account(TRIPWIRE_KEY).address,
        floor=_FLOOR,
        chains=tuple(
            PlannedChain(
                chain_id=process.chain_id,
                name=process.name,
                rpc_urls=(process.url,),
                confirmations=confirmations,
                gmps={
                    gmp.label: section.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for gmp, section in gmps.items()
                },
            )
            for process, gmps in zip(processes, contracts, strict=True)
        ),
    )


async def _deploy_gmps_on(
    chain: EvmChain, here: DevnetChain, planned: Sequence[DevnetChain]
) -> dict[Gmp, GmpContracts]:
    deployer = await Deployer.on(chain, account(DEPLOYER_KEY))
    # GMP contracts have different addresses on every chain, so that confusing two chains is detected.
    deployer.skip_nonces(here.position)
    others = [other for other in planned if other is not here]
    return {gmp: await gmp_devnet(gmp).deploy(deployer, here, others) for gmp in Gmp}


async def _connect(chains: Sequence[EvmChain], contracts: Sequence[GmpContracts], devnet: GmpDevnet) -> None:
    connect = devnet.connect
    if connect is None:
        return
    deployers = await asyncio.gather(*(Deployer.on(chain, account(DEPLOYER_KEY)) for chain in chains))
    await asyncio.gather(
        *(
            connect(deployer, here, [other for other in contracts if other is not here])
            for deployer, here in zip(deployers, contracts, strict=True)
        )
    )


@contextmanager
def exclusively(folder: Folder) -> Iterator[None]:
    """Holds a lock so that a second `up` or `down` waits for the first."""
    folder.state.mkdir(parents=True, exist_ok=True)
    with (folder.state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
