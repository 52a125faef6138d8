"""While one chain is down, commands do what the others allow, and say which one is silent and what is unknown without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.store import Store
from tests.anvil.command import Ended, Waybill, new_home
from tests.anvil.devnets import silent
from tests.anvil.relayers import Process
from tests.anvil.rpc import rpc
from tests.anvil.test_relayer import Traffic
from tests.waiting import PATIENCE

FAILED, PENDING = 1, 4
BETA_IS_SILENT = (
    "beta does not answer: what it has received and executed is known only as far as relayer and index have seen"
)
NOT_THERE = "does not respond, but this operation sends a transaction there"


@contextmanager
def without(devnet: Devnet, name: str) -> Iterator[None]:
    """While this holds, a chain answers nothing."""
    with silent(next(chain.pid for chain in devnet.chains if chain.name == name)):
        yield


@pytest.mark.long
def test_message_is_handled_while_its_destination_is_down(devnet: Devnet, tmp_path: Path) -> None:
    waybill = Waybill(new_home(devnet, tmp_path))

    def said(*arguments: str, code: int = 0) -> Ended:
        ended = waybill(*arguments, "--json")
        assert ended.code == code, ended.err + ended.out
        return ended

    with without(devnet, "beta"):
        sent = said("send", "--payload", "hello", "--gmps", "hyperlane", "--wait", "--timeout", "1", code=PENDING)
        assert sent.value["executed"] is None
        assert "beta does not answer: its recipient's code and demand are not checked" in sent.err
        assert "beta does not answer: whether it was executed within 1 s is unknown" in sent.err
        message_id = sent.value["messageId"]
        about = ("message", "show", message_id)
        with ThreadPoolExecutor() as threads:
            explaining = threads.submit(said, *about)
            executing = threads.submit(said, "message", "execute", message_id, code=FAILED)
            unknown = threads.submit(said, "message", "show", "0x" + "ab" * 32, code=FAILED)
        explained = explaining.result().value
        assert (explained["status"], explained["unknown"]) == ("ROUTED", [BETA_IS_SILENT])
        assert BETA_IS_SILENT in explained["reason"]
        assert {"retry", "cancel"} <= {act["act"] for act in explained["acts"]}
        assert f"beta {NOT_THERE}" in executing.result().err
        assert "beta did not answer" in unknown.result().err, "it may be beta's"
        retried = said("message", "retry", message_id, "--gmps", "wormhole")
        assert (retried.value["attempt"], retried.value["gmps"]) == (1, ["wormhole"])
        assert BETA_IS_SILENT in retried.err
        assert BETA_IS_SILENT in said("message", "cancel", message_id, "--gmps", "hyperlane").err
    after = said(*about).value
    assert (after["unknown"], after["acts"]) == ([], []), "its source has taken the cancellation"
    assert after["next"].startswith("wait for its cancellation")


@pytest.mark.long
def test_gmp_is_paused_where_chains_answer(devnet: Devnet, tmp_path: Path) -> None:
    waybill = Waybill(new_home(devnet, tmp_path))
    with without(devnet, "beta"):
        paused = waybill("gmp", "pause", "ccip", "--json")
        roles = waybill("role", "show", "--json")
        resumed = waybill("gmp", "resume", "ccip", "--json")
        with without(devnet, "alpha"):
            none = waybill("gmp", "pause", "ccip", "--safe", "0x" + "11" * 20, "--json")
    assert (paused.code, roles.code, resumed.code) == (FAILED, 0, FAILED)
    assert none.code == FAILED
    assert "none of the chains responded (alpha, beta), so no batch was written" in none.err
    alpha, beta = paused.value["chains"]
    assert alpha["transactions"], "what can be stopped is stopped"
    assert alpha["pausedUntil"]
    assert (beta["transactions"], "pausedUntil" in beta) == ({}, False)
    assert "beta does not answer: nothing was sent there; run it again later with --chains beta" in beta["error"]
    assert [one["chain"] for one in roles.value["chains"]] == ["alpha"]
    assert "beta does not answer: its roles are unknown" in roles.err
    assert resumed.value["chains"][0]["pausedUntil"] is None


async def test_relayer_starts_while_a_chain_is_down(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    alpha, beta = devnet.deployment.chains
    home, traffic = new_home(devnet, tmp_path), Traffic(devnet, chains)
    message = await traffic.send(Gmp.HYPERLANE)

    def states() -> list[OutboxState]:
        return [entry.state for entry in store.outbox.entries(message.id)]

    url = f"sqlite:///{home}/.waybill/devnet/bridge.db"
    with killed(home, "relayer", "run") as start, closing(Store(url)) as store:
        with without(devnet, "beta"):
            relayer = start()
            await relayer.is_at_work()
            await eventually(lambda: states() != [], alpha)
            assert relayer.is_running, relayer.log
        down = [line for line in relayer.lines if str(line["event"]).startswith("no endpoint responds")]
        assert [(line["chain"], line["endpoints"]) for line in down] == [
            (f"beta ({beta.chain_id})", list(beta.rpc_urls))
        ]
        await eventually(lambda: states() == [OutboxState.DELIVERED], alpha, beta)
        assert relayer.terminate() == 0


async def eventually(said: Callable[[], Any], *mining: ChainDeployment) -> Any:
    """Waits for something, while some chains go on making blocks as real ones do."""
    deadline = time.monotonic() + PATIENCE
    while not (found := said()):
        assert time.monotonic() < deadline, "it did not happen in time"
        for chain in mining:
            rpc(chain.rpc_urls[0], "evm_increaseTime", 2)
            rpc(chain.rpc_urls[0], "evm_mine")
        await asyncio.sleep(0.1)
    return found


@contextmanager
def killed(home: Path, *command: str, **environment: str) -> Iterator[Callable[[], Process]]:
    """Starts a command when it is called; ends it in the end."""
    started: list[Process] = []

    def start() -> Process:
        started.append(Process(home, home / "log", *command, **environment))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.kill()
