"""The demonstration's atomic actions: one that all participants prepare, and another during which a chain is down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.atomic.reader import ActionReader, Coordinator
from bridge.atomic.records import Action, ActionState, Decision, Window
from bridge.devnet.actions import FREEZE, UNFREEZE, Change, begin, is_frozen
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import COORDINATOR_EXAMPLE, Deployment

_HASTY: Final = Window(prepare_ttl=300, decision_ttl=60, max_retries=1, max_backoff=2, lock_ttl=368)
"""Two PREPAREs per participant, then a timeout. A late PREPARE stays valid until the chain is back."""

_ACTS: Final = {FREEZE: "freeze", UNFREEZE: "unfreeze"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """The outcome of an action, as reported by the chains.

    Attributes:
        act: Intended change to the asset.
        action: The action with its participants' states.
        frozen: Whether the asset is frozen, by name of the participant's chain.
    """

    act: int
    action: Action
    frozen: Mapping[str, bool]

    @property
    def text(self) -> str:
        """Returns the intended change and its chains as text."""
        return f"{_ACTS[self.act]} gold on {' and '.join(self.frozen)}"

    @property
    def happened_everywhere_or_nowhere(self) -> bool:
        """Whether the action ended, all participants agree, and the asset on each chain matches the decision.

        The asset was movable on each chain before the action, so it must be movable again after ABORT.
        """
        is_done = self.action.state is ActionState.COMMITTED
        wanted = (self.act == FREEZE) is is_done
        return self.action.agrees and all(frozen is wanted for frozen in self.frozen.values())

    def to_json(self) -> dict[str, Any]:
        """Returns the outcome as plain values."""
        return {
            "actionId": self.action.name,
            "act": _ACTS[self.act],
            "state": self.action.state.name,
            "cause": self.action.cause.name,
            "frozen": dict(self.frozen),
        }


class DemonstratedActions:
    """Begins actions on the example asset and reads their outcome from the coordinator and the participants."""

    def __init__(self, deployment: Deployment, chains: Mapping[int, EvmChain]) -> None:
        """Connects to the coordinator on the first chain and to a participant on each other chain."""
        home, *others = deployment.chains
        self._deployment = deployment
        self._chains = chains
        self._others = others
        self._coordinator = Coordinator(home.chain_id, home.examples[COORDINATOR_EXAMPLE])
        self._reader = ActionReader(deployment, chains, [self._coordinator])
        self._acts: list[int] = []  # by number, from 1

    async def freeze(self) -> int:
        """Begins an action that freezes the asset on all chains, and returns its number."""
        return await self._begin(FREEZE, None)

    async def unfreeze_hastily(self) -> int:
        """Begins an action that unfreezes the asset on all chains within a short window, and returns its number."""
        return await self._begin(UNFREEZE, _HASTY)

    async def is_aborting(self, number: int) -> bool:
        """Returns whether the coordinator decided ABORT."""
        action = await self._reader.at(self._coordinator, number)
        return action is not None and action.decision is Decision.ABORT

    async def is_over(self, number: int) -> bool:
        """Returns whether every participant confirmed the decision to the coordinator."""
        action = await self._reader.at(self._coordinator, number)
        return action is not None and action.state.is_over

    async def outcomes(self) -> list[ActionOutcome]:
        """Returns the outcome of each action, in order."""
        frozen = {there.name: await is_frozen(self._chains, there) for there in self._others}
        outcomes = []
        for number, act in enumerate(self._acts, start=1):
            action = await self._reader.at(self._coordinator, number)
            assert action is not None, "a devnet's chain is never reorganised"
            action = await self._reader.with_participants(action)
            outcomes.append(ActionOutcome(act=act, action=action, frozen=frozen))
        return outcomes

    async def _begin(self, act: int, window: Window | None) -> int:
        await begin(self._deployment, self._chains, [Change(chain, act) for chain in self._others], window=window)
        self._acts.append(act)
        return len(self._acts)
