"""`waybill relayer run`, whole, killed again and again at system calls that write, sync or send, makes good all that it had begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import update

from bridge.client import Client, RouteRequest, Sent
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.records.outbox import OutboxState
from bridge.store import Store, open_dead_letters
from bridge.store.tables import jobs
from tests import seeds
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import Process, process, until
from tests.anvil.rpc import rpc
from tests.anvil.test_dead_letters import broken_axelar
from tests.anvil.test_relayer import Traffic, blocks, nonces_are_all_used
from tests.anvil.tracing import attach
from tests.anvil.traffic import DAPP, RELAYER
from tests.asking_index import ask, asking_index
from tests.builders import retry_request

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
LATEST = {"pwrite64": 120, "fdatasync": 30, "sendto": 160}
"""By how many calls of a kind a life has done nearly all that it has to do."""

LIVES = 6
SMALL = {
    "WAYBILL_RETRY_KEYS": DAPP_KEY,
    "WAYBILL_BREAKER_FAILURES": "1000",  # what dies shall die soon
    "WAYBILL_POLICIES": '{"plain": {"base": 0.2, "cap": 1, "max_retries": 50},'
    ' "governance_vote": {"base": 0.1, "cap": 0.2, "max_retries": 2}}',
}


@dataclass(frozen=True, slots=True)
class Moment:
    """When a life ends."""

    system_call: str
    number: int  # 1 is the first such call of a life

    def __str__(self) -> str:
        return f"{self.system_call}:{self.number}"


def moments(lives: int, what: str) -> list[Moment]:
    """Other moments with every commit, the same ones for the same commit."""
    dice = seeds.dice(what)
    calls = [dice.choice(sorted(LATEST)) for _ in range(lives)]
    return [Moment(call, dice.randint(1, LATEST[call])) for call in calls]


class Story:
    """Lives of one relayer on one store: what they send, and what has to be true in the end."""

    def __init__(self, devnet: Devnet, chains: dict[int, EvmChain], home: Path) -> None:
        self._devnet, self._home = devnet, home
        self._url = f"sqlite:///{home}/.waybill/devnet/bridge.db"
        self._client = Client(devnet.deployment, chains, DAPP)
        self._log, index = home / "relayer.log", home / "index.db"
        self._environment = SMALL | {"WAYBILL_INDEX_STORE": f"sqlite:///{index}"}
        self._traffic = Traffic(devnet, chains)
        self._dying: list[Sent] = []
        self._killed: list[Moment] = []
        self._store = Store(self._url)
        self._requests = asking_index(index)

    async def live(self, ends: Moment) -> bool:
        """A life with new work, traced to its end: whether it was killed there, or had nothing more to do before."""
        await until(self._no_retry_waits, "the retries that the last life sent are in a block")
        await self._traffic.send(Gmp.HYPERLANE, Gmp.WORMHOLE, Gmp.CCIP, quorum=2)
        await self._traffic.send(Gmp.LAYERZERO, source="beta", destination="alpha")
        await self._send_dying()
        with process(self._home, self._log, **self._environment) as running:
            running.stop()
            tracer = attach(running.pid, f"{ends.system_call}:signal=KILL:when={ends.number}", self._home)
            running.go_on()
            await until(lambda: not running.is_running or self._is_over(), f"it ends at {ends}, or all is final")
            was_killed = not running.is_running
        tracer.wait()
        self._killed += [ends] * was_killed
        self._end_leases(running)
        return was_killed

    def _end_leases(self, killed: Process) -> None:
        """Lets the next life take up at once what the last one had under way."""
        killed.end_leases(self._store)
        with self._store._database.transaction() as connection:
            connection.execute(update(jobs).where(jobs.c.finished_at.is_(None)).values(available_at=0))

    def _no_retry_waits(self) -> bool:
        """The relayer retries as the dApp, whose next nonces are then taken."""
        alpha = self._devnet.deployment.chain("alpha").rpc_urls[0]
        counts = [rpc(alpha, "eth_getTransactionCount", DAPP.address, block) for block in ("latest", "pending")]
        return bool(counts[0] == counts[1])

    async def _send_dying(self) -> None:
        """A message that Axelar does not deliver, and that the index asks to send again."""
        request = RouteRequest(
            destination="beta",
            recipient=self._devnet.deployment.chain("beta").examples["inbox"],
            payload=f"dying {len(self._dying)}".encode(),
            gmps=(Gmp.AXELAR,),
            kind=Kind.GOVERNANCE_VOTE,
            ttl=86_400,
        )
        self._dying.append(await self._client.route("alpha", request))
        asked = retry_request(len(self._dying), self._dying[-1].message, missing_gmps=frozenset({Gmp.AXELAR}))
        ask(self._requests, asked)

    async def end(self) -> None:
        """The last life, which nobody kills: it makes good what the others left, and stops when it is asked to."""
        with process(self._home, self._log, **self._environment) as running:
            await running.is_at_work()
            await self._traffic.all_executed()
            await self._traffic.all_received()
            await until(self._is_over, f"all is final after kills at {self._killed}")
            await self._is_as_it_must_be()
            assert running.terminate() == 0, running.log[-2000:]

    def close(self) -> None:
        self._requests.close()
        self._store.close()

    def _is_over(self) -> bool:
        store = self._store
        entries = store.outbox.listed(limit=10_000)
        return (
            len(entries) == len(self._dying) * (3 + 1 + 2)
            and all(
                one.state is OutboxState.DEAD if one.dispatch.gmp is Gmp.AXELAR else one.confirmed_at is not None
                for one in entries
            )
            and not any(
                store.transactions.open_slots(chain.chain_id, RELAYER.address)
                for chain in self._devnet.deployment.chains
            )
        )

    async def _is_as_it_must_be(self) -> None:
        store = self._store
        nonces_are_all_used(store, self._devnet)
        for one in store.outbox.listed(limit=10_000):
            made = [slot for slot in store.transactions.slots_for(one.event_id) if not slot.ended_as_noop]
            at_most = 2 if one.dispatch.gmp is Gmp.AXELAR else 1
            assert len(made) <= at_most, f"{one.event_id} was sent {len(made)} times after kills at {self._killed}"
        dead_letters = open_dead_letters(self._url)
        marked_dead = sorted(letter.event_id for letter in dead_letters.dead_letters(limit=None))
        dead_letters.close()
        assert marked_dead == sorted(one.event_id for one in store.outbox.listed(state=OutboxState.DEAD, limit=10_000))
        for sent in self._dying:
            first, again = store.observations.attempts(
                sent.message.id
            )  # a request that was carried out twice makes three
            assert first.gmps == {Gmp.AXELAR}
            executed = (await self._client.progress(sent.message)).executed
            assert executed is (again.gmps != {Gmp.AXELAR}), "after a kill all others may be in trouble, too"


@contextmanager
def transactions_that_wait(devnet: Devnet) -> Iterator[None]:
    """While this holds, a transaction waits for the next block, so that lives end while some are under way."""
    for chain in devnet.chains:
        rpc(chain.url, "evm_setAutomine", False)
    try:
        yield
    finally:
        for chain in devnet.chains:
            rpc(chain.url, "evm_setAutomine", True)


async def test_command_killed_at_sampled_calls_loses_nothing(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    story = Story(devnet, chains, new_home(devnet, tmp_path))
    try:
        async with blocks(devnet):
            with broken_axelar(devnet), transactions_that_wait(devnet):
                killed = [await story.live(one) for one in moments(LIVES, "lives")]
                await story.end()
    finally:
        story.close()
    verified = Waybill(tmp_path)("dlq", "verify")
    assert verified.code == 0, verified.err
    assert sum(killed) >= LIVES // 2
