"""Whom Hyperlane rests on: the tree of ISMs that verifies for the adapter, and who may plant another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.domain.trust import (
    NOBODY,
    Control,
    Finality,
    GmpEnds,
    GmpTrust,
    NotReadableError,
    Requirement,
    all_of,
    at_least,
)
from bridge.evm.inspection import Inspector
from bridge.gmps.trust import BaseTrustReader, watch
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.gmps import Gmp

_MAILBOX: Final = contract("recipientIsm(address) returns (address)", "PACKAGE_VERSION() returns (string)")
_ADAPTER: Final = contract("domainOf(uint64) returns (uint32)", "interchainSecurityModule() returns (address)")
_ISM: Final = contract(
    "moduleType() returns (uint8)",
    "validatorsAndThreshold(bytes) returns (address[],uint8)",
    "modulesAndThreshold(bytes) returns (address[],uint8)",
    "route(bytes) returns (address)",
    "trustedRelayer() returns (address)",
    "paused() returns (bool)",
)
_ROUTING, _AGGREGATION, _NULL = 1, 2, 6  # Hyperlane's numbers of kinds
_MULTISIGS: Final = {3: "legacy multisig", 4: "merkle root multisig", 5: "message id multisig"}
_VERSION: Final = b"\x03"  # of messages
_DEEPEST: Final = 6  # ISMs within ISMs

_EVENTS: Final = tuple(map(topic, ("DefaultIsmSet(address)", "InterchainSecurityModuleSet(address)")))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ism:
    """One ISM with those below it."""

    value: dict[str, Any]
    verifiers: Requirement
    controls: tuple[Control, ...] = ()
    addresses: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


class HyperlaneTrust(BaseTrustReader):
    """Reads the destination's Mailbox and ISMs; nothing on the source can make a message up."""

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""
        chain, mailbox = self._on(ends.destination), await self._transport(ends)
        ism = to_checksum_address(await chain.read(_MAILBOX, mailbox, "recipientIsm", ends.adapter))
        chosen = to_checksum_address(await chain.read(_ADAPTER, ends.adapter, "interchainSecurityModule"))
        origin = await chain.read(_ADAPTER, ends.adapter, "domainOf", ends.source.chain_id)
        # Routing goes by the header; the adapters' domains of this message are those of all of this lane's.
        sender, recipient = to_bytes32(ends.source_adapter), to_bytes32(ends.adapter)
        message = _VERSION + bytes(4) + origin.to_bytes(4, "big") + sender + bytes(4) + recipient
        tree = await self._ism(chain, ism, message, 0)
        controls = [
            *await chain.owner_of("Mailbox", mailbox, "sets the default ISM", forges=chosen == NOBODY),
            *await chain.proxy_admin_of("Mailbox", mailbox),
            *tree.controls,
        ]
        config = {
            "mailbox": mailbox,
            "implementation": await chain.implementation(mailbox),
            "version": await chain.maybe(_MAILBOX, mailbox, "PACKAGE_VERSION"),
            "ism": {**tree.value, "default": chosen == NOBODY},
        }
        return GmpTrust(
            gmp=Gmp.HYPERLANE,
            config=config,
            verifiers=tree.verifiers,
            controls=tuple(controls),
            finality=Finality("what each validator has set for itself (reorg period), which is not on chain"),
            defaults=("ISM",) if chosen == NOBODY else (),
            stops=tree.stops,
            notes=tree.notes,
            watch={ends.destination.chain_id: watch((mailbox, ends.adapter, *tree.addresses), _EVENTS)},
        )

    async def _ism(self, chain: Inspector, ism: str, message: bytes, depth: int) -> _Ism:
        if depth > _DEEPEST:
            raise NotReadableError(f"ISM {ism} on {chain.name} is {depth} ISMs deep")
        ism = to_checksum_address(ism)
        if ism == NOBODY:
            raise NotReadableError(f"Hyperlane on {chain.name} routes the lane to no ISM: nothing is delivered")
        kind = await chain.read(_ISM, ism, "moduleType")
        owned = (
            *await chain.owner_of("ISM", ism, "changes who verifies", forges=True),
            *await chain.proxy_admin_of("ISM", ism),
        )
        if kind in _MULTISIGS:
            validators, threshold = await chain.read(_ISM, ism, "validatorsAndThreshold", message)
            members = sorted(map(to_checksum_address, validators))
            value = {"address": ism, "kind": _MULTISIGS[kind], "validators": members, "threshold": threshold}
            return _Ism(value=value, verifiers=at_least(threshold, members), controls=owned, addresses=(ism,))
        if kind == _ROUTING:
            chosen = await self._ism(chain, await chain.read(_ISM, ism, "route", message), message, depth + 1)
            value = {"address": ism, "kind": "routing", "module": chosen.value}
            return _joined(ism, value, chosen.verifiers, owned, [chosen])
        if kind == _AGGREGATION:
            modules, threshold = await chain.read(_ISM, ism, "modulesAndThreshold", message)
            parts = [await self._ism(chain, module, message, depth + 1) for module in modules]
            value = {
                "address": ism,
                "kind": "aggregation",
                "threshold": threshold,
                "modules": [part.value for part in parts],
            }
            return _joined(ism, value, at_least(threshold, [part.verifiers for part in parts]), owned, parts)
        return await self._other(chain, ism, kind, owned)

    async def _other(self, chain: Inspector, ism: str, kind: int, owned: tuple[Control, ...]) -> _Ism:
        """An ISM that lets anybody through, or one of a kind that this version does not know."""
        if kind != _NULL:
            value = {"address": ism, "kind": f"kind {kind}"}
            note = f"ISM {ism} is of a kind that is not known here ({kind}): it counts as one operator"
            return _Ism(value=value, verifiers=ism, controls=owned, addresses=(ism,), notes=(note,))
        relayer = await chain.maybe(_ISM, ism, "trustedRelayer")
        if relayer is not None:
            relayer = to_checksum_address(relayer)
            value = {"address": ism, "kind": "trusted relayer", "relayer": relayer}
            return _Ism(value=value, verifiers=relayer, controls=owned, addresses=(ism,))
        if await chain.maybe(_ISM, ism, "paused") is not None:
            value, stop = {"address": ism, "kind": "pausable"}, f"the owner of the pausable ISM {ism}"
            return _Ism(value=value, verifiers=all_of([]), controls=owned, addresses=(ism,), stops=(stop,))
        return _Ism(value={"address": ism, "kind": "null"}, verifiers=all_of([]), controls=owned, addresses=(ism,))


def _joined(
    ism: str, value: dict[str, Any], verifiers: Requirement, owned: tuple[Control, ...], parts: list[_Ism]
) -> _Ism:
    return _Ism(
        value=value,
        verifiers=verifiers,
        controls=owned + tuple(control for part in parts for control in part.controls),
        addresses=(ism, *(address for part in parts for address in part.addresses)),
        stops=tuple(stop for part in parts for stop in part.stops),
        notes=tuple(note for part in parts for note in part.notes),
    )


READER: Final = HyperlaneTrust
