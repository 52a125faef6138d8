"""Messages that were routed with a shorter TTL than their class of assets demands: the id binds it, so they can only be told of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import structlog

from bridge.policies.asset_classes import AssetClass, undercut
from bridge.protocol.message import Message

_log = structlog.get_logger(__name__)


class Undercuts:
    """Those of one source chain, since this process started."""

    def __init__(self, asset_classes: Sequence[AssetClass]) -> None:
        """`asset_classes` are those whose minimum TTL messages are to keep."""
        self._asset_classes = asset_classes
        self.counts: Counter[str] = Counter({one.name: 0 for one in asset_classes})  # messages, by class

    def look_at(self, message: Message) -> None:
        """Reports a message that was observed for the first time, if it lives shorter than it is to."""
        demanded = undercut(message, self._asset_classes)
        if demanded is None:
            return
        self.counts[demanded.name] += 1
        _log.warning(
            "message lives shorter than its class of assets demands",
            message=f"0x{message.id.hex()}",
            asset_class=demanded.name,
            ttl=message.ttl,
            least=demanded.min_ttl,
        )
