"""Measures the tripwire and writes `build/bench/trust.json`.

Forgeries are made on real anvil chains with blocks of 2 s, through endpoints of which a tenth of the answers fail. A forgery
counts from the moment at which chain data alone prove it: the destination's block with the receipt is there, and the source's
final block covers it. `p99_blocks` counts the destination's blocks from then on, up to the one with the pause; 1 is the next.
The destination's blocks come half a block after the source's, so that the next one is 1 s away. How long the pause takes to
reach the destination's pool is printed too: with any other distance, that decides whether it is in the next block.
Configurations are weakened by hand on another devnet, as in `tests/anvil/weakened.py`: one counts as found if its findings are
all that is wrong. Honest messages are sent in the simulated world of `tests/support/simulation/tripwire.py`. What
`waybill quote` promises is tried on the held-out half of histories of `tests/support/simulation/lane_history.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import math
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from aiohttp import ClientSession
from eth_utils import keccak

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.domain.gmp_choices import Goal, choices
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from tests.anvil.devnets import new_devnet
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.forgery import forgery, message_from
from tests.anvil.running_tripwire import watching
from tests.anvil.weakened import WEAKENED, Network
from tests.support.simulation.lane_history import GMPS, history
from tests.support.simulation.time import run_in_virtual_time
from tests.support.simulation.tripwire import FAULTS, honest_history

ROOT: Final = Path(__file__).resolve().parent.parent
RESULT: Final = ROOT / "build" / "bench" / "trust.json"

BLOCK: Final = 2  # seconds
FAILING: Final = 0.1  # of all answers
ENDPOINTS: Final = 3
AGREEMENT: Final = 2
SKEW: Final = 1  # seconds
PAUSE: Final = 60  # seconds: the shortest, so that the router's allowance lasts for all forgeries
PATIENCE: Final = 60.0  # seconds for one forgery
MESSAGES_OF_A_WORLD: Final = 1_000
HONEST: Final = ROOT / "build" / "bench" / "trust-honest.jsonl"
HISTORY: Final = 20_000  # messages of a lane, for the backtest: 139 days
MEMORY: Final = Path("/dev/shm")  # noqa: S108  # a thousand histories write much that nobody keeps
SHARES: Final = (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0))

T = TypeVar("T", int, float)


@dataclass(slots=True)
class Heads:
    """When each block of a chain was first seen, by a monotonic clock."""

    seen: dict[int, float] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)  # Unix seconds
    head: int = -1

    def first(self, number: int) -> float | None:
        """When a block was there."""
        return self.seen.get(number)


class Rpc:
    """One chain, asked directly."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(self, method: str, *params: Any) -> Any:
        """The result of a request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with self._session.post(self._url, json=body) as answer:
            document = await answer.json()
        if "error" in document:
            raise RuntimeError(f"{method}: {document['error']}")
        return document["result"]


async def follow(rpc: Rpc, heads: Heads) -> None:
    """Notes each block as it comes."""
    while True:
        block = await rpc("eth_getBlockByNumber", "latest", False)
        number = int(block["number"], 16)
        if number > heads.head:
            now = time.monotonic()
            for missed in range(heads.head + 1, number + 1):
                heads.seen[missed] = now
                heads.times[missed] = int(block["timestamp"], 16) - BLOCK * (number - missed)
            heads.head = number
        await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Forgery:
    """One lie, and how long it took."""

    paused: bool
    blocks: int | None = None  # of the destination, from the proof to the pause
    seconds: float | None = None
    to_pool: float | None = None  # seconds from the proof until a node of the destination had the pause


class Bench:
    """Lies on one destination, over one GMP after the other."""

    def __init__(self, devnet: Devnet, session: ClientSession) -> None:
        self.source, self.destination = devnet.deployment.chains[:2]
        self._source = Rpc(session, self.source.rpc_urls[0])
        self._destination = Rpc(session, self.destination.rpc_urls[0])
        self.sources, self.destinations = Heads(), Heads()
        self._pooled: dict[
            str, tuple[int, float]
        ] = {}  # by transaction: the GMP that it pauses, and when it was first seen
        self._nonces = count(10**6)
        self._sending: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def follow(self) -> None:
        """Notes both chains' blocks, and pauses that wait for one, until it is cancelled."""
        await asyncio.gather(
            follow(self._source, self.sources), follow(self._destination, self.destinations), self._follow_pool()
        )

    async def _follow_pool(self) -> None:
        selector = f"0x{ROUTER.selector('pauseGmp').hex()}"
        while True:
            content = await self._destination("txpool_content")
            for transactions in (*content["pending"].values(), *content["queued"].values()):
                for one in transactions.values():
                    if one["input"].startswith(selector) and one["hash"] not in self._pooled:
                        self._pooled[one["hash"]] = int(one["input"][10:74], 16), time.monotonic()
            await asyncio.sleep(0.05)

    async def set_apart(self) -> None:
        """Has the destination's blocks come half a block after the source's."""
        await self._source("evm_setIntervalMining", BLOCK)
        await asyncio.sleep(BLOCK / 2)
        await self._destination("evm_setIntervalMining", BLOCK)

    async def lie(self, gmp: Gmp) -> Forgery:
        """Has the GMP's adapter hand over what nobody sent, and waits for the pause; ends it as the owner would."""
        here = self.destination
        adapter, data = forgery(message_from(self.source, here, next(self._nonces)), here, gmp)
        receipt = await self._transact(adapter, data)
        assert receipt["status"] == "0x1", f"the lie over {gmp.label} was refused"
        block = int(receipt["blockNumber"], 16)
        deadline = time.monotonic() + PATIENCE
        while (paused := await self._paused_in(gmp, block)) is None or paused not in self.destinations.seen:
            if time.monotonic() > deadline:
                return Forgery(paused=False)
            await asyncio.sleep(0.1)
        proven, seen = self._proven_at(block), self.destinations.seen
        after = sorted(at for number, at in seen.items() if number <= paused and at > proven)
        await self._transact(account(DEPLOYER_KEY).address, ROUTER.encode("endGmpPause", int(gmp)))
        pooled = (at for one, at in self._pooled.values() if one == gmp and at > seen[block])
        sent = min([*pooled, seen[paused]])
        return Forgery(True, len(after), after[-1] - proven if after else 0.0, max(0.0, sent - proven))

    def _proven_at(self, block: int) -> float:
        """When the data of both chains first proved the lie, Unix seconds."""
        seen = self.destinations.seen[block]
        height = max(number for number, at in self.sources.seen.items() if at <= seen)
        covers = self.destinations.times[block] + SKEW
        final = next(n for n in count(height) if self.sources.times.get(n, covers) >= covers)
        confirmed = self.sources.first(final + self.source.confirmations)
        assert confirmed is not None
        return max(seen, confirmed)

    async def _paused_in(self, gmp: Gmp, since: int) -> int | None:
        """The block in which the router said that the GMP is paused."""
        topics = ["0x" + keccak(text="GmpPauseSet(uint8,uint48)").hex(), f"0x{int(gmp):064x}"]
        wanted = {"fromBlock": hex(since), "address": self.destination.router, "topics": topics}
        logs = await self._destination("eth_getLogs", wanted)
        return int(logs[0]["blockNumber"], 16) if logs else None

    async def _transact(self, sender: str, data: bytes) -> dict[str, Any]:
        rpc = self._destination
        async with self._sending[sender]:  # a node gives the same nonce to two transactions at once
            sent = await self._send(sender, data)
        while (receipt := await rpc("eth_getTransactionReceipt", sent)) is None:  # noqa: ASYNC110  # a chain tells nobody
            await asyncio.sleep(0.05)
        found: dict[str, Any] = receipt
        return found

    async def _send(self, sender: str, data: bytes) -> str:
        rpc = self._destination
        await rpc("anvil_setBalance", sender, hex(10**20))
        await rpc("anvil_impersonateAccount", sender)
        fields = {"from": sender, "to": self.destination.router, "data": f"0x{data.hex()}", "gas": hex(3_000_000)}
        sent: str = await rpc("eth_sendTransaction", fields)
        return sent


async def forge(devnet: Devnet, file: Path, wanted: int) -> list[Forgery]:
    """So many lies, over all GMPs at the same time."""
    async with AsyncExitStack() as stack:
        endpoints = {}
        for chain in devnet.deployment.chains:
            proxies = [FaultProxy(chain.rpc_urls[0], seed, FAILING) for seed in range(ENDPOINTS)]
            endpoints[chain.name] = [await stack.enter_async_context(proxy.serving()) for proxy in proxies]
        running = watching(
            devnet.deployment,
            file,
            agreement=AGREEMENT,
            endpoints=endpoints,
            pause=PAUSE,
            max_clock_skew=SKEW,
        )
        await stack.enter_async_context(running)
        session = await stack.enter_async_context(ClientSession())
        bench = Bench(devnet, session)
        await bench.set_apart()
        following = asyncio.create_task(bench.follow())
        try:
            gmps = sorted(bench.destination.gmp_numbers)
            done: list[Forgery] = []
            while len(done) < wanted:
                batch = gmps[: wanted - len(done)]
                # One after the other within a block, so that lies fall on all its moments.
                done += await asyncio.gather(
                    *(_later(bench, gmp, BLOCK * n / len(gmps)) for n, gmp in enumerate(batch))
                )
                print(f"{len(done)} forgeries, {sum(one.paused for one in done)} paused", flush=True)
            return done
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _later(bench: Bench, gmp: Gmp, seconds: float) -> Forgery:
    await asyncio.sleep(seconds)
    return await bench.lie(gmp)


def _be_silent() -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.ReturnLoggerFactory(),
    )


def play_honest(seed: int) -> dict[str, Any]:
    """One world without a lie: its figures, for JSON."""
    _be_silent()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        history = honest_history(seed, Path(folder) / "tripwire.db", messages=MESSAGES_OF_A_WORLD)
        before, _ = run_in_virtual_time(history)
    return {
        "seed": seed,
        "honest": before.honest,
        "receipts": before.receipts,
        "pauses": before.pauses + len(before.incidents),
        "faults": dict(before.faults),
    }


def honest(messages: int, processes: int) -> list[dict[str, Any]]:
    """So many honest messages, in as many worlds as it takes. What an interrupted run has done is not done again."""
    folders = ("bridge/tripwire", "bridge/evm", "bridge/rpc", "tests/support/simulation")
    code = sorted(file for folder in folders for file in (ROOT / folder).glob("*.py"))
    fingerprint = keccak(b"".join(file.read_bytes() for file in code)).hex()[:16]
    HONEST.parent.mkdir(parents=True, exist_ok=True)
    lines = HONEST.read_text().splitlines() if HONEST.exists() else []
    done = [one for one in map(json.loads, lines) if one["code"] == fingerprint]
    known, sent = {one["seed"] for one in done}, sum(one["honest"] for one in done)
    seeds = [seed for seed in range(math.ceil(messages / MESSAGES_OF_A_WORLD)) if seed not in known]
    pool = multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=4)
    with pool, HONEST.open("a") as file:
        for outcome in pool.imap_unordered(play_honest, seeds):
            done.append(outcome)
            file.write(json.dumps(outcome | {"code": fingerprint}) + "\n")
            file.flush()
            sent += outcome["honest"]
            print(f"{sent} honest messages, {sum(one['pauses'] for one in done)} false pauses", flush=True)
    return done


def percentile(values: list[T], share: float) -> T | None:
    """The value that this share of them does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else None


def weaken() -> tuple[int, int]:
    """How many configurations were weakened by hand, and in how many of them all that is wrong was found, and nothing else."""
    found = 0
    with tempfile.TemporaryDirectory() as folder, new_devnet(Path(folder)) as devnet:
        network = Network.hardened(devnet.deployment)
        assert not any(direction.findings for direction in network.judged()), "the honest network has a finding"
        for case in WEAKENED:
            with network.restored():
                case.change(network.beta)
                there, _ = network.judged()
                is_found = {(one.code, one.gmp) for one in there.findings} == case.codes
            found += is_found
            print(f"{case.change.__name__:24} {'found' if is_found else 'NOT FOUND'}", flush=True)
    return len(WEAKENED), found


def backtest(seeds: Iterable[int], messages: int) -> tuple[int, int]:
    """How many promises the first halves of made-up histories give, and how many of them the other halves keep.

    For each goal the cheapest choice is taken that meets it, at prices that are drawn. A promise is kept if the goal's share of
    the other half's messages is in time.
    """
    promised = kept = 0
    for seed in seeds:
        dice, seen = random.Random(seed), history(seed, messages)
        prices = {gmp: dice.randrange(1, 100) for gmp in GMPS}
        first, second = seen[: messages // 2], seen[messages // 2 :]
        for within, share, max_corrupt in itertools.product((300, 900, 3_600), (0.9, 0.95, 0.99), (0, 1)):
            goal = Goal(within, share, max_corrupt)
            compared = choices(first, GMPS, goal, least_quorum=1, now=first[-1].at + within)
            shown = [one for one in compared if one.meets]
            if not shown:
                continue
            chosen = min(shown, key=lambda one: sum(prices[gmp] for gmp in one.gmps))
            held_out = choices(second, chosen.gmps, goal, least_quorum=chosen.quorum, now=second[-1].at + within)
            fared = next(one for one in held_out if (one.gmps, one.quorum) == (chosen.gmps, chosen.quorum))
            promised += 1
            kept += fared.kept >= share * fared.messages
    return promised, kept


def main() -> None:
    """Measures, prints and writes the figures; what was not measured is null."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forgeries", type=int, default=200, help="on real chains (default: %(default)s)")
    parser.add_argument("--no-weakened", action="store_true", help="weaken no configuration")
    parser.add_argument("--histories", type=int, default=60, help="for the backtest (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=100_000, help="honest ones (default: %(default)s)")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="for honest messages (default: %(default)s)"
    )
    chosen = parser.parse_args()
    _be_silent()
    figures: dict[str, Any] = dict.fromkeys(
        (
            "forgeries",
            "paused",
            "p50_blocks",
            "p99_blocks",
            "honest_messages",
            "false_pauses",
            "weak_configs",
            "found",
            "backtest_promised",
            "backtest_kept",
        )
    )
    if chosen.forgeries:
        with tempfile.TemporaryDirectory() as folder, new_devnet(Path(folder), block_time=BLOCK) as devnet:
            lies = asyncio.run(forge(devnet, Path(folder) / "tripwire.db", chosen.forgeries))
        blocks = [one.blocks for one in lies if one.blocks is not None]
        seconds = sorted(one.seconds for one in lies if one.seconds is not None)
        figures |= {
            "forgeries": len(lies),
            "paused": sum(one.paused for one in lies),
            "p50_blocks": percentile(blocks, 0.5),
            "p99_blocks": percentile(blocks, 0.99),
        }
        to_pool = sorted(one.to_pool for one in lies if one.to_pool is not None)
        for name, values in (("pause", seconds), ("the destination's pool", to_pool)):
            shares = (
                ", ".join(f"{name} {percentile(values, share):.2f}" for name, share in SHARES) if values else "none"
            )
            print(f"seconds from proof to {name}: {shares}")
        print(f"paused in so many blocks: {dict(sorted(Counter(blocks).items()))}")
    if not chosen.no_weakened:
        figures["weak_configs"], figures["found"] = weaken()
    if chosen.messages:
        outcomes = honest(chosen.messages, chosen.processes)
        figures |= {
            "honest_messages": sum(one["honest"] for one in outcomes),
            "false_pauses": sum(one["pauses"] for one in outcomes),
        }
        faults = sum((Counter(one["faults"]) for one in outcomes), Counter())
        for name in FAULTS:
            print(f"{name:34} {faults[name]}")
        assert all(faults[name] for name in FAULTS), "a fault never happened: send more messages"
    figures["backtest_promised"], figures["backtest_kept"] = backtest(range(chosen.histories), HISTORY)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    for name, value in figures.items():
        print(f"{name:18} {'not measured' if value is None else value}")


if __name__ == "__main__":
    main()
