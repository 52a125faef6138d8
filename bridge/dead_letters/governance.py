"""Messages to governance.

These are escalations, and reports of tampering with the log and of governance decisions whose execution failed
permanently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eth_abi.abi import encode
from eth_utils import decode_hex

from bridge.client import RouteRequest
from bridge.dead_letters.channels import INTEGRITY, Notice
from bridge.dead_letters.settings import GovernanceSettings
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.relayer.own_messages import OwnMessages

_TTL: Final = 600  # seconds
_PURSE: Final = "governance"
_LONGEST: Final = 4_000  # characters of a notification
_GAS: Final = 200_000  # for the recipient's call
_GAS_PER_WORD: Final = 25_000  # a recipient may store the notification
_NOTHING: Final = bytes(32)


def proposal(
    deployment: Deployment, governance: GovernanceSettings, *, about: bytes, record: bytes, event_id: str, text: str
) -> tuple[int, RouteRequest]:
    """Builds a message to governance. Returns the chain on which it is sent, and the request.

    Args:
        deployment: The network.
        governance: The recipient.
        about: Id of the message in question, or zero.
        record: Hash of the dead-letter record on which the proposal is based.
        event_id: The letter's event id, or empty.
        text: Text of the question or report.
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
    """Reports matters that only governance may decide on. See `bridge.dead_letters.channels.Channel`."""

    name = "governance"

    def __init__(self, deployment: Deployment, governance: GovernanceSettings, messages: OwnMessages) -> None:
        self._deployment = deployment
        self._governance = governance
        self._messages = messages

    async def tell(self, notice: Notice) -> None:
        """Sends a proposal if the notice concerns governance. Accepts any other notice without sending anything.

        Raises:
            TransientError: The proposal was not sent, and will be retried.
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
    """Whether the notice is about a new or returned letter whose message executes a governance decision."""
    return details.get("messageType") == Kind.GOVERNANCE_EXECUTE.name and "failureHistory" in details
