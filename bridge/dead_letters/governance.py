"""What governance is told by message: an escalation, an execution of its own that failed for good, and a log that was changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import encode
from eth_utils import decode_hex

from bridge.client import RouteRequest
from bridge.dead_letters.channels import INTEGRITY, Notice
from bridge.dead_letters.settings import DEFAULT_WEI_PER_DAY
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.relayer.own_messages import OwnMessages

_TTL: Final = 600  # seconds
_PURSE: Final = "governance"
_LONGEST: Final = 4_000  # characters of what is told
_GAS: Final = 200_000  # for the recipient's call
_GAS_PER_WORD: Final = 25_000  # a recipient may store what it is told
_NOTHING: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Governance:
    """Who gets escalations: a recipient of messages."""

    chain: str | int
    address: str
    wei_per_day: int = DEFAULT_WEI_PER_DAY  # what the relayer's own messages to it may cost


def proposal(
    deployment: Deployment, governance: Governance, *, about: bytes, record: bytes, event_id: str, text: str
) -> tuple[int, RouteRequest]:
    """A message to governance, and the chain that it leaves from.

    Args:
        deployment: the network.
        governance: who gets it.
        about: id of the message that it is about; zero if about none.
        record: hash of the record in the log of dead letters that it rests on.
        event_id: the letter; empty if about none.
        text: what governance is asked or told.
    """
    there = deployment.chain(governance.chain)
    source = next((chain for chain in deployment.chains if chain.chain_id != there.chain_id), there)
    payload = encode(["bytes32", "bytes32", "string", "string"], [about, record, event_id, text[:_LONGEST]])
    request = RouteRequest(
        check_recipient=False,
        destination=there.chain_id,
        recipient=governance.address,
        payload=payload,
        gas_limit=_GAS + _GAS_PER_WORD * (len(payload) // 32),
        gmps=tuple(sorted(deployment.gmps_between(source.chain_id, there.chain_id))),
        quorum=1,
        ttl=_TTL,
        kind=Kind.GOVERNANCE_PROPOSAL,
    )
    return source.chain_id, request


class GovernanceChannel:
    """Tells governance what nobody may decide without it. See `bridge.dead_letters.channels.Channel`."""

    name = "governance"

    def __init__(self, deployment: Deployment, governance: Governance, messages: OwnMessages) -> None:
        self._deployment = deployment
        self._governance = governance
        self._messages = messages

    async def tell(self, notice: Notice) -> None:
        """Sends a proposal if it is governance's to know; of everything else it is not told.

        Raises:
            TransientError: it was not sent, and will be with the next try.
        """
        if notice.key.startswith(f"{INTEGRITY}/"):
            text = f"the log of dead letters was changed: {notice.summary}"
            about, event_id = _NOTHING, ""
        elif _execution_failed(notice.details):
            text = f"a new vote is needed, since what was decided can't be carried out: {notice.summary}"
            about, event_id = decode_hex(notice.details["messageId"]), notice.details["eventId"]
        else:
            return
        source, request = proposal(
            self._deployment,
            self._governance,
            about=about,
            record=decode_hex(str(notice.details.get("record", ""))) or _NOTHING,
            event_id=event_id,
            text=text,
        )
        await self._messages.send(
            f"governance/{notice.key}", source, request, budget=_PURSE, wei_per_day=self._governance.wei_per_day
        )


def _execution_failed(details: Mapping[str, Any]) -> bool:
    """Whether a letter entered, or came back, whose message carries out a decision of governance."""
    return details.get("messageType") == Kind.GOVERNANCE_EXECUTE.name and "failureHistory" in details
