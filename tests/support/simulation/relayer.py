"""A bridge in a simulated world, put together as the real one is; it may crash at any call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, cast

from eth_account import Account

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.signing import KeySealer
from bridge.evm.chain import EvmChain
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import Endpoints
from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.evm.supervision import run_forever
from bridge.evm.transport import Exchange
from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy
from bridge.protocol.guarantee import ChoiceBounds, OperatorPolicies
from bridge.protocol.message import Kind
from bridge.protocol.ports import Chain
from bridge.records.spending import UNBOUNDED, SpendBounds
from bridge.relayer.execution import Execution
from bridge.relayer.policies import Policies
from bridge.relayer.propagation import Propagation, PropagationSettings, RoutePropagator
from bridge.relayer.relayer import Relayer
from bridge.relayer.retries import Recovery, RecoverySettings
from bridge.relayer.retry_planning import Planner
from bridge.relayer.settings import RelaySettings
from bridge.relayer.spending import SpendGate
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.observations import Finality
from tests.support.settings import tuned
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import GMPS
from tests.support.simulation.power import Power, PowerCut, Powered, powered_chain, powered_store
from tests.support.simulation.time import VirtualClock
from tests.support.simulation.world import DAPP, RELAYER, World
from tests.support.stores import memory_dead_letters

SEALER: Final = Account.from_key("0x" + "44" * 32)
_POLL: Final = 1.0  # seconds
_ENDPOINTS: Final = EndpointPolicy(agreement=2, try_seconds=1e-6)  # tried a second time, and no more
_SENDING: Final = tuned(SendingSettings(poll_interval=_POLL, fee_bump_after=15), FOREIGN=5, INCLUSION_TIMEOUT=60)


def _propagation(
    world: World,
    chains: Mapping[int, Chain],
    store: Store,
    propagator: RoutePropagator,
    *,
    clock: VirtualClock,
    settings: PropagationSettings | None,
    lock_ttl: float,
) -> Propagation | None:
    if settings is None:
        return None
    return Propagation(
        deployment=world.deployment,
        chains=chains,
        store=store,
        propagator=propagator,
        signer=KeySealer(SEALER),
        clock=clock,
        poll_interval=_POLL,
        lock_ttl=lock_ttl,
        settings=settings,
    )


class SimulatedRelayer:
    """One life of a bridge process: from its start to its stop or crash. What it remembers is in the store."""

    def __init__(
        self,
        world: World,
        store: Store,
        *,
        name: str = "bridge",
        power: Power | None = None,
        relaying: RelaySettings | None = None,
        sending: SendingSettings | None = None,
        policies: Mapping[Kind, DeliveryPolicy] = DEFAULT_POLICIES,
        dead_letters: DeadLetterLog | None = None,
        recovering: RecoverySettings | None = None,
        propagating: PropagationSettings | None = None,
        lock_ttl: float = 1_020.0,
        bounds: SpendBounds = UNBOUNDED,
        retry_for: frozenset[bytes] | None = None,
        max_calls_per_tx: int = 1,
        ahead: float = 0,
        poll: float = _POLL,
    ) -> None:
        """Puts a bridge together. Without settings for `propagating`, nobody follows state changes.

        At most `max_calls_per_tx` of its deliveries share a transaction; its machine's clock is `ahead` of the world's, in seconds.
        It looks at everything each `poll` seconds, which a test of hours sets to more.
        It spends within `bounds`, and retries as appointed for the senders in `retry_for` (32 bytes; None is every one).
        """
        clock = VirtualClock(ahead)
        self.power = power or Power()
        chains = {chain_id: _reached(world, chain, self.power) for chain_id, chain in world.chains.items()}
        guarded = powered_store(store, self.power)
        relaying = tuned(relaying or RelaySettings(), poll_interval=poll)
        gate = SpendGate(guarded.spending, clock, accepts=relaying.acceptance(world.deployment), bounds=bounds)
        paying = tuned(sending or _SENDING, max_calls_per_tx=max_calls_per_tx)
        self.senders = _senders(world, chains, guarded, clock, settings=paying, bounds=bounds)
        self.dead_letters: DeadLetterLog = dead_letters or memory_dead_letters()
        powered_letters = cast(DeadLetterLog, Powered(self.dead_letters, self.power))
        self.dead_letter_queue = DeadLetterQueue(powered_letters, guarded, KeySealer(SEALER), clock)
        self.relay_senders = {chain_id: self.senders[chain_id, RELAYER.address.lower()] for chain_id in chains}
        self.relayer = _relay(
            self, world, chains, guarded, name=name, policies=policies, clock=clock, settings=relaying, gate=gate
        )
        planner = Planner(
            deployment=world.deployment,
            chains=chains,
            senders=self.senders,
            store=guarded,
            usable=relaying.claimable & frozenset(GMPS),
            gate=gate,
            retry_for=retry_for,
        )
        self.recovery = Recovery(
            planner,
            guarded,
            clock,
            tuned(recovering or RecoverySettings(), RESCHEDULE=2),
            poll_interval=poll,
            source=world.requests,
        )
        self.execution = Execution(
            deployment=world.deployment,
            chains=chains,
            store=guarded,
            dead_letters=powered_letters,
            senders=self.relay_senders,
            gate=gate,
            clock=clock,
        )
        propagator = RoutePropagator(
            world.deployment,
            chains,
            dead_letters=powered_letters,
            recovery=self.recovery,
            execution=self.execution,
            senders=self.relay_senders,
        )
        self.propagation = _propagation(
            world, chains, guarded, propagator, clock=clock, settings=propagating, lock_ttl=lock_ttl
        )
        self._poll = poll

    async def run(self) -> None:
        """Works until it is cancelled, or its power goes off."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.relayer.run())
                group.create_task(self.recovery.run())
                group.create_task(self.execution.run())
                if self.propagation is not None:
                    group.create_task(self.propagation.run())
                group.create_task(run_forever("close dead letters", self.dead_letter_queue.step, every=5))
                for sender in self.senders.values():
                    group.create_task(run_forever("send", sender.tick, every=self._poll))
        except* PowerCut:
            pass
        finally:
            for sender in self.senders.values():
                await sender.close()


def _reached(world: World, chain: SimulatedChain, power: Power) -> Chain:
    """A chain as the bridge gets to it."""
    if world.nodes is None:
        return powered_chain(chain, power)
    nodes = {f"http://node-{number}": node for number, node in enumerate(world.nodes[chain.chain_id])}
    endpoints = Endpoints(
        chain.chain_id, list(nodes), _ENDPOINTS, lambda url, _policy: cast(Exchange, Powered(nodes[url], power))
    )
    return EvmChain(chain.chain_id, endpoints)


def _senders(
    world: World,
    chains: Mapping[int, Chain],
    store: Store,
    clock: VirtualClock,
    *,
    settings: SendingSettings,
    bounds: SpendBounds,
) -> dict[tuple[int, str], Sender]:
    """Whoever sends transactions on each chain, by chain and address."""
    return {
        (deployed.chain_id, signer.address.lower()): Sender(
            chains[deployed.chain_id],
            signer,
            store.transactions,
            clock,
            finality=Finality(store.observations, deployed.chain_id),
            settings=settings,
            bounds=bounds,
            multicall=deployed.multicall,
        )
        for deployed in world.deployment.chains
        for signer in (RELAYER, DAPP)
    }


def _relay(
    bridge: SimulatedRelayer,
    world: World,
    chains: Mapping[int, Chain],
    store: Store,
    *,
    name: str,
    policies: Mapping[Kind, DeliveryPolicy],
    clock: VirtualClock,
    settings: RelaySettings,
    gate: SpendGate,
) -> Relayer:
    return Relayer(
        worker=name,
        deployment=world.deployment,
        chains=chains,
        adapters={gmp: SimulatedAdapter(gmp, chains, world.down) for gmp in GMPS},
        senders=bridge.relay_senders,
        store=store,
        dead_letters=bridge.dead_letter_queue,
        policies=_policies(world, policies),
        clock=clock,
        random=world.random.random,
        settings=settings,
        gate=gate,
    )


def _policies(world: World, rows: Mapping[Kind, DeliveryPolicy]) -> Policies:
    """The simulated routers have no profiles, so that senders choose nothing."""
    return Policies(world.deployment, {}, OperatorPolicies(rows=rows, bounds=ChoiceBounds(enabled=False)))
