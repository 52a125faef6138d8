"""LayerZero's ULN (ultra light node): an adapter's DVNs (verifier networks) and confirmations in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eth_abi.abi import encode
from pydantic import Field

from bridge.gmps.verification import ADAPTER, DEFAULT, Connection, Step, ThresholdVerification
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import Address

_CONFIG: Final = "(uint64,uint8,uint8,uint8,address[],address[])"
_ULN_CONFIG_TYPE: Final = 2  # the endpoint's number for ULN settings
_NONE: Final = 255  # explicitly no DVN; a count of 0 would select LayerZero's default

_ADAPTER: Final = contract("setDelegate(address)")
_ENDPOINT: Final = contract(
    "delegates(address)",
    "isDefaultSendLibrary(address,uint32)",
    "getSendLibrary(address,uint32)",
    "getReceiveLibrary(address,uint32)",
    "setSendLibrary(address,uint32,address)",
    "setReceiveLibrary(address,uint32,address,uint256)",
    "setConfig(address,address,(uint32,uint32,bytes)[])",
)
_LIBRARY: Final = contract("getAppUlnConfig(address,uint32)")


class LayerZeroUln(ThresholdVerification):
    """The message libraries and the ULN settings of an adapter on one chain."""

    NOUN = "LayerZero DVN"

    send_library: Address
    receive_library: Address
    required_dvns: tuple[Address, ...] = Field(max_length=127)
    optional_dvns: tuple[Address, ...] = Field(default=(), max_length=127)
    confirmations: int = Field(gt=0, lt=2**64)
    """Blocks on this chain after which DVNs verify packets that it sends."""

    @property
    def lists(self) -> tuple[Sequence[str], Sequence[str]]:
        """See `ThresholdVerification.lists`."""
        return self.required_dvns, self.optional_dvns

    @property
    def verifiers(self) -> int:
        """See `Verification.verifiers`."""
        return len(self.required_dvns) + self.optional_threshold

    def __str__(self) -> str:
        """See `Verification.__str__`."""
        optional = f" and {self.optional_threshold} of {len(self.optional_dvns)} others" if self.optional_dvns else ""
        required = f"{len(self.required_dvns)} DVN{'' if len(self.required_dvns) == 1 else 's'}"
        return f"{required}{optional}, after {self.confirmations} blocks"

    def steps(self, connection: Connection) -> Sequence[Step]:
        """See `Verification.steps`."""
        endpoint, eid = str(connection.here["endpoint"]), int(connection.there["eid"])
        there = LayerZeroUln.read(connection.chosen_there) if connection.chosen_there != DEFAULT else self
        to_send, to_receive = self._config(self.confirmations), self._config(there.confirmations)
        send_call = _ENDPOINT.encode("setSendLibrary", ADAPTER, eid, self.send_library)
        return (
            Step(
                "LayerZero's delegate",
                endpoint,
                _ENDPOINT.encode("delegates", ADAPTER),
                encode(("address",), (connection.owner,)),
                ADAPTER,
                _ADAPTER.encode("setDelegate", connection.owner),
            ),
            # `getSendLibrary` returns the default, too, so this step makes sure that the library is pinned.
            Step(
                f"send library for {eid}",
                endpoint,
                _ENDPOINT.encode("isDefaultSendLibrary", ADAPTER, eid),
                encode(("bool",), (False,)),
                endpoint,
                send_call,
            ),
            Step(
                f"send library for {eid}",
                endpoint,
                _ENDPOINT.encode("getSendLibrary", ADAPTER, eid),
                encode(("address",), (self.send_library,)),
                endpoint,
                send_call,
            ),
            Step(
                f"receive library for {eid}",
                endpoint,
                _ENDPOINT.encode("getReceiveLibrary", ADAPTER, eid),
                encode(("address", "bool"), (self.receive_library, False)),
                endpoint,
                _ENDPOINT.encode("setReceiveLibrary", ADAPTER, eid, self.receive_library, 0),
            ),
            _config_step(f"DVNs of packets to {eid}", endpoint, self.send_library, eid, to_send),
            _config_step(f"DVNs of packets from {eid}", endpoint, self.receive_library, eid, to_receive),
        )

    def _config(self, confirmations: int) -> tuple[Any, ...]:
        """Returns the configuration as the ULN contract's struct, with DVNs in ascending order of address."""
        required, optional = (
            sorted(dvns, key=lambda dvn: int(dvn, 16)) for dvns in (self.required_dvns, self.optional_dvns)
        )
        return (
            confirmations,
            len(required) or _NONE,
            len(optional) or _NONE,
            self.optional_threshold,
            required,
            optional,
        )


def _config_step(name: str, endpoint: str, library: str, eid: int, config: tuple[Any, ...]) -> Step:
    # Reads the library's own record, because the endpoint's getter merges it with the defaults.
    return Step(
        name,
        library,
        _LIBRARY.encode("getAppUlnConfig", ADAPTER, eid),
        encode((_CONFIG,), (config,)),
        endpoint,
        _ENDPOINT.encode("setConfig", ADAPTER, library, [(eid, _ULN_CONFIG_TYPE, encode((_CONFIG,), (config,)))]),
    )
