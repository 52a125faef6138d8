"""A sender chooses on chain how often its messages are tried; the relayer obeys within its bounds, and shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import PROFILES, ROUTER
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, read_view
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process, until
from tests.anvil.test_dead_letters import broken_axelar
from tests.anvil.test_relayer import Traffic, blocks
from tests.anvil.traffic import DAPP, transact

pytestmark = pytest.mark.long

EVERY = bytes(32)
STATE_HASH = 1
BOUNDS = {"WAYBILL_SENDER_CHOICES": '{"max_retries": 4}'}


async def chooses(devnet: Devnet, chains: dict[int, EvmChain], message_id: bytes, *choice: Any) -> None:
    """The dApp's account chooses semantics, idempotency, retries, waits in milliseconds, and whether there is a dead letter."""
    alpha = devnet.deployment.chain("alpha")
    profiles = await read_view(chains[alpha.chain_id], ROUTER, alpha.router, "profiles")
    call = Call(to=profiles, data=PROFILES.encode("chooseDelivery", message_id, (True, *choice)))
    assert (await transact(chains[alpha.chain_id], DAPP, call)).succeeded


async def test_sender_choice_on_chain_is_obeyed_within_bounds(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    waybill, traffic = Waybill(new_home(devnet, tmp_path)), Traffic(devnet, chains)

    async def explained(message: Message) -> dict[str, Any]:
        found = await asyncio.to_thread(waybill.json, "message", "show", f"0x{message.id.hex()}", **BOUNDS)
        return dict(found["guarantee"])

    def dead_letters() -> dict[str, str]:
        return {one["id"]: one["status"] for one in waybill.json("dlq", "list")}

    async with blocks(devnet):
        with process(waybill.home, waybill.home / "relayer.log", WAYBILL_POLICIES="{}", **BOUNDS) as relayer:
            with broken_axelar(devnet):
                await chooses(devnet, chains, EVERY, 0, STATE_HASH, 1, 100, 200, True)
                few = await traffic.send(Gmp.AXELAR)
                many = await traffic.send(Gmp.AXELAR)
                await chooses(devnet, chains, many.id, 0, 0, 1_000, 50, 900_000, False)
                await until(
                    lambda: "dead letter" in relayer.log or "delivery dead" in relayer.log, "its two tries fail"
                )
                promised = await explained(few)
                assert (promised["semantics"], promised["maxRetries"], promised["dlqEnabled"]) == (
                    "AT_LEAST_ONCE",
                    1,
                    True,
                )
                assert (promised["baseBackoffMs"], promised["maxBackoffMs"]) == (100, 200)
                bounded = await explained(many)
                assert (bounded["maxRetries"], bounded["dlqEnabled"]) == (4, False), (
                    "the relayer's bound, and the choice"
                )
                assert (bounded["baseBackoffMs"], bounded["maxBackoffMs"]) == (100, 600_000)
                dead = f"0x{many.id.hex()}"
                await until(
                    lambda: any(dead in line for line in relayer.log.splitlines() if "delivery dead" in line),
                    "the other's five",
                )
            assert relayer.terminate() == 0
    assert dead_letters() == {f"0x{few.id.hex()}/axelar/0": "PENDING_REVIEW"}
    deliveries = {message.id: tries_of(relayer.lines, message) for message in (few, many)}
    assert deliveries == {few.id: 2, many.id: 5}
    failed = [line for line in relayer.lines if line.get("event") == "delivery failed" and line.get("message") == dead]
    shares = [float(str(line["retry_in"])) / (0.1 * 2**number) for number, line in enumerate(failed)]
    assert len(shares) == 4
    assert all(0.89 <= share <= 1.11 for share in shares), "a tenth of jitter at most"
    assert max(abs(share - 1) for share in shares) > 0.005, "and some"


def tries_of(lines: list[dict[str, object]], message: Message) -> int:
    """How many tries of its delivery have failed."""
    mine = [
        line for line in lines if line.get("message") == f"0x{message.id.hex()}" or f"{message.id.hex()}/" in str(line)
    ]
    return sum(line.get("event") in ("delivery failed", "delivery dead") for line in mine)
