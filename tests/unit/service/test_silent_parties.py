"""Each outside party falls silent in turn: it accepts connections, and never answers. Deliveries elsewhere go on.

What counts is the order: a message is sent after the one before it was executed, and leases are renewed meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from bridge.dead_letters.alerts import Alerts
from bridge.dead_letters.channels import Channel, Email, Mailbox, Webhook
from bridge.dead_letters.parameters import Thresholds
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.signing import KeySealer
from bridge.evm import signing
from bridge.evm.chain import EvmChain
from bridge.evm.signing import RemoteSigner
from bridge.gmps.attestation import JsonDocuments
from bridge.protocol.errors import StoreBusyError
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Chain, Dispatch
from bridge.records.outbox import Claim, OutboxState
from bridge.relayer.delivery import Deliveries
from bridge.relayer.settings import RelaySettings
from bridge.store import Store, database, dead_letters, open_store
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.index_requests import IndexRequests
from bridge.streams import kafka
from bridge.streams.publisher import Publisher
from bridge.streams.settings import KafkaSettings
from tests.support.settings import tuned
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation import relayer as simulated
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.node import SimulatedNode
from tests.support.simulation.relayer import SEALER
from tests.support.simulation.world import Sent
from tests.support.stores import memory_dead_letters, memory_store
from tests.unit.dead_letters.servers import WebhookServer, webhook_server
from tests.unit.dead_letters.world import entered
from tests.unit.evm.rpc_server import Answer, RpcServer
from tests.waiting import eventually_true

ALPHA, BETA, GAMMA = 31337, 31338, 31339
LEASE = 9.0  # seconds; a third of it passes between two renewals
DETAILS: dict[str, Any] = {"eventId": "", "reason": "", "routingSlip": {}, "headers": {}}
QUICK = 0.3  # seconds that an answer may take


@dataclass
class SilentServer:
    """A listener that accepts, and never answers."""

    port: int
    accepted: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> str:
        return f"postgresql://user@127.0.0.1:{self.port}/database"


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    with _listening() as server:
        yield server


@contextmanager
def _listening() -> Iterator[SilentServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = SilentServer(listener.getsockname()[1])

    def accept() -> None:
        while True:
            try:
                server.accepted.append(listener.accept()[0])
            except OSError:  # the test is over
                return

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in server.accepted:
            connection.close()


class Life:
    """A relayer between three chains in real time, whose renewals of leases are counted."""

    def __init__(self, *, lease: float = LEASE) -> None:
        self.world = World(chains=3, block_time=0.05)
        self.store: Store = memory_store()
        self.renewals = 0
        self.relaying = RelaySettings(lease=lease)
        self.gate = asyncio.Event()  # until it opens, deliveries over AXELAR wait, and keep their leases
        self._renew = self.store.outbox.renew
        self.store.outbox.renew = self._counted  # type: ignore[method-assign]  # counts the calls

    def _counted(self, claims: Collection[Claim], now: float, lease: float) -> set[Claim]:
        self.renewals += 1
        return self._renew(claims, now, lease)

    @asynccontextmanager
    async def running(self, change: Callable[[SimulatedRelayer], None] = lambda _bridge: None) -> AsyncIterator[None]:
        gate = self.gate

        class Gated(SimulatedAdapter):
            async def attest(self, dispatch: Dispatch) -> bytes:
                if self.gmp is Gmp.AXELAR:
                    await gate.wait()
                return await super().attest(dispatch)

        bridge = SimulatedRelayer(self.world, self.store, relaying=self.relaying, poll=0.05)
        for deliveries in bridge.relayer.deliveries.values():
            deliveries._adapters = {gmp: Gated(gmp, _chains_of(deliveries)) for gmp in deliveries._adapters}
        change(bridge)
        self.world.start()
        task = asyncio.create_task(bridge.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.world.stop()

    def is_executed(self, sent: Sent) -> bool:
        return bool(sent.created) and self.world.executions(sent.message) == 1

    def is_claimed(self, sent: Sent) -> bool:
        entries = self.store.outbox.entries(sent.message.id) if sent.created else []
        return [entry.state for entry in entries] == [OutboxState.CLAIMED]

    async def delivers(self, count: int = 3) -> None:
        """Sends messages one after the other, each after the last one was executed."""
        for _ in range(count):
            sent = self.world.send(ALPHA, BETA)
            await eventually_true(partial(self.is_executed, sent), "a message to a healthy chain was executed")

    async def renews(self) -> None:
        """Waits until the lease of a delivery that takes long was renewed."""
        slow = self.world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,))
        await eventually_true(lambda: self.is_claimed(slow), "a slow delivery was begun")
        before = self.renewals
        await eventually_true(lambda: self.renewals > before, "leases are renewed")
        (entry,) = self.store.outbox.entries(slow.message.id)
        assert (entry.state, entry.fence) == (OutboxState.CLAIMED, 1)
        self.gate.set()
        await eventually_true(lambda: self.is_executed(slow), "the slow delivery was made")


def _chains_of(deliveries: Deliveries) -> dict[int, Chain]:
    return {deliveries._chain.chain_id: deliveries._chain}


async def test_silent_attestation_service_holds_up_its_own_gmp_only(silent: SilentServer) -> None:
    life = Life()

    class Asking(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if self.gmp is Gmp.WORMHOLE:
                await web.json(f"{silent.url}/v1/signed_vaa")
            return await super().attest(dispatch)

    def ask(bridge: SimulatedRelayer) -> None:
        for deliveries in bridge.relayer.deliveries.values():
            deliveries._adapters = {gmp: Asking(gmp, _chains_of(deliveries)) for gmp in deliveries._adapters}

    async with JsonDocuments(timeout=3_600) as web, life.running(ask):
        held = [life.world.send(ALPHA, BETA, gmps=(Gmp.WORMHOLE,)) for _ in range(3)]
        await eventually_true(lambda: len(silent.accepted) >= 3, "the service was asked")
        await life.delivers()
        await life.renews()
        entries = [entry for sent in held for entry in life.store.outbox.entries(sent.message.id)]
        assert {(entry.state, entry.fence) for entry in entries} == {(OutboxState.CLAIMED, 1)}, "their leases last"


async def test_silent_endpoint_holds_up_its_own_chain_only(monkeypatch: pytest.MonkeyPatch) -> None:
    life, speaks = Life(), asyncio.Event()
    node = SimulatedNode(life.world.chains[GAMMA])

    async def behave(method: str, params: list[Any]) -> Answer:
        await speaks.wait()
        return await node.ask(method, params)

    server = await RpcServer(behave, chain_id=GAMMA).start()
    speaks.set()
    async with await EvmChain.connect(GAMMA, [server.url], request_seconds=QUICK, try_seconds=0.01) as gamma:
        monkeypatch.setattr(
            simulated, "_reached", lambda _world, chain, _power: gamma if chain.chain_id == GAMMA else chain
        )
        async with life.running():
            first = life.world.send(ALPHA, GAMMA)
            await eventually_true(lambda: life.is_executed(first), "all chains work")
            speaks.clear()
            asked = len(server.requests)
            held = life.world.send(ALPHA, GAMMA)
            await eventually_true(lambda: len(server.requests) >= asked + 3, "the silent endpoint was asked")
            await life.delivers()
            await life.renews()
            (entry,) = life.store.outbox.entries(held.message.id)
            assert (entry.failed_tries, life.is_executed(held)) == (0, False)
            speaks.set()
            await eventually_true(lambda: life.is_executed(held), "what waited is delivered")
    await server.stop()


async def test_silent_signer_holds_up_its_own_account_only(
    silent: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "_SECONDS", QUICK)
    life = Life()

    def sign(bridge: SimulatedRelayer) -> None:
        account = bridge.senders[GAMMA, RELAYER.address.lower()]._account
        account._signer = RemoteSigner(silent.url, RELAYER.address)

    async with life.running(sign):
        held = life.world.send(ALPHA, GAMMA)
        await eventually_true(lambda: len(silent.accepted) >= 1, "the signer was asked")
        await life.delivers()
        await life.renews()
        (entry,) = life.store.outbox.entries(held.message.id)
        assert entry.failed_tries == 0


async def test_silent_index_store_holds_up_no_delivery(silent: SilentServer) -> None:
    life = Life()
    life.world.requests = IndexRequests(silent.database, answer_seconds=QUICK)  # type: ignore[assignment]  # the real one
    async with life.running():
        await eventually_true(lambda: len(silent.accepted) >= 1, "the index's store was asked")
        await life.delivers()
        await life.renews()


async def test_silent_alert_channels_hold_up_no_other_channel(silent: SilentServer) -> None:
    life, log = Life(), memory_dead_letters()

    async def thresholds() -> Thresholds:
        return Thresholds()

    box = Mailbox(host="127.0.0.1", port=silent.port, sender="waybill@x.example", recipients=("ops@x.example",))
    with webhook_server() as heard:
        channels: list[Channel] = [
            Webhook(silent.url, timeout=3_600),
            Email(box, timeout=QUICK),
            Named(heard.url, timeout=10),
        ]
        alerts = Alerts(log, channels, thresholds, life.world.clock)
        async with life.running():
            told = asyncio.create_task(alerts.run(0.05))
            for number in range(3):
                log.append(entered(f"0x{number:064x}/hyperlane/0", **DETAILS), KeySealer(SEALER))
                await eventually_true(partial(_has_posted, heard, number + 1), "the other one is told")
            assert len(silent.accepted) >= 2
            await life.delivers()
            await life.renews()
            told.cancel()
            await asyncio.gather(told, return_exceptions=True)


def _has_posted(server: WebhookServer, count: int) -> bool:
    return len(server.posted) == count


class Named(Webhook):
    """Another webhook: each channel notes under its name how far it was told."""

    name = "other"


async def test_silent_kafka_holds_up_no_delivery(silent: SilentServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_PATIENCE", QUICK)
    life = Life()
    settings = tuned(KafkaSettings(bootstrap_servers=f"127.0.0.1:{silent.port}"), POLL_INTERVAL=0.05)
    async with life.running():
        publishing = asyncio.create_task(Publisher(life.store.streams, settings, worker="one", lease=15).run())
        await life.delivers(1)  # its records are to be published
        await eventually_true(lambda: len(silent.accepted) >= 1, "the broker was asked")
        await life.delivers()
        await life.renews()
        assert life.store.streams.status().waiting > 0
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)


async def test_silent_letter_database_holds_up_no_delivery(
    silent: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(database._OPTIONS["postgresql"]["connect_args"], "connect_timeout", 3_600)
    monkeypatch.setattr(dead_letters, "_ANSWER_SECONDS", 3_600)
    life = Life()
    queue = DeadLetterQueue(DeadLetterLog(silent.database), life.store, KeySealer(SEALER), life.world.clock)
    async with life.running():
        step = asyncio.create_task(queue.step())
        await eventually_true(lambda: len(silent.accepted) >= 1, "the letters' database was asked")
        closing = asyncio.create_task(queue.close_action(bytes(32), 0, {}))
        await life.delivers()
        await life.renews()
        assert not step.done()
        assert not closing.done()
        for task in (step, closing):
            task.cancel()
        await asyncio.gather(step, closing, return_exceptions=True)


async def test_silent_letter_database_is_an_error_and_no_endless_wait(
    silent: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_ANSWER_SECONDS", QUICK)
    log = DeadLetterLog(silent.database)
    with pytest.raises(StoreBusyError, match="did not respond within"):
        await log.in_thread(log.last_sequence)


@pytest.mark.long
def test_silent_store_is_an_error_and_no_endless_wait(silent: SilentServer) -> None:
    with pytest.raises(StoreBusyError):
        open_store(silent.database)
