"""Parameters that governance sets on chain: alert thresholds, and the operators who may decide about dead letters.

Both are values of the `Parameters` contract, which only its owner or a governance message can change. An
account is an operator if the parameter `operator_parameter(account)` is not zero. On a network without that
contract, the router's owner and guardian are the operators, and the default thresholds apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eth_utils import keccak
from eth_utils.address import to_checksum_address

from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract
from bridge.protocol.ports import CallRevertedError, Chain, read_view

ALERT_THRESHOLD: Final = keccak(text="dlq.alertThreshold")
CRITICAL_THRESHOLD: Final = keccak(text="dlq.criticalThreshold")

_OPERATOR: Final = keccak(text="dlq.operator")
_PARAMETERS: Final = contract("valueOf(bytes32) returns (uint256)")
_ROUTER: Final = contract("owner() returns (address)", "guardian() returns (address)")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Alert thresholds in dead letters per hour."""

    alert: int = 10  # from here on, an alert is an error
    critical: int = 100  # from here on, an alert is critical


def operator_parameter(account: str) -> bytes:
    """Returns the name of the parameter that makes an account an operator."""
    return keccak(_OPERATOR + to_bytes32(account))


class OnChainParameters:
    """Reads one network's parameters."""

    def __init__(self, chain: Chain, router: str, contract: str | None) -> None:
        """Creates a reader of a `Parameters` contract, or of the chain's router if there is no such contract."""
        self._chain = chain
        self._router = router
        self._contract = contract

    @property
    def chain_id(self) -> int:
        """Returns the id of the chain that is read."""
        return self._chain.chain_id

    @property
    def authority(self) -> str:
        """Returns the contract that defines the operators."""
        return self._contract or self._router

    async def thresholds(self) -> Thresholds:
        """Returns the thresholds in force.

        Raises:
            TransientError: The chain does not respond.
        """
        default = Thresholds()
        alert, critical = await self._value(ALERT_THRESHOLD), await self._value(CRITICAL_THRESHOLD)
        return Thresholds(default.alert if alert is None else alert, default.critical if critical is None else critical)

    async def is_operator(self, account: str) -> bool:
        """Whether an account may decide about dead letters now.

        Raises:
            TransientError: the chain does not respond.
        """
        if self._contract is not None:
            return bool(await self._value(operator_parameter(account)))
        holders = [await read_view(self._chain, _ROUTER, self._router, name) for name in ("owner", "guardian")]
        return account.lower() in map(str.lower, holders)

    async def owner(self) -> str:
        """Returns the account that appoints operators (governance), with its EIP-55 checksum.

        Raises:
            TransientError: The chain does not respond.
        """
        return to_checksum_address(await read_view(self._chain, _ROUTER, self.authority, "owner"))

    async def _value(self, name: bytes) -> int | None:
        if self._contract is None:
            return None
        try:
            return int(await read_view(self._chain, _PARAMETERS, self._contract, "valueOf", name))
        except CallRevertedError:
            return None  # never set
