"""A rehearsal: a plan's deployment and what it is for, on forks of its chains.

Anvil asks the chains' endpoints for state, and sends nothing there. The GMPs' own parties do not see what happens on forks, so
each GMP's `StandIn` vouches in their place.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eth_account import Account
from eth_account.signers.local import LocalAccount

from bridge.client import Client, NotIncludedError, RefusedError, RouteRequest, Sent
from bridge.deploy.deploy import Progress, deploy_with
from bridge.deploy.plan import NetworkPlan, PlannedChain
from bridge.deploy.preview import gas_price
from bridge.deploy.transactions import CREATE2_FACTORY, ChainContracts, ChainWork, DeployError
from bridge.devnet import anvil
from bridge.devnet.anvil import AnvilProcess
from bridge.devnet.errors import DevnetError
from bridge.devnet.fork import Fork, ForkedNetwork
from bridge.devnet.gmps import NotImitatedError, gmp_devnet
from bridge.domain.ports import (
    Call,
    CallRevertedError,
    Dispatch,
    TerminalError,
    TransientError,
    read_view,
)
from bridge.domain.transactions import TRANSACTION_BYTES
from bridge.evm.chain import EvmChain
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.registry import adapter_class
from bridge.protocol.contracts import ROUTER, explain_revert
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.rpc.answers import WrongChainError
from bridge.rpc.policy import without_secrets

_NOBODY: Final = "0x" + "00" * 20
_PAUSE: Final = 3600  # seconds
_PAYLOAD: Final = b"a rehearsal of Waybill"
_MOST_TRANSACTIONS: Final = 5  # that one delivery takes

_FAILURES: Final = (
    RefusedError,
    NotIncludedError,
    CallRevertedError,
    TransientError,
    TerminalError,
    DevnetError,
    NotImitatedError,
)
"""They end one part of a rehearsal, and the others go on."""


class EndpointError(Exception):
    """No endpoint of a chain can be forked; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a chain is forked from."""

    planned: PlannedChain
    url: str
    endpoint: str  # the URL without what may be secret
    block: int
    price: int  # wei per gas


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done on one chain."""

    chain: str
    name: str
    gas: int
    transactions: int = 1
    fee: int = 0  # wei that GMPs asked for
    length: int = 0  # bytes of its transactions, of the owner's alone
    by_owner: bool = False  # whether it is part of the deployment, which the owner pays


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that was not rehearsed, or failed."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How a rehearsal went."""

    steps: tuple[Step, ...]
    stood_in: Mapping[str, str]  # by GMP: what was put in place of what
    gaps: tuple[Gap, ...]
    owners: Mapping[str, str]  # by chain: the router's owner, who may be another than the plan's by now


async def find_sources(plan: NetworkPlan) -> list[Source]:
    """For each chain the first endpoint that answers and has the newest block's state.

    Raises:
        EndpointError: a chain has none.
    """
    return [await _find_source(planned) for planned in plan.chains]


async def _find_source(planned: PlannedChain) -> Source:
    refusals = []
    for url in planned.endpoints:
        name = without_secrets(url)
        try:
            async with await _connect(planned, url) as chain:
                head = await chain.head()
                # Only a node that has the state of the block answers; there is nobody to call.
                await chain.call(Call(to=_NOBODY, data=b""), block=head.number)
                price = await gas_price(chain)
        except (TransientError, TerminalError, CallRevertedError, WrongChainError) as error:
            refusals.append(str(error))
        else:
            return Source(planned, url, name, head.number, price)
    listed = "\n  ".join(refusals)
    raise EndpointError(
        f"chain {planned.name!r} can't be forked: no endpoint answers with the state of its newest block\n  {listed}\n"
        "name an endpoint that is up and serves state, such as a full node's, under rpcUrls in the network file"
    )


async def balance_of(source: Source, account: str) -> int:
    """Wei that an account holds on the chain itself; on a fork it has been given money.

    Raises:
        TransientError: the endpoint does not answer any more.
    """
    planned = source.planned
    async with await _connect(planned, source.url) as chain:
        return await chain.balance(account)


async def _connect(planned: PlannedChain, url: str) -> EvmChain:
    return await EvmChain.connect(
        planned.chain_id, [url], try_seconds=1, origin=planned.origin, chain_name=planned.name
    )


@contextmanager
def forks(sources: Sequence[Source], folder: Path, progress: Progress) -> Iterator[list[AnvilProcess]]:
    """Forks of chains; they end with the context, however it ends. Their files are in `folder`.

    Raises:
        DevnetError: anvil is missing, or does not start.
    """
    processes: list[AnvilProcess] = []
    try:
        for source in sources:
            name = source.planned.name
            progress(f"forking {name} at block {source.block} from {source.endpoint}")
            try:
                process = anvil.start(
                    name=name,
                    chain_id=source.planned.chain_id,
                    port=_free_port(),
                    log=folder / f"{name}.log",
                    forked=(source.url, source.block),
                )
            except DevnetError as error:
                raise DevnetError(str(error).replace(source.url, source.endpoint)) from None  # it may hold a key
            processes.append(process)
        yield processes
    finally:
        anvil.stop(processes)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((anvil.HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def rehearse(
    plan: NetworkPlan,
    processes: Sequence[AnvilProcess],
    target: Path,
    progress: Progress = lambda _: None,
) -> Rehearsed:
    """Deploys a plan on forks, sends over each GMP in each direction, retries a stalled message, pauses and resumes.

    Args:
        plan: the network, that `require_security` has passed.
        processes: forks of its chains, in its order.
        target: the deployments file of the forks; a copy of the network's, if it is deployed already.
        progress: is told what happens, one line at a time.

    Raises:
        DeployError: the deployment fails.
    """
    local = plan.model_copy(
        update={
            "chains": tuple(
                planned.model_copy(update={"rpc_urls": (process.url,), "agreement": None, "finality": None})
                for planned, process in zip(plan.chains, processes, strict=True)
            )
        }
    )
    async with AsyncExitStack() as stack:
        opened = [EvmChain.connect(process.chain_id, [process.url]) for process in processes]
        chains = [await stack.enter_async_context(await one) for one in opened]
        by_id = {one.chain_id: Fork(process, one) for process, one in zip(processes, chains, strict=True)}
        for fork in by_id.values():
            fork.fund(plan.owner)
        stage = _Stage(local, by_id, progress)
        await stage.deploy(target)
        await stage.prepare()
        for here, there in itertools.permutations(stage.network.deployment.chains, 2):
            await stage.carry(here, there)
        for chain in stage.network.deployment.chains:
            await stage.pause(chain)
        return Rehearsed(tuple(stage.steps), stage.stood_in, tuple(stage.gaps), stage.owners)


class _Stage:
    """One rehearsal on its way."""

    network: ForkedNetwork

    def __init__(self, plan: NetworkPlan, forks: Mapping[int, Fork], progress: Progress) -> None:
        self._plan = plan
        self._forks = forks
        self._say = progress
        # Accounts that everybody knows have code on public chains, of those who empty them.
        self._account: LocalAccount = Account.create()
        self._inboxes: dict[int, str] = {}  # by chain id
        self.steps: list[Step] = []
        self.stood_in: dict[str, str] = {}
        self.gaps: list[Gap] = []
        self.owners: dict[str, str] = {}

    async def deploy(self, target: Path) -> None:
        """The transactions of `waybill deploy`, as the owner's."""
        deployed = await deploy_with(self._send, self._plan, target, self._say)
        self.network = ForkedNetwork(deployed.deployment, self._forks)

    async def _send(self, work: ChainWork, chain: EvmChain) -> None:
        fork, name = self._forks[chain.chain_id], work.planned.name
        spent = dict[str, list[tuple[int, int]]](deploy=[], wire=[])
        self.owners[name] = work.owner
        fork.fund(work.owner)
        for one in work.missing:
            try:
                receipt = await fork.send(work.owner, Call(to=one.to, data=one.data))
            except CallRevertedError as error:
                reason = explain_revert(error.data)
                raise DeployError(f"chain {name!r} refuses {one.name!r} ({one.to}): {reason}") from error
            except DevnetError as error:
                raise DeployError(f"chain {name!r}: {one.name!r} ({one.to}): {error}") from error
            spent["deploy" if one.to == CREATE2_FACTORY else "wire"].append(
                (receipt.gas_used, len(one.data) + TRANSACTION_BYTES)
            )
        for step, sent in spent.items():
            gas, length = sum(gas for gas, _ in sent), sum(length for _, length in sent)
            self.steps.append(Step(name, step, gas, len(sent), length=length, by_owner=True))

    async def prepare(self) -> None:
        """What the messages need and `waybill deploy` need not make: recipients, and money for their sender."""
        plan = self._plan.model_copy(update={"examples": True})
        for planned in plan.chains:
            fork, inbox = self._forks[planned.chain_id], ChainContracts.of(plan, planned).examples["inbox"]
            fork.fund(self._account.address)
            self._inboxes[planned.chain_id] = inbox.address
            if not await fork.chain.code(inbox.address):
                await fork.send(self._account.address, Call(to=CREATE2_FACTORY, data=inbox.creation.data))

    async def carry(self, here: ChainDeployment, there: ChainDeployment) -> None:
        """A message over each GMP alone, then one that the first GMP does not deliver, over the others."""
        shared = [gmp for gmp in Gmp if gmp in here.gmp_numbers and gmp in there.gmp_numbers]
        carrying = [gmp for gmp in shared if await self._carried(here, there, gmp)]
        what = f"retry from {here.name} to {there.name}"
        if len(carrying) < 2:
            named = ", ".join(gmp.label for gmp in carrying) or "no GMP"
            self.gaps.append(Gap(what, f"{named} delivers from {here.name} to {there.name}, and a retry needs two"))
            return
        try:
            await self._rescue(here, there, carrying)
        except _FAILURES as error:
            self.gaps.append(Gap(what, _said(error)))

    async def _carried(self, here: ChainDeployment, there: ChainDeployment, gmp: Gmp) -> bool:
        way = f"{gmp.label} from {here.name} to {there.name}"
        self._say(f"sending over {way}")
        try:
            sent = await self._route(here, there, gmp)
            await self._deliver(there, gmp, sent, f"delivered over {gmp.label} from {here.name}")
        except _FAILURES as error:
            self.gaps.append(Gap(way, _said(error)))
            return False
        return True

    async def _rescue(self, here: ChainDeployment, there: ChainDeployment, gmps: Sequence[Gmp]) -> None:
        stalled, *others = gmps
        self._say(
            f"retrying over {others[0].label} what {stalled.label} does not deliver from {here.name} to {there.name}"
        )
        client, first = self._client(), await self._route(here, there, stalled)
        retried = others[: max(self._plan.floor, 1)]
        again = await client.retry(first.message, retried, min_dispatched=len(retried))
        over = ", ".join(gmp.label for gmp in retried)
        self._spent(here, f"retried over {over} to {there.name}", again)
        for gmp, sent in [*((gmp, again) for gmp in retried), (stalled, first)]:
            if not (await client.progress(first.message)).executed:
                await self._deliver(there, gmp, sent, f"rescued over {gmp.label} from {here.name}")
        if not (await client.progress(first.message)).executed:
            raise DevnetError("all GMPs delivered the message, and the router did not execute it")

    async def pause(self, chain: ChainDeployment) -> None:
        """Guardian and tripwire pause, the guardian resumes; without them the owner."""
        other = next(one for one in self.network.deployment.chains if one is not chain)
        gmp = next(gmp for gmp in Gmp if gmp in chain.gmp_numbers and gmp in other.gmp_numbers)
        roles = [await self._role(chain, role) for role in ("owner", "guardian", "tripwire")]
        guardian = roles[1] or roles[0]
        for pauser, what, kind, number in (
            (guardian, f"the lane to {other.name}", "Lane", other.chain_id),
            (roles[2] or guardian, gmp.label, "Gmp", int(gmp)),
        ):
            self._say(f"pausing {what} on {chain.name}, and resuming it")
            until = (await self.network.on(chain).chain.head()).timestamp + _PAUSE
            try:
                await self._act(chain, pauser, f"paused {what}", f"pause{kind}", number, until)
                await self._refused(chain, other, gmp, f"{kind}Paused")
                await self._act(chain, guardian, f"resumed {what}", f"end{kind}Pause", number)
                await self._route(chain, other, gmp)
            except _FAILURES as error:
                self.gaps.append(Gap(f"pause of {what} on {chain.name}", _said(error)))

    async def _act(self, chain: ChainDeployment, role: str, name: str, function: str, *arguments: int) -> None:
        call = Call(to=chain.router, data=ROUTER.encode(function, *arguments))
        self.steps.append(Step(chain.name, name, (await self.network.on(chain).send(role, call)).gas_used))

    async def _refused(self, here: ChainDeployment, there: ChainDeployment, gmp: Gmp, reason: str) -> None:
        try:
            await self._route(here, there, gmp)
        except RefusedError as error:
            found = [one.name for one in (error.revert, *error.revert.inner)] if error.revert else []
            if reason not in found:
                raise
        else:
            raise DevnetError("the router takes messages all the same")

    async def _role(self, chain: ChainDeployment, role: str) -> str:
        """Who has it, or nothing."""
        account = str(await read_view(self.network.on(chain).chain, ROUTER, chain.router, role))
        return "" if account == _NOBODY else account

    def _client(self) -> Client:
        return Client(self.network.deployment, self.network.chains, self._account)

    async def _route(self, here: ChainDeployment, there: ChainDeployment, gmp: Gmp) -> Sent:
        request = RouteRequest(
            destination=there.chain_id,
            recipient=self._inboxes[there.chain_id],
            payload=_PAYLOAD,
            gmps=(gmp,),
            ttl=0,
        )
        sent = await self._client().route(here.chain_id, request)
        self._spent(here, f"sent over {gmp.label} to {there.name}", sent)
        return sent

    def _spent(self, here: ChainDeployment, name: str, sent: Sent) -> None:
        self.steps.append(Step(here.name, name, sent.receipt["gasUsed"], fee=sent.fee))

    async def _deliver(self, there: ChainDeployment, gmp: Gmp, sent: Sent, name: str) -> None:
        """Has the destination's router receive what a GMP took.

        Raises:
            NotImitatedError: nothing can vouch for it on the fork.
            DevnetError: the GMP's contracts took it, and the router did not get it.
        """
        stand_in = gmp_devnet(gmp).stand_in
        if stand_in is None:
            raise NotImitatedError(f"nothing stands in for {gmp.label}'s own parties yet")
        adapter = adapter_class(gmp)(self.network.deployment, self.network.chains, stand_in.create(self.network))
        dispatch = await self._dispatch(adapter, sent)
        fork, gas, transactions = self.network.on(there), 0, 0
        attestation = await adapter.attest(dispatch)
        while (call := await adapter.next_call(dispatch, attestation)) is not None:
            gas += (await fork.send(self._account.address, call)).gas_used
            transactions += 1
            if transactions > _MOST_TRANSACTIONS:
                raise DevnetError(f"{gmp.label}'s contracts take its deliveries and the router gets none")
        self.stood_in[gmp.label] = stand_in.how
        self.steps.append(Step(there.name, name, gas, transactions))  # none where what stands in brings it itself

    async def _dispatch(self, adapter: BaseAdapter, sent: Sent) -> Dispatch:
        source = sent.message.source_chain
        receipt = await self._forks[source].chain.receipt(bytes(sent.transaction))
        watch = adapter.watch(source)
        logs = [log for log in receipt.logs if log.topics[:1] and log.topics[0] in watch.topics] if receipt else []
        found = [one for one in adapter.dispatches(source, logs) if one.message_id == sent.message.id]
        if not found:
            raise DevnetError(
                f"none of {adapter.gmp.label}'s contracts in the network file emitted what a relayer looks for, though the GMP"
                " took the message: compare their addresses with the GMP's documentation"
            )
        return found[0]


def _said(error: Exception) -> str:
    return explain_revert(error.data) if isinstance(error, CallRevertedError) else str(error)
