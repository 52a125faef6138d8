"""Whom CCIP rests on: the off-ramps that the destination's router takes messages of the source from, each by its version.

Behind an off-ramp of 1.6 are the oracles that commit to it, and the risk management network. Behind one of 2.0 are the
verifiers that the lane mandates, and those that the adapter names or else the lane's default ones.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    any_of,
    at_least,
)
from bridge.evm.inspection import Inspector
from bridge.gmps.trust import BaseTrustReader, watch
from bridge.protocol.contracts import contract, topic
from bridge.protocol.gmps import Gmp

_ROUTER: Final = contract("getOffRamps() returns ((uint64,address)[])")
_OFF_RAMP: Final = contract(
    "getSourceChainConfig(uint64) returns ((address,bool,uint64,bool,bytes))",
    "getStaticConfig() returns ((uint64,uint16,address,address,address))",
    "getDynamicConfig() returns ((address,uint32,address))",
    "latestConfigDetails(uint8) returns (((bytes32,uint8,uint8,bool),address[],address[]))",
)
_OFF_RAMP_V2: Final = contract(
    "getSourceChainConfig(uint64) returns ((address,bool,bytes[],address[],address[]))",
    "getStaticConfig() returns ((uint64,uint16,address,address,uint32))",
)
_VERSIONED: Final = contract("typeAndVersion() returns (string)")
_RESOLVER: Final = contract("getAllInboundImplementations() returns ((bytes4,address)[])")
_COMMITTEE: Final = contract("getSignatureConfig(uint64) returns (address[],uint8)")
_RMN: Final = contract("getVersionedConfig() returns (uint32,(bytes32,(address,uint64)[],uint64))")
_ADAPTER: Final = contract(
    "selectorOf(uint64) returns (uint64)",
    "getCCVsAndFinalityConfig(uint64,bytes) returns (address[],address[],uint8,bytes4)",
)
_COMMIT, _EXECUTION = 0, 1  # numbers of the oracles' configurations

_EVENTS: Final = tuple(
    map(
        topic,
        (
            "OffRampAdded(uint64,address)",
            "OffRampRemoved(uint64,address)",
            "ConfigSet(uint8,bytes32,address[],address[],uint8)",
            "SourceChainConfigSet(uint64,(address,bool,uint64,bool,bytes))",
            "DynamicConfigSet((address,uint32,address))",
            "ConfigSet(uint32,(bytes32,(address,uint64)[],uint64))",
            "SourceChainConfigSet(uint64,(address,uint64,bool,bytes[],address[],address[]))",
            "InboundImplementationUpdated(bytes4,address,address)",
            "InboundImplementationRemoved(bytes4)",
            "SignatureConfigSet(uint64,address[],uint8)",
            "VerifiersSet(uint64,address[],address[],uint8)",
        ),
    )
)


class CcipTrust(BaseTrustReader):
    """Reads every off-ramp that the destination's router takes messages of the source from."""

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""
        chain, router = self._on(ends.destination), await self._transport(ends)
        selector = await chain.read(_ADAPTER, ends.adapter, "selectorOf", ends.source.chain_id)
        ramps = [
            to_checksum_address(ramp)
            for source, ramp in await chain.read(_ROUTER, router, "getOffRamps")
            if source == selector
        ]
        if not ramps:
            raise NotReadableError(f"CCIP's router {router} on {chain.name} has no off-ramp for {ends.source.name}")
        value: dict[str, Any] = {"router": router, "offRamps": {}}
        controls = await chain.owner_of("router", router, "adds off-ramps", forges=True)
        verifiers: list[Requirement] = []
        watched, left_open = [router, ends.adapter], False
        for ramp in sorted(ramps):
            version = await chain.read(_VERSIONED, ramp, "typeAndVersion")
            if version.startswith("OffRamp 2."):
                part = await _off_ramp_v2(chain, ramp, ends.adapter, selector)
                value["offRamps"][ramp] = {"type": version, **part.config}
                verifiers.append(part.verifiers)
                left_open = left_open or part.config["default"]
                controls += part.controls
                watched += part.watched
                continue
            config, requirement, rmn = await _off_ramp(chain, ramp, selector)
            value["offRamps"][ramp] = {"type": version, **config}
            verifiers.append(requirement)
            controls += await _controls(chain, ramp, rmn, blessed=config["rmn"] is not None)
            watched += [ramp, rmn]
        return GmpTrust(
            gmp=Gmp.CCIP,
            config=value,
            verifiers=verifiers[0] if len(verifiers) == 1 else any_of(verifiers),
            controls=tuple(controls),
            defaults=("verifiers",) if left_open else (),
            finality=Finality("what oracles and verifiers have set for themselves, which is not on chain"),
            stops=("the owner of RMNRemote may curse the source: the off-ramp then takes nothing of it",),
            watch={ends.destination.chain_id: watch(watched, _EVENTS)},
        )


async def _controls(chain: Inspector, ramp: str, rmn: str, *, blessed: bool) -> list[Control]:
    # An account that decides about the risk management network alone can't make a message up: the oracles have to sign too.
    return [
        *await chain.owner_of("off-ramp", ramp, "sets oracles and sources", forges=True),
        *await chain.owner_of("RMNRemote", rmn, "sets who blesses" if blessed else "curses sources", forges=False),
    ]


async def _off_ramp(chain: Inspector, ramp: str, selector: int) -> tuple[dict[str, Any], Requirement, str]:
    """What one off-ramp is set to, whom it believes, and its RMNRemote."""
    _, enabled, _, without_rmn, on_ramp = await chain.read(_OFF_RAMP, ramp, "getSourceChainConfig", selector)
    (_, faulty, _, signed), signers, _ = await chain.read(_OFF_RAMP, ramp, "latestConfigDetails", _COMMIT)
    _, _, transmitters = await chain.read(_OFF_RAMP, ramp, "latestConfigDetails", _EXECUTION)
    rmn = to_checksum_address((await chain.read(_OFF_RAMP, ramp, "getStaticConfig"))[2])
    oracles = sorted(map(to_checksum_address, signers))
    # Without signatures it is enough to be one of those who may hand a report in.
    verifiers: Requirement = at_least(faulty + 1, oracles) if signed else any_of(map(to_checksum_address, transmitters))
    value: dict[str, Any] = {
        "enabled": enabled,
        "onRamp": f"0x{on_ramp.hex()}",
        "oracles": oracles,
        "signatures": faulty + 1 if signed else 0,
        "executionTransmitters": sorted(map(to_checksum_address, transmitters)),
        "rmnRemote": rmn,
        "permissionlessExecutionAfter": (await chain.read(_OFF_RAMP, ramp, "getDynamicConfig"))[1],
        "rmn": None,
    }
    if not without_rmn:
        _, (_, nodes, needed) = await chain.read(_RMN, rmn, "getVersionedConfig")
        blessers = sorted(to_checksum_address(node) for node, _ in nodes)
        value["rmn"] = {"signers": blessers, "signatures": needed + 1}
        verifiers = all_of([verifiers, at_least(needed + 1, blessers)])
    return value, verifiers if enabled else any_of([]), rmn


@dataclass(frozen=True, slots=True)
class _OffRampV2:
    """What one off-ramp of 2.0 is set to, whom it believes, and who may change that."""

    config: dict[str, Any]
    verifiers: Requirement
    controls: list[Control]
    watched: list[str]


async def _off_ramp_v2(chain: Inspector, ramp: str, adapter: str, selector: int) -> _OffRampV2:
    _, enabled, on_ramps, defaults, mandated = await chain.read(_OFF_RAMP_V2, ramp, "getSourceChainConfig", selector)
    rmn = to_checksum_address((await chain.read(_OFF_RAMP_V2, ramp, "getStaticConfig"))[2])
    controls = [
        *await chain.owner_of("off-ramp", ramp, "sets verifiers and sources", forges=True),
        *await chain.owner_of("RMNRemote", rmn, "curses sources", forges=False),
    ]
    required, optional, threshold, _ = await chain.read(_ADAPTER, adapter, "getCCVsAndFinalityConfig", selector, b"")
    lanes_own = NOBODY in required or not (required or threshold)
    demanded = _resolvers(*mandated, *required, *(defaults if lanes_own else ()))
    # As the off-ramp does it: what is demanded anyway is one fewer of the optional ones.
    choices = [one for one in _resolvers(*optional) if one not in demanded]
    threshold = max(threshold - (len(optional) - len(choices)), 0)
    value: dict[str, Any] = {
        "enabled": enabled,
        "onRamps": sorted(f"0x{on_ramp.hex()}" for on_ramp in on_ramps),
        "rmnRemote": rmn,
        "default": lanes_own,
        "required": demanded,
        "optional": choices,
        "optionalThreshold": threshold,
        "verifiers": {},
    }
    parties: dict[str, Requirement] = {}
    watched = [ramp, rmn, *demanded, *choices]
    for resolver in (*demanded, *choices):
        controls += await chain.owner_of("verifier resolver", resolver, "sets verifiers", forges=True)
        value["verifiers"][resolver] = {}
        versions: list[Requirement] = []
        for version, address in await chain.read(_RESOLVER, resolver, "getAllInboundImplementations"):
            verifier = to_checksum_address(address)
            name = await chain.read(_VERSIONED, verifier, "typeAndVersion")
            config: dict[str, Any] = {"verifier": verifier, "type": name}
            party: Requirement = verifier  # of another kind than a committee: an operator of its own
            if name.startswith("CommitteeVerifier "):
                signers, needed = await chain.read(_COMMITTEE, verifier, "getSignatureConfig", selector)
                members = sorted(map(to_checksum_address, signers))
                config |= {"signers": members, "signatures": needed}
                # Without a configuration the verifier refuses all messages of the source.
                party = at_least(needed, members) if needed else any_of([])
            controls += await chain.owner_of("verifier", verifier, "sets signers", forges=True)
            value["verifiers"][resolver][f"0x{version.hex()}"] = config
            versions.append(party)
            watched.append(verifier)
        parties[resolver] = any_of(versions)  # the results themselves say which version verifies them
    needed_parties = [parties[one] for one in demanded]
    if threshold:
        needed_parties.append(at_least(threshold, [parties[one] for one in choices]))
    return _OffRampV2(value, all_of(needed_parties) if enabled else any_of([]), controls, watched)


def _resolvers(*addresses: str) -> list[str]:
    return sorted({to_checksum_address(one) for one in addresses if one != NOBODY})


READER: Final = CcipTrust
