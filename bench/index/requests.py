"""(c) The latency from an event to the resulting retry request, on two anvil chains that mine instantly."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bridge.protocol.message import Message
from bridge.protocol.numbers import percentile
from indexer.model.settings import SourceLimits, StallPolicy
from tests.spark.chain import anvil_chain
from tests.spark.story import World, log_of
from tests.unit.indexer.world import received

_WARM_UP: Final = 5
STALL_AFTER: Final = 60  # seconds of block time
_LOOK_EVERY: Final = 0.002  # seconds
_PATIENCE: Final = 600.0  # seconds: a start on a busy machine takes minutes


def request_latency(spark: SparkSession, folder: Path, events: int) -> dict[str, int]:
    """Returns percentiles of the milliseconds from sending a receipt's transaction, mined at once, to the request.

    The message has one of two receipts when that block, 61 seconds later by the chain's clock, makes it overdue. The
    chains are polled at a devnet's rate.
    """
    policy = StallPolicy(stall_after=STALL_AFTER, max_lag=1_000_000, requests_per_lane_minute=1_000_000)
    taken = []
    with anvil_chain(31337) as alpha, anvil_chain(31338) as beta:
        world = World(alpha, beta, folder)
        with world.indexing(spark, stall=policy, limits=SourceLimits(poll_interval=0.05)):
            for position in range(_WARM_UP + events):
                seconds = one_request(world)
                if position >= _WARM_UP:
                    taken.append(round(1000 * seconds))
    taken.sort()
    return {"p50": percentile(taken, 0.5), "p95": percentile(taken, 0.95), "events": len(taken)}


def one_request(world: World) -> float:
    """Returns the seconds from the transaction that makes a new message overdue to its retry request."""
    message = indexed_message(world)
    begun = time.monotonic()
    make_overdue(world, message)
    until_requested(world, message)
    return time.monotonic() - begun


def indexed_message(world: World) -> Message:
    """Sends a new message and waits until the store has it."""
    message = world.new_message(quorum=2, sent_at=world.beta.time())
    world.alpha.rpc("evm_setNextBlockTimestamp", max(world.beta.time(), world.alpha.time() + 1))
    world.send(message, gmps=0b11)
    world.until(world.store_is_there, "the store is there")
    _until_found(world, "select 1 from messages where message_id = ?", message)
    return message


def make_overdue(world: World, message: Message) -> None:
    """Delivers one of a message's two receipts, in a block after its deadline."""
    late = max(world.alpha.time(), world.beta.time()) + STALL_AFTER + 1
    world.beta.rpc("evm_setNextBlockTimestamp", late)
    world.beta.emit(log_of(received(message, 1)))


def until_requested(world: World, message: Message) -> None:
    """Waits for a message's retry request."""
    _until_found(world, "select 1 from retry_requests where message_id = ?", message)


def _until_found(world: World, statement: str, message: Message) -> None:
    deadline = time.monotonic() + _PATIENCE
    with closing(sqlite3.connect(world.settings().folder.store_url.removeprefix("sqlite:///"))) as store:
        while store.execute(statement, (message.id,)).fetchone() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"after {_PATIENCE} s still nothing from: {statement}")
            time.sleep(_LOOK_EVERY)
