"""A world to try the bridge in: chains, dApps, and an index that asks for retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bridge.evm.signing import LocalSigner
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.retry_requests import RetryRequest
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import (
    GMPS,
    MULTICALL_ADDRESS,
    RECIPIENT,
    ROUTER_ADDRESS,
    Emitted,
    State,
    create_message,
    route,
)
from tests.support.simulation.node import LyingNode, SimulatedNode
from tests.support.simulation.time import VirtualClock

RELAYER: Final = LocalSigner.from_key("0x" + "11" * 32)
DAPP: Final = LocalSigner.from_key("0x" + "22" * 32)


_FIRST_CHAIN: Final = 31337
_ENOUGH: Final = 10**24  # wei
_CONFIRMATIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Sent:
    """What a dApp asked for; a reorg may make another message of it."""

    source: int
    transaction_hash: bytes
    created: list[Message]  # one for each time its transaction was executed

    @property
    def message(self) -> Message:
        """The message as it was created last."""
        return self.created[-1]


class Requests:
    """See `bridge.protocol.retry_requests.RetryRequestSource`; an index in its simplest form."""

    def __init__(self) -> None:
        self.requests: list[RetryRequest] = []

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """See `RetryRequestSource.requests_after`."""
        return [request for request in self.requests if request.sequence > sequence][:limit]

    async def highest_sequence(self) -> int:
        """See `RetryRequestSource.highest_sequence`."""
        return self.requests[-1].sequence if self.requests else 0


class World:
    """Chains and everybody on them but the bridge. The same seed gives the same world."""

    def __init__(self, seed: int = 0, *, chains: int = 2, block_time: float = 1.0, lies: float | None = None) -> None:
        """Makes chains, which are asked directly; or, with a share of `lies`, over three endpoints each, one of which lies."""
        self.random = random.Random(seed)  # a seeded world
        self.clock = VirtualClock()
        ids = [_FIRST_CHAIN + number for number in range(chains)]
        self.chains = {chain_id: SimulatedChain(chain_id, self.random, now=self.clock.now) for chain_id in ids}
        for chain in self.chains.values():
            for signer in (RELAYER, DAPP):
                chain.fund(signer.address, _ENOUGH)
        self.nodes = None if lies is None else {key: self._nodes_of(chain, lies) for key, chain in self.chains.items()}
        self.down: set[Gmp] = set()  # GMPs that give no attestations
        self.requests = Requests()
        self.sent: list[Sent] = []
        self._taken: dict[bytes, frozenset[Gmp]] = {}  # by message id: the GMPs of its route
        self.block_time = block_time
        self.deployment = Deployment(version=1, network="simulation", chains=tuple(_deployed(id_) for id_ in ids))
        self._miner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Lets blocks come."""
        self._miner = asyncio.get_running_loop().create_task(self._mine())

    async def stop(self) -> None:
        """Lets no more blocks come; a contract of the simulation that broke is an error."""
        if self._miner is not None:
            self._miner.cancel()
            with suppress(asyncio.CancelledError):
                await self._miner

    def send(
        self,
        source: int = _FIRST_CHAIN,
        destination: int = _FIRST_CHAIN + 1,
        *,
        gmps: Sequence[Gmp] = (Gmp.HYPERLANE,),
        quorum: int = 1,
        retriable: bool = True,
        kind: Kind = Kind.PLAIN,
        ttl: int = 0,
        sender: str = DAPP.address,
        recipient: str = RECIPIENT,
    ) -> Sent:
        """A dApp's transaction goes into the source's pool."""
        (sent,) = self.send_all(
            source,
            [destination],
            gmps=gmps,
            quorum=quorum,
            retriable=retriable,
            kind=kind,
            ttl=ttl,
            sender=sender,
            recipient=recipient,
        )
        return sent

    def send_all(
        self,
        source: int,
        destinations: Sequence[int],
        *,
        gmps: Sequence[Gmp],
        quorum: int = 1,
        retriable: bool = True,
        kind: Kind = Kind.PLAIN,
        ttl: int = 0,
        sender: str = DAPP.address,
        recipient: str = RECIPIENT,
    ) -> list[Sent]:
        """The same, with one transaction that sends the same to several chains."""
        payload = b"%d" % len(self.sent)
        created: dict[int, list[Message]] = {destination: [] for destination in destinations}

        def action(state: State) -> list[Emitted]:
            emitted = []
            for destination in destinations:
                message = create_message(
                    state,
                    sender,
                    destination,
                    quorum=quorum,
                    payload=payload,
                    kind=kind,
                    ttl=ttl,
                    recipient=recipient,
                )
                created[destination].append(message)
                self._taken[message.id] = frozenset(gmps)
                emitted += route(state, message, sender, gmps, retriable=retriable)
            return emitted

        transaction = self.chains[source].submit(action)
        sent = [Sent(source, transaction, created[destination]) for destination in destinations]
        self.sent += sent
        return sent

    def executions(self, message: Message) -> int:
        """How often the destination's recipient has taken a message."""
        return self.chains[message.destination_chain].state.executed.get(message.id, 0)

    def receipts(self, message: Message) -> frozenset[Gmp]:
        """The GMPs that have delivered a message."""
        return self.chains[message.destination_chain].state.receipts.get(message.id, frozenset())

    def route_of(self, message: Message) -> frozenset[Gmp]:
        """The GMPs over which a message was routed at first."""
        return self._taken.get(message.id, frozenset(GMPS))

    def request_retry(self, message: Message, attempt: int = 1, generation: int = 0) -> RetryRequest:
        """The index asks for a retry."""
        request = RetryRequest(
            sequence=len(self.requests.requests) + 1,
            message_id=message.id,
            attempt=attempt,
            generation=generation,
            source_chain=message.source_chain,
            destination_chain=message.destination_chain,
            missing_gmps=self.route_of(message) - self.receipts(message),
            received_gmps=self.receipts(message),
            reason="overdue",
            cause_block=0,
            requested_at=self.clock.now(),
        )
        self.requests.requests.append(request)
        return request

    def _nodes_of(self, chain: SimulatedChain, lies: float) -> list[SimulatedNode]:
        nodes: list[SimulatedNode] = [SimulatedNode(chain) for _ in range(3)]
        nodes[self.random.randrange(3)] = LyingNode(chain, self.random, lies)
        return nodes

    async def _mine(self) -> None:
        while True:
            await asyncio.sleep(self.block_time)
            for chain in self.chains.values():
                chain.mine()


def _deployed(chain_id: int) -> ChainDeployment:
    return ChainDeployment(
        chain_id=chain_id,
        name=f"chain-{chain_id}",
        rpc_urls=("http://nowhere",),
        start_block=0,
        confirmations=_CONFIRMATIONS,
        router=ROUTER_ADDRESS,
        adapters={},
        gmps={},
        multicall=MULTICALL_ADDRESS,
    )
