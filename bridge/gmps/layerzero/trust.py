"""Whom LayerZero rests on: the DVNs of the receiving library's ULN, and who may choose others."""

from __future__ import annotations

from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.domain.trust import NOBODY, Control, Finality, GmpEnds, GmpTrust, Quorum, any_of
from bridge.evm.inspection import Inspector
from bridge.gmps.trust import BaseTrustReader, watch
from bridge.protocol.contracts import ADAPTER, contract, topic
from bridge.protocol.gmps import Gmp

_ULN: Final = "(uint64,uint8,uint8,uint8,address[],address[])"
_ENDPOINT: Final = contract(
    "getReceiveLibrary(address,uint32) returns (address,bool)",
    "receiveLibraryTimeout(address,uint32) returns (address,uint256)",
    "defaultReceiveLibraryTimeout(uint32) returns (address,uint256)",
    "isValidReceiveLibrary(address,uint32,address) returns (bool)",
    "getSendLibrary(address,uint32) returns (address)",
    "isDefaultSendLibrary(address,uint32) returns (bool)",
    "delegates(address) returns (address)",
)
_LIBRARY: Final = contract(
    f"getUlnConfig(address,uint32) returns ({_ULN})",
    f"getAppUlnConfig(address,uint32) returns ({_ULN})",
    "getExecutorConfig(address,uint32) returns ((uint32,address))",
    "version() returns (uint64,uint8,uint8)",
)
_DVN: Final = contract("getSigners() returns (address[])", "quorum() returns (uint64)")
_ADAPTER: Final = contract("eidOf(uint64) returns (uint32)")

# What an app may leave to LayerZero: 0 in its own configuration stands for the default.
_CHOICES: Final = ("confirmations", "required DVNs", "optional DVNs")

_EVENTS: Final = tuple(
    map(
        topic,
        (
            "DefaultReceiveLibrarySet(uint32,address)",
            "DefaultReceiveLibraryTimeoutSet(uint32,address,uint256)",
            "ReceiveLibrarySet(address,uint32,address)",
            "ReceiveLibraryTimeoutSet(address,uint32,address,uint256)",
            "DelegateSet(address,address)",
            f"DefaultUlnConfigsSet((uint32,{_ULN})[])",
            f"UlnConfigSet(address,uint32,{_ULN})",
            "UpdateSigner(address,bool)",
            "UpdateQuorum(uint64)",
        ),
    )
)


class LayerZeroTrust(BaseTrustReader):
    """Reads the destination's endpoint, library and DVNs, and of the source what is asked of executor and verifiers.

    A DVN is one operator, whatever keys it has: the application hired it as one.
    """

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""
        chain, endpoint, app = self._on(ends.destination), await self._transport(ends), ends.adapter
        eid = await chain.read(_ADAPTER, app, "eidOf", ends.source.chain_id)
        library, is_default = await chain.read(_ENDPOINT, endpoint, "getReceiveLibrary", app, eid)
        library = to_checksum_address(library)
        config = await chain.read(_LIBRARY, library, "getUlnConfig", app, eid)
        own = await chain.read(_LIBRARY, library, "getAppUlnConfig", app, eid)
        defaults = [name for name, value in zip(_CHOICES, own, strict=False) if not value]
        former = await self._former_library(chain, endpoint, app, eid, library)
        quorums, dvns = [_quorum(config)], [*config[4], *config[5]]
        if former:
            old = await chain.read(_LIBRARY, former, "getUlnConfig", app, eid)
            quorums.append(_quorum(old))
            dvns += [*old[4], *old[5]]
        value = {
            "endpoint": endpoint,
            "receiveLibrary": library,
            "receiveLibraryIsDefault": is_default,
            "receiveLibraryVersion": await chain.maybe(_LIBRARY, library, "version"),
            "formerLibraryInGrace": former,
            "uln": _uln_value(config),
            "defaults": defaults,
            "dvns": {dvn: await _dvn(chain, dvn) for dvn in sorted(map(to_checksum_address, set(dvns)))},
            "sending": await self._sending(ends),
        }
        return GmpTrust(
            gmp=Gmp.LAYERZERO,
            config=value,
            verifiers=quorums[0] if len(quorums) == 1 else any_of(quorums),
            controls=tuple(
                await self._controls(chain, endpoint, library, app, is_default=is_default, has_defaults=bool(defaults))
            ),
            finality=Finality(f"{config[0]} {'block' if config[0] == 1 else 'blocks'}", blocks=config[0]),
            defaults=(*(["receive library"] if is_default else []), *defaults),
            stops=("a DVN that is paused verifies nothing",),
            watch={ends.destination.chain_id: watch((endpoint, library, *value["dvns"]), _EVENTS)},
        )

    async def _former_library(self, chain: Inspector, endpoint: str, app: str, eid: int, library: str) -> str | None:
        """The library before this one, while what it verifies is taken still."""
        for function, arguments in (
            ("receiveLibraryTimeout", (app, eid)),
            ("defaultReceiveLibraryTimeout", (eid,)),
        ):
            former, _ = await chain.read(_ENDPOINT, endpoint, function, *arguments)
            former = to_checksum_address(former)
            if former not in (NOBODY, library) and await chain.read(
                _ENDPOINT, endpoint, "isValidReceiveLibrary", app, eid, former
            ):
                return str(former)
        return None

    async def _controls(
        self, chain: Inspector, endpoint: str, library: str, app: str, *, is_default: bool, has_defaults: bool
    ) -> list[Control]:
        delegate = await chain.read(_ENDPOINT, endpoint, "delegates", app)
        return [
            *await chain.owner_of("endpoint", endpoint, "sets the default library", forges=is_default),
            *await chain.owner_of("receive library", library, "sets the default DVNs", forges=has_defaults),
            await chain.control("endpoint", endpoint, "delegate", delegate, "chooses library and DVNs", forges=True),
            *await chain.proxy_admin_of("endpoint", endpoint),
        ]

    async def _sending(self, ends: GmpEnds) -> dict[str, Any]:
        """What the source asks its workers for: who carries, and how long DVNs shall wait."""
        chain, app = self._on(ends.source), ends.source_adapter
        endpoint = to_checksum_address(await chain.read(ADAPTER, app, "transport"))
        eid = await chain.read(_ADAPTER, app, "eidOf", ends.destination.chain_id)
        library = to_checksum_address(await chain.read(_ENDPOINT, endpoint, "getSendLibrary", app, eid))
        _, executor = await chain.read(_LIBRARY, library, "getExecutorConfig", app, eid)
        return {
            "sendLibrary": library,
            "sendLibraryIsDefault": await chain.read(_ENDPOINT, endpoint, "isDefaultSendLibrary", app, eid),
            "uln": _uln_value(await chain.read(_LIBRARY, library, "getUlnConfig", app, eid)),
            "executor": to_checksum_address(executor),
        }


async def _dvn(chain: Inspector, dvn: str) -> dict[str, Any]:
    """The keys of a DVN, if its contract names them."""
    signers = await chain.maybe(_DVN, dvn, "getSigners")
    return {
        "signers": signers and sorted(map(to_checksum_address, signers)),
        "quorum": await chain.maybe(_DVN, dvn, "quorum"),
    }


def _quorum(config: tuple[Any, ...]) -> Quorum:
    """All required DVNs, and so many of the optional ones."""
    _, _, _, threshold, required, optional = config
    members: list[tuple[int, str | Quorum]] = [(1, to_checksum_address(one)) for one in required]
    if threshold:
        members.append((1, Quorum(threshold, tuple((1, to_checksum_address(one)) for one in optional))))
    return Quorum(len(members), tuple(members))


def _uln_value(config: tuple[Any, ...]) -> dict[str, Any]:
    confirmations, _, _, threshold, required, optional = config
    return {
        "confirmations": confirmations,
        "required": sorted(map(to_checksum_address, required)),
        "optional": sorted(map(to_checksum_address, optional)),
        "optionalThreshold": threshold,
    }


READER: Final = LayerZeroTrust
