"""Atomic actions over three real chains: all apply them or none does, and a participant that stays behind is told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bridge import devnet as devnets
from bridge.atomic.reader import ActionReader
from bridge.atomic.records import Action, ActionState, BranchState, Cause, Decision, Level, Window
from bridge.client import RefusedError
from bridge.dead_letters.decisions import DecisionError
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, account
from bridge.devnet.actions import FREEZE, UNFREEZE, Change, begin, is_frozen
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain, open_chains
from bridge.queries.dead_letters import opened_value
from bridge.records.dead_letters import Decision as LetterDecision
from bridge.records.dead_letters import LetterStatus, action_letter_id
from bridge.service.dead_letter_service import open_review
from bridge.service.relayer_service import RelayerService, SystemClock, open_relayer
from tests.anvil.command import Waybill
from tests.anvil.rpc import free_ports, rpc
from tests.anvil.test_relayer import blocks, settings
from tests.waiting import eventually_answered

pytestmark = pytest.mark.long

HASTY = {"actions": {"advance": True}}
SHORT = Window(prepare_ttl=120, decision_ttl=30, max_retries=1, max_backoff=3, lock_ttl=200)


@dataclass(frozen=True)
class World:
    """Three chains, of which the first has the coordinator, and the command on them."""

    devnet: Devnet
    chains: dict[int, EvmChain]
    waybill: Waybill
    folder: Path

    @property
    def reader(self) -> ActionReader:
        deployment = self.devnet.deployment
        return ActionReader(deployment, self.chains, settings(self.folder).actions.named(deployment))

    async def begin(
        self, window: Window | None = None, level: Level = Level.ALL_OR_NOTHING, act: int = FREEZE
    ) -> bytes:
        changes = [Change(chain, act) for chain in self.devnet.deployment.chains[1:]]
        return await begin(self.devnet.deployment, self.chains, changes, level=level, window=window)

    async def frozen(self) -> list[bool]:
        return [await is_frozen(self.chains, chain) for chain in self.devnet.deployment.chains[1:]]

    async def action(self, action_id: bytes) -> Action:
        found = await self.reader.find(action_id)
        assert found is not None
        return found

    async def here(self, action_id: bytes) -> Action:
        """An action as its coordinator has it. No participant is asked."""
        for number in range(1, await self.reader.count(self.reader.coordinators[0]) + 1):
            found = await self.reader.at(self.reader.coordinators[0], number)
            if found is not None and found.id == action_id:
                return found
        raise AssertionError(f"no action has the id 0x{action_id.hex()}")

    async def until(self, action_id: bytes, state: ActionState) -> Action:
        await eventually_answered(lambda: self._is(action_id, state))
        return await self.action(action_id)

    async def _is(self, action_id: bytes, state: ActionState) -> bool:
        return (await self.action(action_id)).state is state

    @asynccontextmanager
    async def relaying(self, silent: str = "", **changes: object) -> AsyncIterator[RelayerService]:
        """Runs the relayer. A chain that will be silent makes no blocks."""
        made = settings(self.folder, **{**HASTY, **changes})
        alive = replace(self.devnet, chains=tuple(one for one in self.devnet.chains if one.name != silent))
        async with open_relayer(self.devnet.deployment, made, devnet_attesters) as bridge, blocks(alive):
            task = asyncio.create_task(bridge.run())
            try:
                yield bridge
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(scope="module")
def three_chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    home = tmp_path_factory.mktemp("devnet")
    try:
        yield asyncio.run(devnets.up(home=home, chains=3, block_time=0, first_port=free_ports(3)[0]))
    finally:
        devnets.down(home=home)


@pytest.fixture
async def world(three_chains: Devnet, tmp_path: Path) -> AsyncIterator[World]:
    snapshots = {chain.url: rpc(chain.url, "evm_snapshot") for chain in three_chains.chains}
    async with open_chains(three_chains.deployment) as chains:
        yield World(three_chains, chains, Waybill(three_chains.deployments_file.parent.parent), tmp_path)
    for url, snapshot in snapshots.items():
        assert rpc(url, "evm_revert", snapshot)


async def test_an_action_that_everybody_prepares_is_applied_everywhere(world: World) -> None:
    async with world.relaying():
        action_id = await world.begin()
        action = await world.until(action_id, ActionState.COMMITTED)
        await eventually_answered(lambda: agreed(world, action_id))
    assert action.cause is Cause.ALL_PREPARED
    assert await world.frozen() == [True, True]
    shown = await asyncio.to_thread(world.waybill.json, "action", "show", action.name)
    assert [part["says"] for part in shown["participants"]] == ["APPLIED", "APPLIED"]
    assert {message["status"] for part in shown["participants"] for message in part["messages"]} == {"EXECUTED"}
    assert (shown["next"], shown["findings"]) == ([], [])
    listed = await asyncio.to_thread(world.waybill.json, "action", "list")
    assert [(one["actionId"], one["state"]) for one in listed] == [(action.name, "COMMITTED")]


async def test_best_effort_end_is_reported_by_hand_or_relayer(world: World) -> None:
    async with world.relaying(actions={"advance": False}):
        by_hand = await world.begin(SHORT, Level.BEST_EFFORT)
        name = f"0x{by_hand.hex()}"
        await asyncio.to_thread(world.waybill.json, "action", "reconcile", name)
        await eventually_answered(lambda: unreported(world, by_hand, 2))
        shown = await asyncio.to_thread(world.waybill.json, "action", "show", name)
        assert "nobody insists" in shown["meaning"]
        commands = [act["command"] for act in shown["next"] if act["act"] == "report"]
        for command in commands:
            await asyncio.to_thread(world.waybill.json, *command.split()[1:])
        assert len(commands) == 2
        await eventually_answered(lambda: can_settle(world, by_hand))
        await asyncio.to_thread(world.waybill.json, "action", "reconcile", name)
        await world.until(by_hand, ActionState.COMMITTED)
    async with world.relaying():
        await world.until(await world.begin(SHORT, Level.BEST_EFFORT, UNFREEZE), ActionState.COMMITTED)


async def unreported(world: World, action_id: bytes, count: int) -> bool:
    return len((await world.action(action_id)).unreported) == count


async def can_settle(world: World, action_id: bytes) -> bool:
    return all(branch.can_settle for branch in (await world.action(action_id)).branches)


async def agreed(world: World, action_id: bytes) -> bool:
    return (await world.action(action_id)).agrees


async def test_action_aborts_when_a_chain_stays_down(world: World) -> None:
    async with world.relaying(deny_chains=["gamma"]) as bridge:
        action_id = await world.begin(SHORT)
        await eventually_answered(lambda: holds(world, action_id))
        assert (await world.frozen())[0] is False, "prepared is not applied"
        await eventually_answered(lambda: decided(world, action_id))
        action = await world.action(action_id)
        attempts = bridge.store.observations.attempts(action.branches[1].prepare_id)
    assert action.cause is Cause.TIMED_OUT
    assert len(attempts) == 2, "it is retried within its budget before the coordinator gives up"
    async with world.relaying():
        action = await world.until(action_id, ActionState.ABORTED)
        await eventually_answered(lambda: agreed(world, action_id))
    assert await world.frozen() == [False, False]
    assert not any(branch.participation and branch.participation.locked_until for branch in action.branches)


async def decided(world: World, action_id: bytes) -> bool:
    return (await world.action(action_id)).decision is Decision.ABORT


async def holds(world: World, action_id: bytes) -> bool:
    told = (await world.action(action_id)).branches[0].participation
    return told is not None and told.locked_until > 0 and told.state is BranchState.PREPARED


async def test_lagging_participant_gets_a_letter_and_blocks_actions(world: World) -> None:
    async with world.relaying(deny_chains=["gamma"]) as bridge:
        action_id = await world.begin(SHORT, Level.GUARANTEED)
        action = await world.until(action_id, ActionState.DIVERGED)
        dead_letters = bridge.dead_letter_service.dead_letters
        event_id = action_letter_id(action_id, 1)
        await eventually_answered(lambda: entered(bridge, event_id))
        document = dead_letters.history(event_id)[0].document
        assert document is not None
        assert document["action"] == {
            **document["action"],
            "actionId": action.name,
            "decision": "COMMIT",
            "knownToCoordinator": "NONE",
            "knownToParticipant": "NONE",
        }
        assert document["messageId"] == f"0x{action.branches[1].decision_id.hex()}"
        assert document["failureHistory"][0]["disposition"] == "DIVERGE"
        with pytest.raises(RefusedError, match="RollbackIncomplete"):
            await world.begin()
        review = open_review(
            world.devnet.deployment,
            world.chains,
            bridge.store,
            log=dead_letters,
            settings=settings(world.folder),
            clock=SystemClock(),
            operator=account(DEPLOYER_KEY),
        )
        opened = opened_value(await review.open(event_id))
        assert opened["next"] == f"reconcile: `waybill action reconcile {action.name} --branch 1`"
        with pytest.raises(DecisionError, match="whose decision stands"):
            await review.decide(event_id, LetterDecision.ABANDON, "it takes too long")

        stuck = await asyncio.to_thread(world.waybill, "action", "show", action.name, "--json")
        assert stuck.code == 1, "a script sees that the chains differ"
        command = next(act["command"] for act in stuck.value["next"] if act["act"] == "reconcile")
        assert command == f'waybill action reconcile {action.name} --branch 1 --evidence "…"'
        asked = ("action", "reconcile", action.name, "--branch", "1")
        refused = await asyncio.to_thread(world.waybill, *asked, "--key", DEPLOYER_KEY)
        assert (refused.code, "vouch" in refused.err) == (1, True), refused.err
        told = (*asked, "--evidence", "gamma is gone for good")
        stranger = await asyncio.to_thread(world.waybill, *told, "--key", DAPP_KEY)
        assert (stranger.code, "OwnableUnauthorizedAccount" in stranger.err) == (1, True), stranger.err
        await asyncio.to_thread(world.waybill.json, *told, "--key", DEPLOYER_KEY)
        await world.until(action_id, ActionState.COMMITTED)
        await eventually_answered(lambda: closed(bridge, event_id))
    assert await world.frozen() == [True, False]
    await world.begin(SHORT)


async def entered(bridge: RelayerService, event_id: str) -> bool:
    return bridge.dead_letter_service.dead_letters.letter(event_id) is not None


async def closed(bridge: RelayerService, event_id: str) -> bool:
    letter = bridge.dead_letter_service.dead_letters.letter(event_id)
    return letter is not None and letter.status is LetterStatus.RECOVERED


async def test_unknown_action_is_named_and_abort_by_hand_works(world: World) -> None:
    unknown = await asyncio.to_thread(world.waybill, "action", "show", "0x" + "ab" * 32)
    assert unknown.code == 3
    action_id = await world.begin()
    name = f"0x{action_id.hex()}"
    sent = await asyncio.to_thread(world.waybill.json, "action", "reconcile", name)
    assert [step["step"] for step in sent["steps"]] == [
        "send PREPARE to participant 0",
        "send PREPARE to participant 1",
    ]
    await asyncio.to_thread(world.waybill.json, "action", "abort", name)
    action = await world.action(action_id)
    assert (action.state, action.cause) == (ActionState.ABORTING, Cause.CANCELLED)
    again = await asyncio.to_thread(world.waybill, "action", "abort", name)
    assert (again.code, "is final, so" in again.err) == (1, True), again.err
    reconciled = await asyncio.to_thread(world.waybill, "action", "reconcile", name, "--branch", "0")
    assert (reconciled.code, "has not diverged" in reconciled.err) == (1, True), reconciled.err
