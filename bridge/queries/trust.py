"""Whom a lane trusts, read from both chains: who could forge a message, who stops that, and what could change.

One answer for the command, the explorer and the relayer. docs/trust.md has the rules of findings and grades.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.domain.operators import KNOWN_OPERATORS
from bridge.domain.ports import Watch
from bridge.domain.trust import (
    LEAST_DELAY,
    Account,
    AccountKind,
    ChainState,
    Control,
    GmpEnds,
    GmpTrust,
    MinimalSets,
    NotRead,
    NotReadableError,
    Quorum,
    Requirement,
    any_of,
    at_least,
    minimal_sets,
    parties_of,
)
from bridge.evm.inspection import Inspector
from bridge.gmps.registry import trust_reader
from bridge.gmps.trust import watch
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.contracts import ADAPTER, ROUTER, topic
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.queries.lanes import gmp_name, lane_name

_LEAST_QUORUM: Final = 2
"""Receipts below which one GMP that lies is believed alone."""

_SETS_SHOWN: Final = 20

_ROUTER_EVENTS: Final = tuple(
    map(
        topic,
        (
            "FloorSet(uint64,uint8)",
            "PeerSet(uint64,bytes32)",
            "PeerRevoked(uint64,bytes32)",
            "AdapterAdded(uint8,address)",
            "AdapterReplaced(uint8,address,address)",
            "AdapterRevoked(uint8,address,uint8)",
            "GuardianSet(address)",
            "RevokerSet(address)",
            "TripwireSet(address)",
        ),
    )
)


class Severity(StrEnum):
    """How much a finding weighs."""

    CRITICAL = "critical"
    SERIOUS = "serious"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """A weakness of one direction of a lane; docs/trust.md says the rule of each code."""

    code: str
    severity: Severity
    text: str
    gmp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTrust:
    """Waybill's own contract for one GMP on the destination."""

    gmp: int
    address: str
    implementation: str | None  # the code of a proxy; it should be none
    remote: str  # the adapter on the source that it believes
    source_adapter: str  # the one that the source's router sends through


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionTrust:
    """One direction of a lane, as its destination has it."""

    source: ChainDeployment
    destination: ChainDeployment
    recipient: str | None  # whose policy counts; None: one without a policy
    peer: str
    floor: int
    quorum: int  # what the recipient demands
    allowed: frozenset[int]  # the GMPs whose receipts count for it
    implementation: str | None
    owner: Account
    guardian: Account
    revoker: Account
    tripwire: Account
    controls: tuple[Control, ...]
    adapters: tuple[AdapterTrust, ...]
    gmps: tuple[GmpTrust | NotRead, ...]

    @property
    def name(self) -> str:
        """Such as ``alpha → beta``."""
        return f"{self.source.name} → {self.destination.name}"

    def config(self) -> dict[str, Any]:
        """What is set on chain, for JSON: what `waybill trust check` compares."""
        return {
            "router": {
                "address": self.destination.router,
                "implementation": self.implementation,
                "peer": self.peer,
                "floor": self.floor,
                "owner": self.owner.to_value(),
                "guardian": self.guardian.to_value(),
                "revoker": self.revoker.to_value(),
                "tripwire": self.tripwire.to_value(),
            },
            "adapters": {
                gmp_name(one.gmp): {
                    "address": one.address,
                    "implementation": one.implementation,
                    "remote": one.remote,
                }
                for one in self.adapters
            },
            "gmps": {
                gmp_name(one.gmp): {
                    **one.config,
                    "controls": {
                        f"{control.role} of {control.contract} {control.address}": control.account.to_value()
                        for control in one.controls
                    },
                }
                for one in self.gmps
                if isinstance(one, GmpTrust)
            },
        }

    def watches(self) -> Iterator[tuple[int, Watch]]:
        """By chain id, where changes are logged."""
        addresses = [self.destination.router, *(adapter.address for adapter in self.adapters)]
        yield self.destination.chain_id, watch(addresses, _ROUTER_EVENTS)
        for gmp in self.gmps:
            if isinstance(gmp, GmpTrust):
                yield from gmp.watch.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpAssessment:
    """One GMP: who can forge over it."""

    name: str
    trust: GmpTrust | NotRead
    counts: bool  # whether its receipts count for the recipient
    verifiers: MinimalSets  # who can by verifying
    anyone: MinimalSets  # the same, or by an account that changes who verifies


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """One direction of a lane, judged."""

    direction: DirectionTrust
    gmps: tuple[GmpAssessment, ...]
    forgers: MinimalSets  # who has to be corrupted for a forged message to execute
    roles: Mapping[str, str]  # by operator, what it is here
    findings: tuple[Finding, ...]
    stops: tuple[str, ...]
    could_change: tuple[str, ...]

    @property
    def grade(self) -> str:
        """A to F."""
        return grade_of(self.findings)


def grade_of(findings: Iterable[Finding]) -> str:
    """A: no finding. B: notices. C: one serious finding. D: more of them. F: a critical one."""
    severities = [finding.severity for finding in findings]
    if Severity.CRITICAL in severities:
        return "F"
    serious = severities.count(Severity.SERIOUS)
    return "D" if serious > 1 else "C" if serious else "B" if severities else "A"


def grade_reason(findings: Iterable[Finding]) -> str:
    """Why the grade is what it is, after ``because`` or by itself."""
    found = list(findings)
    for severity in (Severity.CRITICAL, Severity.SERIOUS, Severity.NOTICE):
        codes = [one.code for one in found if one.severity is severity]
        if codes:
            number = f"{len(codes)} {severity} findings" if len(codes) > 1 else f"a {severity} finding"
            number = number.replace("notice findings", "notices").replace("a notice finding", "a notice")
            return f"of {number}: {', '.join(dict.fromkeys(codes))}"
    return "there is no finding"


def lane_ends(deployment: Deployment, lane: str) -> tuple[ChainDeployment, ChainDeployment]:
    """The chains of a lane such as ``alpha:beta``.

    Raises:
        DeploymentError: it is none of the network's.
    """
    source, separator, destination = lane.partition(":")
    if not separator:
        raise DeploymentError(f"{lane!r} is not a lane, such as alpha:beta")
    ends = deployment.chain(source), deployment.chain(destination)
    if ends[0] == ends[1]:
        raise DeploymentError(f"{lane!r} is not a lane: both its ends are {ends[0].name}")
    return ends


async def read_lane(
    chains: Mapping[int, ChainState],
    ends: tuple[ChainDeployment, ChainDeployment],
    recipient: str | None = None,
) -> tuple[DirectionTrust, DirectionTrust]:
    """Both directions of a lane, as the chains have them now.

    Args:
        chains: the lane's chains by id, connected.
        ends: the lane's.
        recipient: whose policy counts, on whichever end it is; None: one without a policy.

    Raises:
        NotReadableError: a router is none.
        UnansweredError: a chain gives no answer.
    """
    inspectors = {end.chain_id: Inspector(chains[end.chain_id], end.name) for end in ends}
    there, back = await asyncio.gather(
        _read_direction(inspectors, *ends, recipient), _read_direction(inspectors, *ends[::-1], recipient)
    )
    return there, back


async def _read_direction(
    inspectors: Mapping[int, Inspector],
    source: ChainDeployment,
    destination: ChainDeployment,
    recipient: str | None,
) -> DirectionTrust:
    chain, router = inspectors[destination.chain_id], destination.router

    async def ask(function: str, *arguments: Any) -> Any:
        return await chain.read(ROUTER, router, function, *arguments)

    bits, floor, peer = await asyncio.gather(
        ask("enabledGmps"), ask("floorOf", source.chain_id), ask("peerOf", source.chain_id)
    )
    enabled = [number for number in range(1, 17) if bits >> (number - 1) & 1]
    quorum, policy = await ask("policyOf", recipient, source.chain_id) if recipient else (0, 0)
    allowed = frozenset(number for number in enabled if not quorum or policy >> (number - 1) & 1)
    owner, guardian, revoker, tripwire = [
        await chain.account(await ask(function)) for function in ("owner", "guardian", "revoker", "tripwire")
    ]
    adapters = await asyncio.gather(*(_read_adapter(inspectors, source, destination, gmp, peer) for gmp in enabled))
    # The source's contracts say what was sent: who replaces their code forges as well.
    sides = [
        *((inspectors[end.chain_id], "router", end.router) for end in (destination, source)),
        *((chain, f"adapter for {gmp_name(one.gmp)}", one.address) for one in adapters),
        *(
            (inspectors[source.chain_id], f"adapter for {gmp_name(one.gmp)}", one.source_adapter)
            for one in adapters
            if int(one.source_adapter, 16)
        ),
    ]
    proxies = await asyncio.gather(*(inspector.proxy_admin_of(name, address) for inspector, name, address in sides))
    owns = await chain.control(
        "router", router, "owner", owner.address, "sets adapters, peers, floors and roles", forges=True
    )
    gmps = await asyncio.gather(*(_read_gmp(inspectors, source, destination, one) for one in adapters))
    return DirectionTrust(
        source=source,
        destination=destination,
        recipient=recipient,
        peer=to_checksum_address(from_bytes32(peer)) if any(peer) else "",
        floor=floor,
        quorum=quorum or floor,
        allowed=allowed,
        implementation=await chain.implementation(router),
        owner=owner,
        guardian=guardian,
        revoker=revoker,
        tripwire=tripwire,
        controls=(owns, *(control for found in proxies for control in found)),
        adapters=tuple(adapters),
        gmps=tuple(gmps),
    )


async def _read_adapter(
    inspectors: Mapping[int, Inspector],
    source: ChainDeployment,
    destination: ChainDeployment,
    gmp: int,
    peer: bytes,
) -> AdapterTrust:
    chain = inspectors[destination.chain_id]
    address = to_checksum_address(await chain.read(ROUTER, destination.router, "adapterOf", gmp))
    remote = await chain.read(ADAPTER, address, "remoteAdapterOf", source.chain_id, peer)
    sends = await inspectors[source.chain_id].read(ROUTER, source.router, "adapterOf", gmp)
    return AdapterTrust(
        gmp=gmp,
        address=address,
        implementation=await chain.implementation(address),
        remote=f"0x{remote.hex()}",
        source_adapter=to_checksum_address(sends),
    )


async def _read_gmp(
    inspectors: Mapping[int, Inspector], source: ChainDeployment, destination: ChainDeployment, adapter: AdapterTrust
) -> GmpTrust | NotRead:
    name = gmp_name(adapter.gmp)
    reader = trust_reader(Gmp(adapter.gmp), inspectors) if adapter.gmp in tuple(Gmp) else None
    if reader is None:
        return NotRead(adapter.gmp, name, "this version has no reader of it")
    if int(adapter.source_adapter, 16) == 0:
        return NotRead(adapter.gmp, name, f"{source.name} has no adapter for it")
    try:
        return await reader.read(GmpEnds(source, destination, adapter.source_adapter, adapter.address))
    except NotReadableError as error:
        return NotRead(adapter.gmp, name, str(error))


# ---- judging


class Operators:
    """Who runs an address: what this repository names, and what a plan file names; an unknown address is an operator of its own."""

    def __init__(self, named: Mapping[str, str] | None = None) -> None:
        """`named` are names by address, stronger than this repository's."""
        both = {**KNOWN_OPERATORS, **(named or {})}
        self._names = {address.lower(): name for address, name in both.items()}

    def of(self, party: str) -> str:
        """The operator's name, or the address itself."""
        return self._names.get(party.lower(), party)


def assess(direction: DirectionTrust, operators: Operators) -> Assessment:
    """Who could forge a message, who stops that, and what is weak."""
    gmps = tuple(_assess_gmp(one, direction, operators) for one in direction.gmps)
    counted = [_requirement(one.trust) for one in gmps if one.counts]
    takeovers = _at_once(direction.controls)
    receipts = at_least(direction.quorum, counted)
    # A floor of 0 means that no peer was ever set: nothing arrives.
    forgers = minimal_sets(any_of([*([receipts] if direction.quorum else []), *takeovers]), operators.of)
    return Assessment(
        direction=direction,
        gmps=gmps,
        forgers=forgers,
        roles=_roles(direction, gmps, operators),
        findings=tuple(_findings(direction, gmps, forgers, operators)),
        stops=tuple(_stops(direction)),
        could_change=tuple(_could_change(direction)),
    )


def _assess_gmp(trust: GmpTrust | NotRead, direction: DirectionTrust, operators: Operators) -> GmpAssessment:
    verifiers = trust.verifiers if isinstance(trust, GmpTrust) else _unknown(trust)
    return GmpAssessment(
        name=gmp_name(trust.gmp),
        trust=trust,
        counts=trust.gmp in direction.allowed,
        verifiers=minimal_sets(verifiers, operators.of),
        anyone=minimal_sets(_requirement(trust), operators.of),
    )


def _unknown(gmp: NotRead) -> str:
    return f"those who verify for {gmp.name}"


def _requirement(trust: GmpTrust | NotRead) -> Requirement:
    """Who can have the GMP vouch for what was never sent: its verifiers, or an account that replaces them at once."""
    if isinstance(trust, NotRead):
        return _unknown(trust)
    return any_of([trust.verifiers, *_at_once(trust.controls)])


def _at_once(controls: Iterable[Control]) -> list[Requirement]:
    found = (control.account.at_once for control in controls if control.forges)
    return [requirement for requirement in found if requirement is not None]


def _findings(
    direction: DirectionTrust, gmps: Iterable[GmpAssessment], forgers: MinimalSets, operators: Operators
) -> Iterator[Finding]:
    critical, serious, there = Severity.CRITICAL, Severity.SERIOUS, direction.destination.name
    if forgers.least is not None and forgers.least <= 1:
        who = "nobody has to be corrupted" if not forgers.least else "one operator is enough"
        yield Finding("ONE_OPERATOR", critical, f"{who} to execute a forged message: {_shown(forgers)[0]}")
    if 0 < direction.quorum < _LEAST_QUORUM:
        whose = f"{direction.recipient} asks for" if direction.recipient else "the floor is"
        yield Finding("QUORUM_LOW", critical, f"{whose} {direction.quorum}: one GMP that lies is believed alone")
    if direction.recipient and 0 < direction.floor < _LEAST_QUORUM:
        yield Finding("FLOOR_LOW", serious, f"the floor is {direction.floor} for recipients without a policy")
    if direction.peer.lower() != direction.source.router.lower():
        yield Finding(
            "PEER_DIFFERS", critical, f"{there} takes messages of router {direction.peer or 'none'}, not ours"
        )
    yield from _of_adapters(direction)
    yield from _of_roles(direction)
    for one in gmps:
        yield from _of_gmp(one, direction.source)
    yield from _shared(gmps, operators)


def _of_roles(direction: DirectionTrust) -> Iterator[Finding]:
    there = direction.destination.name
    if not direction.owner.is_delayed:
        text = f"the owner of the router on {there} acts at once: {_described(direction.owner)}"
        yield Finding("OWNER_WITHOUT_TIMELOCK", Severity.SERIOUS, text)
    for role, account in (("guardian", direction.guardian), ("revoker", direction.revoker)):
        if account.kind is AccountKind.NOBODY:
            yield Finding(f"{role.upper()}_MISSING", Severity.SERIOUS, f"the router on {there} has no {role}")
        elif account.address == direction.owner.address:
            yield Finding(f"{role.upper()}_IS_OWNER", Severity.NOTICE, f"the {role} on {there} is the owner itself")
    if direction.tripwire.kind is AccountKind.NOBODY:
        yield Finding(
            "TRIPWIRE_MISSING", Severity.NOTICE, f"the router on {there} has no tripwire: people alone stop a liar"
        )
    elif direction.tripwire.address in (direction.owner.address, direction.guardian.address, direction.revoker.address):
        text = f"the tripwire on {there} has another role too: its key may do more than a program should"
        yield Finding("TRIPWIRE_SHARED", Severity.SERIOUS, text)


def _of_adapters(direction: DirectionTrust) -> Iterator[Finding]:
    there = direction.destination
    if direction.implementation:
        yield Finding("UPGRADEABLE", Severity.SERIOUS, f"the router on {there.name} is a proxy")
    for adapter in direction.adapters:
        name = gmp_name(adapter.gmp)
        if adapter.address.lower() != there.adapters.get(name, "").lower():
            text = f"the router on {there.name} believes {adapter.address}, which the deployments file does not have"
            yield Finding("ADAPTER_DIFFERS", Severity.CRITICAL, text, name)
        if adapter.remote != f"0x{to_bytes32(adapter.source_adapter).hex()}":
            text = f"the adapter on {there.name} believes {adapter.remote}, and {direction.source.name} sends by {adapter.source_adapter}"
            yield Finding("REMOTE_DIFFERS", Severity.SERIOUS, text, name)
        if adapter.implementation:
            yield Finding("UPGRADEABLE", Severity.SERIOUS, f"the adapter on {there.name} is a proxy", name)


def _of_gmp(one: GmpAssessment, source: ChainDeployment) -> Iterator[Finding]:
    serious, trust = Severity.SERIOUS, one.trust
    if isinstance(trust, NotRead):
        text = f"nobody knows whom it trusts, so it counts as one operator: {trust.reason}"
        yield Finding("NOT_READ", serious, text, one.name)
        return
    least = one.verifiers.least
    if least is not None and least <= 1:
        who = "no verifier" if not least else "one verifier"
        yield Finding("SINGLE_VERIFIER", serious, f"{who} is enough: {_shown(one.verifiers)[0]}", one.name)
    elif one.anyone.least == 1:
        holders = ", ".join(
            f"{control.role} of {control.contract}"
            for control in trust.controls
            if control.forges and isinstance(control.account.at_once, str)
        )
        text = f"one account changes at once who verifies ({holders}): {_shown(one.anyone)[0]}"
        yield Finding("CONTROLLED_BY_ONE", serious, text, one.name)
    for quorum in _quorums(trust.verifiers):
        total = sum(weight for weight, _ in quorum.members)
        if least and least > 1 and 1 < quorum.needed <= total / 3:
            text = f"{quorum.needed} of {total} are enough, which is a third or less"
            yield Finding("LOW_THRESHOLD", serious, text, one.name)
    if trust.finality.is_shallower_than(source):
        waits = source.finality or f"{source.confirmations} confirmations"
        text = f"it waits for {trust.finality.text} on {source.name}, the network for {waits}"
        yield Finding("FINALITY_SHALLOW", serious, text, one.name)
    if trust.defaults:
        text = f"the GMP may change them at any time: its defaults for {', '.join(trust.defaults)}"
        yield Finding("DEFAULTS", serious, text, one.name)


def _quorums(requirement: Requirement) -> Iterator[Quorum]:
    if isinstance(requirement, Quorum):
        yield requirement
        for _, member in requirement.members:
            yield from _quorums(member)


def _shared(gmps: Iterable[GmpAssessment], operators: Operators) -> Iterator[Finding]:
    behind: dict[str, set[str]] = defaultdict(set)
    for one in gmps:
        if one.counts:
            for party in parties_of(_requirement(one.trust)):
                behind[operators.of(party)].add(one.name)
    for operator, names in sorted(behind.items()):
        if len(names) > 1:
            text = f"{operator} stands behind {', '.join(sorted(names))}: it counts once"
            yield Finding("SHARED_OPERATOR", Severity.SERIOUS, text)


def _described(account: Account) -> str:
    match account.kind:
        case AccountKind.NOBODY:
            return "nobody"
        case AccountKind.KEY:
            return f"key {account.address}"
        case AccountKind.SAFE:
            modules = f", and modules {', '.join(account.modules)}" if account.modules else ""
            return f"Safe {account.address}, {account.threshold} of {len(account.signers)}{modules}"
        case AccountKind.TIMELOCK:
            return f"timelock {account.address}, {account.delay} s"
    behind = f", owned by {_described(account.owner)}" if account.owner else ""
    return f"contract {account.address}{behind}"


def _stops(direction: DirectionTrust) -> Iterator[str]:
    there = direction.destination.name
    if direction.guardian.kind is not AccountKind.NOBODY:
        yield f"the guardian on {there} pauses the GMP or the lane, for 7 days at most: {_described(direction.guardian)}"
    if direction.tripwire.kind is not AccountKind.NOBODY:
        yield f"the tripwire on {there} pauses the GMP, for 6 hours at most: {_described(direction.tripwire)}"
    if direction.revoker.kind is not AccountKind.NOBODY:
        yield f"the revoker on {there} voids the GMP's receipts, or raises the floor: {_described(direction.revoker)}"
    delayed = f", after {LEAST_DELAY} s or more" if direction.owner.is_delayed else ""
    yield f"the owner on {there} may do all of that{delayed}: {_described(direction.owner)}"
    for gmp in direction.gmps:
        if isinstance(gmp, GmpTrust):
            yield from (f"{gmp_name(gmp.gmp)}: {stop}" for stop in gmp.stops)


def _roles(direction: DirectionTrust, gmps: Iterable[GmpAssessment], operators: Operators) -> dict[str, str]:
    """By operator, what it is on this direction of a lane: whose verifier, and what it may change or stop at once."""
    roles: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for requirement, role, whose in _parts(direction, gmps, operators):
        for operator in sorted({operators.of(party) for party in parties_of(requirement or any_of([]))}):
            if whose not in roles[operator][role]:
                roles[operator][role].append(whose)
    return {
        operator: "; ".join(f"{role} {', '.join(whose)}" for role, whose in found.items())
        for operator, found in roles.items()
    }


def _parts(
    direction: DirectionTrust, gmps: Iterable[GmpAssessment], operators: Operators
) -> Iterator[tuple[Requirement | None, str, str]]:
    """Who has a part in a direction, which one, and in what."""
    for one in gmps:
        if one.counts and isinstance(one.trust, GmpTrust):
            verifiers = {operators.of(party) for party in parties_of(one.trust.verifiers)}
            yield one.trust.verifiers, "only verifier of" if len(verifiers) == 1 else "verifier of", one.name
            for control in one.trust.controls:
                if control.forges:
                    signs = "signer for the " if control.account.kind is AccountKind.SAFE else ""
                    yield control.account.at_once, f"{signs}{control.role} behind", one.name
    for control in direction.controls:
        if control.forges:
            yield control.account.at_once, f"{control.role} of Waybill's", control.contract
    there = direction.destination.name
    yield direction.guardian.at_once, "guardian on", there
    yield direction.revoker.at_once, "revoker on", there
    yield direction.tripwire.at_once, "tripwire on", there


def _could_change(direction: DirectionTrust) -> Iterator[str]:
    for gmp in direction.gmps:
        if isinstance(gmp, GmpTrust):
            name = gmp_name(gmp.gmp)
            yield from (f"{name}: the default {default}, by the GMP" for default in gmp.defaults)
            yield from (f"{name}: {_power(control)}" for control in gmp.controls if _can_act(control))
            yield from (f"{name}: {note}" for note in gmp.notes)
    yield from (f"waybill: {_power(control)}" for control in direction.controls if _can_act(control))


def _can_act(control: Control) -> bool:
    return control.account.kind is not AccountKind.NOBODY


def _power(control: Control) -> str:
    when = "after a delay" if control.account.is_delayed else "at once"
    return f"the {control.role} of {control.contract} {control.address} on {control.chain} {control.power}, {when}: {_described(control.account)}"


# ---- values


def _shown(sets: MinimalSets) -> list[str]:
    """Sets for people, such as ``2 of (a, b, c) and d``."""
    found = []
    for one in sets.sets[:_SETS_SHOWN]:
        groups = (
            " and ".join(members) if count == len(members) else f"{count} of ({', '.join(members)})"
            for count, members in one.groups
        )
        found.append(" and ".join(groups) or "nobody")
    return found


def sets_value(sets: MinimalSets) -> dict[str, Any]:
    """Minimal sets for JSON and for people."""
    return {
        "smallest": sets.least,
        "complete": sets.complete and len(sets.sets) <= _SETS_SHOWN,
        "sets": [
            {
                "size": one.size,
                "groups": [{"count": count, "among": list(members)} for count, members in one.groups],
                "text": text,
            }
            for one, text in zip(sets.sets, _shown(sets), strict=False)
        ],
    }


def assessment_value(assessment: Assessment) -> dict[str, Any]:
    """One direction, judged, for JSON."""
    direction = assessment.direction
    return {
        "direction": direction.name,
        "grade": assessment.grade,
        "because": grade_reason(assessment.findings),
        "recipient": direction.recipient,
        "floor": direction.floor,
        "quorum": direction.quorum,
        "forgers": sets_value(assessment.forgers),
        "roles": dict(assessment.roles),
        "gmps": [_gmp_value(one) for one in assessment.gmps],
        "findings": [
            {"code": one.code, "severity": one.severity.value, "gmp": one.gmp or None, "text": one.text}
            for one in assessment.findings
        ],
        "stops": list(assessment.stops),
        "couldChange": list(assessment.could_change),
        "config": direction.config(),
    }


def _gmp_value(one: GmpAssessment) -> dict[str, Any]:
    trust = one.trust
    if isinstance(trust, NotRead):
        return {"gmp": one.name, "read": False, "counts": one.counts, "reason": trust.reason}
    return {
        "gmp": one.name,
        "read": True,
        "counts": one.counts,
        "verifiers": sets_value(one.verifiers),
        "anyone": sets_value(one.anyone),
        "finality": trust.finality.text,
        "defaults": list(trust.defaults),
        "controls": [control.to_value() for control in trust.controls],
    }


def lane_value(deployment: Deployment, assessments: Iterable[Assessment]) -> dict[str, Any]:
    """A lane, judged in both directions, for JSON; its grade is the worse one's."""
    found = list(assessments)
    first = found[0].direction
    return {
        "lane": f"{first.source.name}:{first.destination.name}",
        "name": lane_name(deployment, first.source.chain_id, first.destination.chain_id),
        "grade": max(one.grade for one in found),
        "directions": [assessment_value(one) for one in found],
    }
