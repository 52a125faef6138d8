"""An adapter that another one replaces while messages are under way: what it had sent is delivered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector

from bridge.deploy.plan import NetworkPlan
from bridge.deploy.transactions import ChainContracts, OwnAdapter
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.domain.ports import Call
from bridge.evm.chain import EvmChain
from bridge.gmps.base_adapter import GmpContracts
from bridge.gmps.registry import adapter_class
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from tests.anvil.relayers import PATIENCE
from tests.anvil.test_deploying import plan
from tests.anvil.test_relayer import Traffic, blocks, relaying
from tests.anvil.traffic import transact
from tests.builders import ALPHA, BETA

pytestmark = pytest.mark.timeout(4 * PATIENCE)
OWNER = account(DEPLOYER_KEY)

every_gmp = pytest.mark.parametrize("gmp", tuple(Gmp), ids=lambda gmp: gmp.label)


@dataclass(frozen=True)
class Exchange:
    """The second adapter of a GMP on a chain of the devnet, and the other end."""

    devnet: Devnet
    chains: dict[int, EvmChain]
    gmp: Gmp
    here: ChainDeployment
    there: ChainDeployment

    @property
    def adapter(self) -> OwnAdapter:
        planned = plan(self.devnet, OWNER)
        chain = next(one for one in planned.chains if one.name == self.here.name)
        gmps = chain.gmps | {self.gmp.label: chain.gmps[self.gmp.label] | {"adapterNumber": 2}}
        return ChainContracts.of(planned, chain.model_copy(update={"gmps": gmps})).adapters[self.gmp]

    async def make(self) -> None:
        """As the runbook has it, without the wait: both ends know each other before the router knows the new one."""
        await self.by_owner(self.here, self.adapter.router, self.adapter.creation.data)
        await self.connect(self.here, self.adapter.address, self.there, self.there.adapter(self.gmp))
        await self.connect(self.there, self.there.adapter(self.gmp), self.here, self.adapter.address)
        call = ROUTER.encode("replaceAdapter", int(self.gmp), self.adapter.address)
        await self.by_owner(self.here, self.here.router, call)

    async def connect(self, here: ChainDeployment, adapter: str, there: ChainDeployment, remote: str) -> None:
        contracts: GmpContracts = adapter_class(self.gmp).CONTRACTS.of(there)
        types = ["uint64", "bytes32", "bytes32", contracts.NUMBER_OF[1]]
        values = [there.chain_id, to_bytes32(there.router), to_bytes32(remote), contracts.number]
        selector = function_signature_to_4byte_selector(f"connect({','.join(types)})")
        await self.by_owner(here, adapter, selector + encode(types, values))

    async def by_owner(self, here: ChainDeployment, to: str, data: bytes) -> None:
        receipt = await transact(self.chains[here.chain_id], OWNER, Call(to=to, data=data), gas=8_000_000)
        assert receipt.succeeded

    @property
    def devnet_after(self) -> Devnet:
        """With a deployments file that names the new adapter."""
        here = self.here.model_copy(update={"adapters": self.here.adapters | {self.gmp.label: self.adapter.address}})
        chains = tuple(here if one is self.here else one for one in self.devnet.deployment.chains)
        return replace(self.devnet, deployment=self.devnet.deployment.model_copy(update={"chains": chains}))


def exchange(devnet: Devnet, chains: dict[int, EvmChain], gmp: Gmp, here: int, there: int) -> Exchange:
    deployment: Deployment = devnet.deployment
    return Exchange(devnet, chains, gmp, deployment.chain(here), deployment.chain(there))


def test_the_tests_plan_is_that_of_the_devnets_own_routers(devnet: Devnet) -> None:
    planned: NetworkPlan = plan(devnet, OWNER)
    for chain, deployed in zip(planned.chains, devnet.deployment.chains, strict=True):
        assert ChainContracts.of(planned, chain).router.address == deployed.router


@every_gmp
async def test_what_the_former_adapter_sent_is_delivered_by_a_relayer_that_starts_after_the_exchange(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, gmp: Gmp
) -> None:
    traffic, exchanged = Traffic(devnet, chains), exchange(devnet, chains, gmp, ALPHA, BETA)
    await traffic.send(gmp)  # nobody has read it yet
    await exchanged.make()
    await traffic.send(gmp)
    after = exchanged.devnet_after
    async with blocks(devnet), relaying(after, tmp_path) as relayer:
        await traffic.all_executed()
        senders = {one.dispatch.gmp for one in relayer.store.outbox.listed()}
    assert senders == {gmp}


@every_gmp
async def test_a_relayer_that_runs_on_delivers_what_the_new_adapter_sends(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, gmp: Gmp
) -> None:
    traffic, exchanged = Traffic(devnet, chains), exchange(devnet, chains, gmp, ALPHA, BETA)
    async with blocks(devnet), relaying(devnet, tmp_path):
        await traffic.send(gmp)
        await exchanged.make()
        await traffic.send(gmp)
        await traffic.all_executed()


async def test_a_vaa_is_handed_to_the_adapter_that_has_taken_the_known_ones_place(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic, exchanged = Traffic(devnet, chains), exchange(devnet, chains, Gmp.WORMHOLE, BETA, ALPHA)
    await traffic.send(Gmp.WORMHOLE)
    await exchanged.make()
    async with blocks(devnet), relaying(devnet, tmp_path):
        await traffic.all_executed()
