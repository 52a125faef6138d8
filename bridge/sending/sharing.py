"""Several calls in one transaction: which share one, what it costs them, and what became of each.

The contract that makes them (`contracts/relaying/BoundedMulticall.sol`) gives each call its own gas and lets none undo another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eth_utils import keccak

from bridge.ports import Call, Receipt
from bridge.protocol.contracts import MULTICALL
from bridge.records.transactions import Parcel, Part, Slot, SlotRequest

_CALLS_MADE: Final = keccak(text="CallsMade(uint256)")

# What the multicall itself needs, in gas: for the transaction and its event, for each call, and for each byte of a call's
# data, which is paid for as calldata and copied. Each call keeps back a 64th besides.
_BASE_GAS: Final = 40_000
_CALL_GAS: Final = 15_000
_BYTE_GAS: Final = 17
_CALL_HEAD: Final = 160  # bytes that a call takes in calldata beside its data

# Nodes take no transaction above 128 KiB (geth's txMaxSize), and copies cost more than their length beyond.
_MOST_BYTES: Final = 96 * 1024


class Sharing:
    """Packs calls into transactions of one chain."""

    def __init__(self, multicall: str | None, *, most: int, max_gas: int) -> None:
        """Without a multicall, or with at most one call in a transaction, each has its own.

        Args:
            multicall: the contract that makes several calls, or None if the chain has none.
            most: calls in one transaction.
            max_gas: gas that no transaction exceeds; a call that does alone is refused before it gets here.
        """
        self._multicall = multicall
        self._most = most if multicall is not None else 1
        self._max_gas = max_gas

    def pack(self, requests: Sequence[SlotRequest]) -> list[Parcel]:
        """See `bridge.records.transactions.Packing`; in the order of the first request of each parcel.

        Calls with value never share: the contract passes none on.
        """
        groups: list[list[SlotRequest]] = []
        sharing: list[SlotRequest] = []
        gas = size = 0
        for request in requests:
            if self._most < 2 or not request.may_share or request.call.value:
                groups.append([request])
                continue
            needs, length = _gas_of(request.call), _CALL_HEAD + len(request.call.data)
            is_full = len(sharing) == self._most or size + length > _MOST_BYTES or gas + needs > self._max_gas
            if not sharing or is_full:
                sharing, gas, size = [], _BASE_GAS, 0
                groups.append(sharing)
            sharing.append(request)
            gas, size = gas + needs, size + length
        return [self._parcel(group) for group in groups]

    def _parcel(self, group: Sequence[SlotRequest]) -> Parcel:
        if len(group) == 1:
            return Parcel.of(group[0])
        assert self._multicall is not None
        common, rest = divmod(_BASE_GAS, len(group))
        parts = [Part(one.purpose, _gas_of(one.call) + common) for one in group]
        parts[0] = replace(parts[0], gas=parts[0].gas + rest)
        calls = [(one.call.to, one.call.gas, one.call.data) for one in group]
        data = MULTICALL.encode("multicall", calls)
        return Parcel(Call(to=self._multicall, data=data, gas=sum(part.gas for part in parts)), tuple(parts))


def receipt_of(purpose: str, slot: Slot, receipt: Receipt) -> Receipt:
    """A purpose's own receipt: it succeeded if its call did, whatever became of those that share its transaction."""
    if not slot.parts or slot.call is None:
        return receipt
    made = _calls_made(receipt, slot.call.to)
    return replace(receipt, succeeded=receipt.succeeded and bool(made >> slot.purposes.index(purpose) & 1))


def _calls_made(receipt: Receipt, multicall: str) -> int:
    """One bit for each call that succeeded. A callee may call the contract again: its own event comes before ours."""
    for log in reversed(receipt.logs):
        if log.address.lower() == multicall.lower() and log.topics == (_CALLS_MADE,):
            return int.from_bytes(log.data, "big")
    return 0


def _gas_of(call: Call) -> int:
    assert call.gas is not None
    return call.gas * 64 // 63 + 1 + _CALL_GAS + _BYTE_GAS * (_CALL_HEAD + len(call.data))
