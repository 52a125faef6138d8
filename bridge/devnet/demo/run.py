"""Runs the demonstration, from empty chains to the report."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from bridge.client import Client, Sent
from bridge.devnet.accounts import ANVIL_KEYS, RELAYER_KEY, account
from bridge.devnet.anvil import ChainStatus
from bridge.devnet.demo import traffic
from bridge.devnet.demo.actions import DemonstratedActions
from bridge.devnet.demo.audit import Audit, audit
from bridge.devnet.demo.processes import ProcessFailedError, Service
from bridge.devnet.demo.report import DisagreementError, Report, require_a_good_end, require_agreement
from bridge.devnet.network import Devnet
from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.ports import Block
from bridge.store.index_requests import IndexRequests

HEALTHY, STALLING = 44, 22
"""Numbers of healthy and stalling messages."""

STALL_AFTER = 10  # seconds
_PATIENCE = 90  # seconds, timeout of each step
_POLL = 0.5  # seconds
_PATIENT = ("--max-behind", "3600")  # the demonstration waits for the index itself, so its age does not matter
_UNTIL_FINAL = 4  # seconds in which a block becomes final (two blocks) and the index appends it to the lake
_MOST_REQUESTS = 10_000
_INDEX_SETTINGS = {"WAYBILL_INDEX": '{"lake_interval": 1}'}  # seconds; so the tables need one refresh

Say = Callable[[str], None]
Finished = Callable[[Report], Awaitable[None]]
IndexHasRead = Callable[[Mapping[int, Block]], Awaitable[bool]]


@contextmanager
def silenced(chain: ChainStatus) -> Iterator[None]:
    """Suspends a chain's node for the duration of the context."""
    node = psutil.Process(chain.pid)
    node.suspend()
    try:
        yield
    finally:
        node.resume()


class Demonstration:
    """Runs `waybill` as a user would, and checks the chains directly."""

    def __init__(
        self,
        network: Devnet,
        chains: Mapping[int, EvmChain],
        index: IndexRequests,
        *,
        index_has_read: IndexHasRead,
        folder: Path,
        say: Say,
    ) -> None:
        self._deployment = network.deployment
        self._chains = chains
        self._index = index
        self._index_has_read = index_has_read
        self._actions = DemonstratedActions(self._deployment, chains)
        self._falls_silent: ChainStatus = network.chains[-1]  # has no traffic
        self._traffic: set[bytes] = set()
        self._stalled: frozenset[bytes] = frozenset()
        self._folder = folder
        self._say = say
        self._started = time.monotonic()
        # Deployer and relayer manage their own nonces, so they send no traffic.
        self._dapps = [account(key) for key in ANVIL_KEYS[2:9]]

    async def run(self, finished: Finished) -> None:
        """Runs all steps in order. Relayer and index run until `finished` returns.

        Raises:
            ProcessFailedError: a process exited.
            DisagreementError: a result is wrong.
        """
        async with AsyncExitStack() as stack:
            index = stack.enter_context(self._index_service())
            relayer = stack.enter_context(self._relayer_service())
            await self._appoint_retrier()
            await self._healthy([index, relayer])
            relayer.kill()
            stalled_gmp = traffic.STALLED_GMP.label
            relayer = stack.enter_context(self._relayer_service("--pause-gmp", stalled_gmp))
            await self._stalling([index, relayer])
            for service in (index, relayer):
                service.kill()
            self._say("relayer and index killed (SIGKILL) and started again")
            index = stack.enter_context(self._index_service())
            relayer = stack.enter_context(self._relayer_service())
            services = [index, relayer]
            await self._waking(services)
            await finished(await self._report(services))

    async def _healthy(self, services: Sequence[Service]) -> None:
        freeze = await self._actions.freeze()
        sent = await self._send(traffic.healthy(self._deployment, HEALTHY))
        await self._until(services, "are executed", lambda: self._executed(sent))
        self._say(f"{len(sent)} messages over three GMPs, quorums 1, 2 and 3: executed")
        await self._until(services, "of an action are executed", lambda: self._actions.is_over(freeze))
        self._say(f"an atomic action freezes gold on {self._participants}: all prepared, so all committed")

    async def _stalling(self, services: Sequence[Service]) -> None:
        gmp = traffic.STALLED_GMP.label
        sent = await self._send(traffic.stalling(self._deployment, STALLING))
        self._stalled = frozenset(item.message.id for item in sent)
        self._say(f"relayer killed (SIGKILL), started again without {gmp}: {len(sent)} messages wait for {gmp}")
        await self._indexed(services)
        await asyncio.gather(self._retried(services, sent), self._aborted(services))

    async def _retried(self, services: Sequence[Service], sent: Sequence[Sent]) -> None:
        await self._until(services, "are found stalled", self._requested)
        self._say(f"the index finds exactly those {len(sent)} stalled, and asks for their retries")
        await self._until(services, "are executed", lambda: self._executed(sent))
        self._say(f"all {len(sent)} retried over another GMP and executed")

    async def _aborted(self, services: Sequence[Service]) -> None:
        silent = self._falls_silent
        with silenced(silent):
            unfreeze = await self._actions.unfreeze_hastily()
            await self._until(
                services,
                "of an action that can't be prepared are given up",
                lambda: self._actions.is_aborting(unfreeze),
            )
            self._say(f"{silent.name} is down (SIGSTOP): an atomic action to unfreeze gold is aborted after a retry")
        await self._until(services, "of an action are executed", lambda: self._actions.is_over(unfreeze))
        self._say(f"{silent.name} is back: gold is still frozen on {self._participants}")

    async def _waking(self, services: Sequence[Service]) -> None:
        gmp = traffic.STALLED_GMP.label

        async def late() -> bool:
            return (await self._audit()).late_receipts >= STALLING

        await self._until(services, f"arrive late over {gmp}", late)
        self._say(f"{gmp} wakes up: its late deliveries are recorded and execute nothing")

    async def _report(self, services: Sequence[Service]) -> Report:
        names = [chain.name for chain in self._deployment.chains]
        await self._indexed(services)
        await asyncio.sleep(_UNTIL_FINAL)
        self._say("Spark refreshes the tables until their totals agree with the chains' own logs")
        deadline = time.monotonic() + _PATIENCE
        while True:
            for service in services:
                service.check()
            try:
                return await self._agreed_report(names)
            except DisagreementError:
                # The index lags behind the chains, and the lake contains final blocks only.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_POLL)

    async def _agreed_report(self, names: Sequence[str]) -> Report:
        await self._waybill("index", "refresh")
        index = await self._waybill("report", *_PATIENT)
        audit, actions = await self._audit(), await self._actions.outcomes()
        require_agreement(audit, index)
        report = Report(
            chains=names,
            audit=audit,
            stalled=self._stalled,
            requested=await self._requests(),
            actions=actions,
            divergences=index["divergences"],
            seconds=round(time.monotonic() - self._started, 1),
        )
        require_a_good_end(report)
        return report

    @property
    def _participants(self) -> str:
        return " and ".join(chain.name for chain in self._deployment.chains[1:])

    async def _appoint_retrier(self) -> None:
        relayer = account(RELAYER_KEY).address
        clients = [Client(self._deployment, self._chains, dapp) for dapp in self._dapps]
        await asyncio.gather(
            *(
                client.appoint_retrier(chain.chain_id, relayer)
                for client in clients
                for chain in self._deployment.chains
            )
        )

    async def _send(self, planned: Sequence[traffic.Planned]) -> list[Sent]:
        sent = await traffic.send(self._deployment, self._chains, self._dapps, planned)
        self._traffic |= {item.message.id for item in sent}
        return sent

    async def _until(self, services: Iterable[Service], what: str, reached: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not await reached():
            for service in services:
                service.check()
            if time.monotonic() > deadline:
                raise DisagreementError(f"not all messages {what} within {_PATIENCE} s; see the logs in {self._folder}")
            await asyncio.sleep(_POLL)

    async def _indexed(self, services: Iterable[Service]) -> None:
        """Waits until the index has read each chain up to its current head. A killed index must start Spark first."""
        heads = {chain_id: await chain.head() for chain_id, chain in self._chains.items()}
        await self._until(services, "are indexed", lambda: self._index_has_read(heads))

    async def _executed(self, sent: Sequence[Sent]) -> bool:
        client = Client(self._deployment, self._chains)
        return all([(await client.progress(item.message)).executed for item in sent])

    async def _requested(self) -> bool:
        requested = await self._requests()
        if wrong := [f"0x{message_id.hex()}" for message_id in requested - self._stalled]:
            raise DisagreementError(f"the index requested retries of {sorted(wrong)}, which had not stalled")
        return requested == self._stalled

    async def _requests(self) -> frozenset[bytes]:
        """Returns the traffic's messages whose retry the index requested, excluding messages of actions."""
        requests = await self._index.requests_after(0, _MOST_REQUESTS)
        return frozenset(request.message_id for request in requests) & self._traffic

    async def _audit(self) -> Audit:
        return await audit(self._deployment, self._chains)

    async def _waybill(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "bridge.cli", *arguments, "--json"]
        process = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise ProcessFailedError(f"`waybill {' '.join(arguments)}` failed: {process.stderr.strip()}")
        return json.loads(process.stdout)

    def _index_service(self) -> Service:
        return self._service("index", "run", "--stall-after", str(STALL_AFTER), environment=_INDEX_SETTINGS)

    def _relayer_service(self, *options: str) -> Service:
        return self._service("relayer", "run", *options)

    def _service(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Service:
        return Service(list(arguments), self._folder / f"{arguments[0]}.log", environment)


async def demonstrate(
    network: Devnet,
    index_url: str,
    *,
    index_has_read: IndexHasRead,
    folder: Path,
    say: Say,
    finished: Finished,
) -> None:
    """Runs the demonstration on a fresh network. Its processes run until `finished` returns.

    Args:
        network: A devnet with three chains.
        index_url: URL of the store that `waybill index run` writes.
        index_has_read: Returns whether that store contains the given head of each chain.
        folder: Folder for logs.
        say: Callback for progress lines.
        finished: Called with the report; the processes run until it returns.

    Raises:
        ProcessFailedError: a process exited.
        DisagreementError: a result is wrong.
    """
    async with open_chains(network.deployment) as chains:
        index = IndexRequests(index_url)
        demonstration = Demonstration(network, chains, index, index_has_read=index_has_read, folder=folder, say=say)
        await demonstration.run(finished)
