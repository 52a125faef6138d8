"""Compares the relayer with Hyperlane's: the same kind of messages, on the same devnet, with the same proofs.

Both run as processes with their defaults, read the validators' checkpoints from one server, and reach chains through
a counting proxy. Chains mine a block per transaction, and one per second. Hyperlane's relayer is the one in its npm
package; its Rust agent is not available from a registry.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bridge import devnet as devnets
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, RELAYER_KEY
from bridge.evm.chain import open_chains
from bridge.gmps.hyperlane.adapter import hyperlane_message
from bridge.gmps.hyperlane.devnet import VALIDATORS
from bridge.protocol.events import topic_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Dispatch
from tests.anvil.command import environment_of
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.public_network import PublicNetwork
from tests.anvil.rpc import free_ports, mine, rpc
from tests.anvil.their_clients import INTEROP, NODE, exchange_hooks, hyperlane_chains, installed
from tests.anvil.traffic import World
from tests.builders import BETA

BURST: Final = 600  # messages that wait for ours
THEIR_BURST: Final = 60  # and for the other, which takes one after the other
TRICKLE: Final = 30  # messages that come one by one, when it has delivered them
PATIENCE: Final = 1_200  # seconds
_SHOWN: Final = 50  # deliveries between two lines of progress
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_RECEIVED: Final = f"0x{topic_of('MessageReceived').hex()}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A relayer's results. Figures per message refer to the burst."""

    delivered_per_s: float
    p50_ms: float  # from the validators' signatures to inclusion, of messages that come one by one
    p95_ms: float
    cpu_ms: float  # of its process, per message
    requests: float  # HTTP requests to chains, per message
    calls: float  # what they ask for, per message
    gas: float  # per message
    memory_mb: float  # resident, in the end

    def value(self) -> dict[str, float]:
        """The results as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _Watch:
    """Independently records the inclusions on beta."""

    url: str
    at: dict[str, float] = field(default_factory=dict)  # by message id, on the monotonic clock
    transactions: dict[str, str] = field(default_factory=dict)  # by message id
    next_block: int = 0

    async def run(self) -> None:
        while True:
            head = int(await asyncio.to_thread(rpc, self.url, "eth_blockNumber"), 16)
            if head >= self.next_block:
                wanted = {"fromBlock": hex(self.next_block), "toBlock": hex(head), "topics": [_RECEIVED]}
                now = time.monotonic()
                for log in await asyncio.to_thread(rpc, self.url, "eth_getLogs", wanted):
                    self.at.setdefault(log["topics"][1], now)
                    self.transactions.setdefault(log["topics"][1], log["transactionHash"])
                self.next_block = head + 1
            await asyncio.sleep(0.05)

    def gas(self, dispatches: Sequence[Dispatch]) -> int:
        """Returns the gas of the transactions that delivered the given messages."""
        used = {self.transactions[_name(one)] for one in dispatches}
        return sum(int(rpc(self.url, "eth_getTransactionReceipt", one)["gasUsed"], 16) for one in used)


def _name(dispatch: Dispatch) -> str:
    return f"0x{dispatch.message_id.hex()}"


@dataclass(frozen=True, slots=True)
class _Bench:
    """A public network whose chains are reached through proxies."""

    devnet: Devnet  # as relayers see it: through the proxies
    public: PublicNetwork
    proxies: tuple[FaultProxy, ...]
    watch: _Watch
    folder: Path
    announced: Mapping[str, str]  # ValidatorAnnounce, by name of the chain: over HTTP, as our relayer is told

    async def send(self, count: int) -> list[Dispatch]:
        """Sends messages and has validators sign them."""
        world = self.public.world
        known = len(await world.dispatches(Gmp.HYPERLANE))
        for number in range(count):
            await world.send(Gmp.HYPERLANE, payload=b"%d" % number)
        sent = (await world.dispatches(Gmp.HYPERLANE))[known:]
        for dispatch in sent:
            for validator in VALIDATORS:
                await self.public.sign_checkpoint(dispatch, validator)
        return sent

    async def delivered(self, dispatches: Sequence[Dispatch], process: subprocess.Popen[bytes]) -> list[float]:
        """Waits until all messages are included, and returns their times."""
        shown = 0
        async with asyncio.timeout(PATIENCE):
            while (left := sum(_name(one) not in self.watch.at for one in dispatches)) > 0:
                if len(dispatches) - left >= shown + _SHOWN:
                    shown = len(dispatches) - left
                    print(f"    {shown} of {len(dispatches)}", flush=True)
                assert process.poll() is None, f"the relayer has ended; it says why in {self.folder}"
                await asyncio.sleep(0.02)
        return [self.watch.at[_name(one)] for one in dispatches]

    def ours(self) -> subprocess.Popen[bytes]:
        """Runs `waybill relayer run`, configured with the network and a key alone."""
        home = self.folder / "ours"
        (home / "deployments").mkdir(parents=True)
        deployment = self.devnet.deployment.model_copy(update={"network": "testnet"})
        (home / "deployments" / "testnet.json").write_text(deployment.to_json())
        environment = environment_of(home) | {
            "WAYBILL_RELAYER_KEY": RELAYER_KEY,
            "WAYBILL_GMPS": "hyperlane",
            "WAYBILL_ATTESTATIONS": json.dumps({"hyperlane": self.announced}),
        }
        command = Path(sys.executable).with_name("waybill")
        with (self.folder / "ours.log").open("wb") as log:
            return subprocess.Popen(
                [command, "relayer", "run", "--network", "testnet"], env=environment, stdout=log, stderr=log
            )

    def hyperlanes(self, waiting: Sequence[Dispatch]) -> subprocess.Popen[bytes]:
        """Runs Hyperlane's relayer, which ignores messages from before its start."""
        given = {
            "chains": hyperlane_chains(self.devnet, self.public),
            "key": ANVIL_KEYS[7],
            "backlog": [
                {"message": f"0x{hyperlane_message(one).hex()}", "dispatchTx": f"0x{one.transaction_hash.hex()}"}
                for one in waiting
            ],
        }
        environment = {**os.environ, "AWS_ENDPOINT_URL_S3": self.public.url, "LOG_LEVEL": "error"}
        with (self.folder / "hyperlane.log").open("wb") as log:
            process = subprocess.Popen(
                [NODE, "hyperlane-relayer.mjs"],
                cwd=INTEROP,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        return process

    def memory(self, process: subprocess.Popen[bytes]) -> float:
        """Returns a relayer's memory in megabytes."""
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def spent(self, process: subprocess.Popen[bytes]) -> tuple[float, int, int]:
        """Returns CPU seconds, HTTP requests and calls so far."""
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        seconds = (int(stat[11]) + int(stat[12])) / _TICKS
        return seconds, sum(one.requests for one in self.proxies), sum(one.rpc_calls for one in self.proxies)


async def _ours(bench: _Bench) -> Delivered:
    """Measures Waybill's relayer, which is stopped while the burst is sent, so that its start-up does not count."""
    process = bench.ours()
    with _ending(process):
        await bench.delivered(await bench.send(1), process)
        process.send_signal(signal.SIGSTOP)
        waiting = await bench.send(BURST)
        before, begun_at = bench.spent(process), time.monotonic()
        process.send_signal(signal.SIGCONT)
        seconds = max(await bench.delivered(waiting, process)) - begun_at
        spent = [(end - start) / BURST for start, end in zip(before, bench.spent(process), strict=True)]
        return _result(bench, waiting, BURST / seconds, spent, await _trickle(bench, process))


async def _hyperlanes(bench: _Bench) -> Delivered:
    """Measures Hyperlane's relayer, which gets the burst as a backlog.

    Time starts with its first delivery, as it is sequential.
    """
    waiting = await bench.send(THEIR_BURST)
    process = bench.hyperlanes(waiting)
    with _ending(process):
        (first,) = await bench.delivered(waiting[:1], process)
        before = bench.spent(process)
        seconds = max(await bench.delivered(waiting, process)) - first
        count = len(waiting) - 1
        spent = [(end - start) / count for start, end in zip(before, bench.spent(process), strict=True)]
        return _result(bench, waiting, count / seconds, spent, await _trickle(bench, process))


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@dataclass(frozen=True, slots=True)
class _Trickled:
    """Results for messages sent one at a time."""

    milliseconds: list[float]  # from the signatures to inclusion
    memory_mb: float  # of the relayer afterwards


async def _trickle(bench: _Bench, process: subprocess.Popen[bytes]) -> _Trickled:
    waits = []
    for _ in range(TRICKLE):
        sent = await bench.send(1)
        signed_at = time.monotonic()
        waits += [1_000 * (included - signed_at) for included in await bench.delivered(sent, process)]
    return _Trickled(waits, bench.memory(process))


def _result(
    bench: _Bench, delivered: Sequence[Dispatch], rate: float, spent: Sequence[float], waits: _Trickled
) -> Delivered:
    cuts = statistics.quantiles(waits.milliseconds, n=20, method="inclusive")
    cpu, requests, calls = spent
    return Delivered(
        delivered_per_s=rate,
        p50_ms=cuts[9],
        p95_ms=cuts[18],
        cpu_ms=1_000 * cpu,
        requests=requests,
        calls=calls,
        gas=bench.watch.gas(delivered) / len(delivered),
        memory_mb=waits.memory_mb,
    )


async def _mine(devnet: Devnet) -> None:
    while True:
        await asyncio.sleep(1)
        for chain in devnet.chains:
            await asyncio.to_thread(mine, chain.url)


@asynccontextmanager
async def _opened(devnet: Devnet, folder: Path) -> AsyncIterator[_Bench]:
    async with AsyncExitStack() as stack:
        chains = await stack.enter_async_context(open_chains(devnet.deployment))
        public = PublicNetwork(World(devnet.deployment, chains))
        await stack.enter_async_context(public.serving())
        await public.announce_validators()
        announced = dict(public.announce)
        await public.announce_validators(bucket="waybill")
        await exchange_hooks(public.world)
        proxies = tuple(FaultProxy(chain.url, 0, 0.0) for chain in devnet.chains)
        urls = [await stack.enter_async_context(one.serving()) for one in proxies]
        seen = replace(
            devnet,
            chains=tuple(replace(chain, url=url) for chain, url in zip(devnet.chains, urls, strict=True)),
            deployment=devnet.deployment.model_copy(
                update={
                    "chains": tuple(
                        chain.model_copy(update={"rpc_urls": (url,)})
                        for chain, url in zip(devnet.deployment.chains, urls, strict=True)
                    )
                }
            ),
        )
        watch = _Watch(devnet.deployment.chain(BETA).rpc_urls[0])
        tasks = [asyncio.create_task(watch.run()), asyncio.create_task(_mine(devnet))]
        try:
            yield _Bench(seen, public, proxies, watch, folder, announced)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _both(devnet: Devnet, folder: Path) -> dict[str, Delivered]:
    async with _opened(devnet, folder) as bench:
        return {
            "waybill": await _ours(bench),
            "hyperlane": await _hyperlanes(bench),
        }


def measure(folder: Path) -> dict[str, Delivered]:
    """Runs both relayers in turn on a new devnet."""
    installed()
    (port,) = free_ports(2)[:1]
    devnet = asyncio.run(devnets.up(home=folder, block_time=0, first_port=port))
    try:
        return asyncio.run(_both(devnet, folder))
    finally:
        devnets.down(home=folder)


def lines(found: Mapping[str, Delivered]) -> list[str]:
    """Returns the results as lines of text."""
    head = f"    {'relayer':10} {'delivered/s':>11} {'p50':>8} {'p95':>8} {'CPU':>8} {'requests':>8} {'calls':>6} {'gas':>8} {'memory':>7}"
    return [head] + [
        f"    {name:10} {one.delivered_per_s:11.1f} {one.p50_ms:5.0f} ms {one.p95_ms:5.0f} ms {one.cpu_ms:5.1f} ms"
        f" {one.requests:8.1f} {one.calls:6.1f} {one.gas:8.0f} {one.memory_mb:4.0f} MB"
        for name, one in found.items()
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        print("\n".join(lines(measure(Path(name)))))
