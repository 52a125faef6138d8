"""Adds `--network` to the commands shown in answers, errors and pages."""

from __future__ import annotations

import re
from typing import Any, Final

_WITHOUT_NETWORK: Final = "decode-error|demo|devnet|network"
_COMMAND: Final = re.compile(rf"\bwaybill (?=[a-z])(?!(?:{_WITHOUT_NETWORK})\b)(?![a-z]+:)")
_KEYS: Final = frozenset({"next", "command", "advice"})


def for_network(text: str, network: str) -> str:
    """Adds `--network` to the commands in a text, except for the devnet, which is the default."""
    return text if network == "devnet" else _COMMAND.sub(f"waybill --network {network} ", text)


def value_for_network(value: Any, network: str, *, is_command: bool = False) -> Any:
    """Adds `--network` to the commands in a JSON document: in the values of `next`, `command` and `advice`."""
    if isinstance(value, dict):
        return {
            key: value_for_network(one, network, is_command=is_command or key in _KEYS) for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [value_for_network(one, network, is_command=is_command) for one in value]
    return for_network(value, network) if is_command and isinstance(value, str) else value
