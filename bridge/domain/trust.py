"""Whom a lane trusts: who verifies for each GMP, who may change that, and the smallest groups that could forge a message.

Pure: readers of chains fill these records in, and `minimal_sets` counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from bridge.domain.ports import Chain, Watch
from bridge.protocol.deployment import ChainDeployment, FinalityTag
from bridge.protocol.gmps import Gmp

NOBODY: Final = "0x" + "00" * 20

LEAST_DELAY: Final = 24 * 3600
"""Seconds that a timelock must hold a change back, so that an operator can act before it applies."""

_MOST_PER_SIZE: Final = 200
"""Groups of one size that are kept while sets are computed: beyond that the answer says that it is not complete."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Parties whose weights must reach a sum. A party is an address, a name, or a quorum of its own."""

    needed: int
    members: tuple[tuple[int, Requirement], ...]  # weight, party


Requirement = str | Quorum
"""Who has to take part: one party, or a quorum of them."""


def at_least(needed: int, parties: Iterable[Requirement]) -> Quorum:
    """So many of some parties, each with the same weight."""
    return Quorum(needed, tuple((1, party) for party in parties))


def any_of(parties: Iterable[Requirement]) -> Quorum:
    """One of some parties; nobody can if there are none."""
    return at_least(1, parties)


def all_of(parties: Sequence[Requirement]) -> Quorum:
    """All of some parties; nobody is needed if there are none."""
    return at_least(len(parties), parties)


def parties_of(requirement: Requirement) -> Iterator[str]:
    """Every address and name in a requirement."""
    if isinstance(requirement, str):
        yield requirement
        return
    for _, member in requirement.members:
        yield from parties_of(member)


@dataclass(frozen=True, slots=True)
class MinimalSet:
    """Operators who together suffice, and of whom none can be missing: so many of each group."""

    groups: tuple[tuple[int, tuple[str, ...]], ...]  # how many, of whom

    @property
    def size(self) -> int:
        """How many operators."""
        return sum(count for count, _ in self.groups)


@dataclass(frozen=True, slots=True)
class MinimalSets:
    """All minimal sets, the smallest first."""

    sets: tuple[MinimalSet, ...]
    complete: bool  # False: there are too many to compute, and these are the smallest that were found

    @property
    def least(self) -> int | None:
        """Operators in the smallest one; None if nobody can."""
        return self.sets[0].size if self.sets else None


Vector = tuple[int, ...]
"""How many operators of each class."""


def minimal_sets(requirement: Requirement, operator_of: Callable[[str], str] = str) -> MinimalSets:
    """Who has to take part, counted by operator.

    Operators with the same weight in the same places are interchangeable: they form a class, and a set is how many of each
    class. So 13 of 19 guardians are one set, not 27,132.

    Args:
        requirement: who suffices.
        operator_of: who runs an address.
    """
    places: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    root = _numbered(requirement if isinstance(requirement, Quorum) else any_of([requirement]), operator_of, places)
    classes: dict[frozenset[tuple[int, int]], list[str]] = defaultdict(list)
    for operator, weights in places.items():
        classes[frozenset(weights.items())].append(operator)
    ordered = [(dict(signature), tuple(sorted(members))) for signature, members in classes.items()]
    vectors, complete = _vectors(root, ordered)
    sets = (
        MinimalSet(tuple((count, members) for count, (_, members) in zip(vector, ordered, strict=True) if count))
        for vector in vectors
    )
    return MinimalSets(tuple(sorted(sets, key=lambda one: (one.size, one.groups))), complete)


@dataclass(frozen=True, slots=True)
class _Node:
    """A quorum with a number, by which the places of operators are known."""

    number: int
    needed: int
    parts: tuple[tuple[int, _Node], ...]


def _numbered(quorum: Quorum, operator_of: Callable[[str], str], places: dict[str, dict[int, int]]) -> _Node:
    numbers = iter(range(1 << 30))

    def visit(one: Quorum) -> _Node:
        number, parts = next(numbers), []
        for weight, member in one.members:
            if isinstance(member, Quorum):
                parts.append((weight, visit(member)))
            else:
                places[operator_of(member)][number] += weight  # two keys of one operator are one operator
        return _Node(number, one.needed, tuple(parts))

    return visit(quorum)


def _vectors(node: _Node, classes: Sequence[tuple[Mapping[int, int], tuple[str, ...]]]) -> tuple[list[Vector], bool]:
    """The least numbers of each class that satisfy a quorum, and whether these are all."""
    complete, nothing = True, (0,) * len(classes)
    states: dict[Vector, int] = {nothing: 0}  # the weight that each has
    direct = [(weights[node.number], at) for at, (weights, _) in enumerate(classes) if node.number in weights]
    for weight, at in sorted(direct, reverse=True):
        ways = [(_at(nothing, at, count), weight * count) for count in range(1, len(classes[at][1]) + 1)]
        states, whole = _joined(states, ways, node.needed)
        complete &= whole
    for weight, part in sorted(node.parts, key=lambda one: -one[0]):
        found, whole = _vectors(part, classes)
        states, kept = _joined(states, [(vector, weight) for vector in found], node.needed)
        complete &= whole and kept
    return _least([vector for vector, weight in states.items() if weight >= node.needed]), complete


def _at(vector: Vector, at: int, count: int) -> Vector:
    return (*vector[:at], count, *vector[at + 1 :])


def _joined(
    states: Mapping[Vector, int], ways: Sequence[tuple[Vector, int]], needed: int
) -> tuple[dict[Vector, int], bool]:
    """Each state as it is, and with each way added, unless it has enough; of each size the heaviest."""
    found = dict(states)
    for state, weight in states.items():
        for way, added in ways if weight < needed else ():
            both = tuple(map(max, state, way))
            found[both] = max(found.get(both, 0), weight + added)
    by_size: dict[int, list[tuple[int, Vector]]] = defaultdict(list)
    for vector, weight in found.items():
        by_size[sum(vector)].append((weight, vector))
    complete = all(len(same) <= _MOST_PER_SIZE for same in by_size.values())
    heaviest = (sorted(same, reverse=True)[:_MOST_PER_SIZE] for same in by_size.values())
    return {vector: weight for same in heaviest for weight, vector in same}, complete


def _least(vectors: Sequence[Vector]) -> list[Vector]:
    """Those that are above no other one."""
    found: list[Vector] = []
    for vector in sorted(set(vectors), key=sum):
        if not any(all(a <= b for a, b in zip(other, vector, strict=True)) for other in found):
            found.append(vector)
    return found


class AccountKind(StrEnum):
    """What stands at the address of an account that decides."""

    NOBODY = "nobody"
    KEY = "key"
    SAFE = "safe"
    TIMELOCK = "timelock"
    CONTRACT = "contract"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account that may decide, as the chain shows it."""

    address: str
    kind: AccountKind
    delay: int = 0  # seconds, of a timelock
    threshold: int = 0  # of a Safe
    signers: tuple[str, ...] = ()  # of a Safe
    modules: tuple[str, ...] = ()  # of a Safe: contracts that act for it without its signers
    owner: Account | None = None  # of a contract that has one

    @property
    def at_once(self) -> Requirement | None:
        """Who can act through it without delay; None if nobody can."""
        if self.kind is AccountKind.NOBODY or self.is_delayed:
            return None
        if self.kind is AccountKind.SAFE:
            return any_of([at_least(self.threshold, self.signers), *self.modules])
        return self.owner.at_once if self.owner else self.address

    @property
    def is_delayed(self) -> bool:
        """Whether a timelock of at least `LEAST_DELAY` stands before whatever it does."""
        if self.kind is AccountKind.TIMELOCK:
            return self.delay >= LEAST_DELAY
        return self.owner is not None and self.owner.is_delayed

    def to_value(self) -> dict[str, Any]:
        """For JSON."""
        value: dict[str, Any] = {"address": self.address, "kind": self.kind.value}
        if self.kind is AccountKind.TIMELOCK:
            value["delay"] = self.delay
        if self.kind is AccountKind.SAFE:
            value |= {"threshold": self.threshold, "signers": list(self.signers), "modules": list(self.modules)}
        return value | ({"owner": self.owner.to_value()} if self.owner else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An account that can change something that the lane rests on."""

    chain: str
    contract: str  # what it is, such as ``Mailbox``
    address: str
    role: str  # such as ``owner``
    account: Account
    power: str  # what it may do, for people
    forges: bool  # whether messages can be made up with it

    def to_value(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "chain": self.chain,
            "contract": self.contract,
            "address": self.address,
            "role": self.role,
            "account": self.account.to_value(),
            "power": self.power,
            "forges": self.forges,
        }


@dataclass(frozen=True, slots=True)
class Finality:
    """What a GMP waits for before it vouches for a message."""

    text: str  # for people
    blocks: int | None = None  # that must lie on top of the message's; None: no contract says a number
    tag: FinalityTag | None = None  # what the source must call the block; None: no contract says it

    def is_shallower_than(self, chain: ChainDeployment) -> bool:
        """Whether it is known to wait for less than the network does on that chain."""
        if self.blocks is not None:
            return self.blocks < chain.confirmations or (self.blocks == 0 and chain.finality is not None)
        return (self.tag, chain.finality) == ("safe", "finalized")


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpTrust:
    """What one GMP rests on in one direction of a lane."""

    gmp: Gmp
    config: Mapping[str, Any]  # what is set on chain, for JSON: what `waybill trust check` compares
    verifiers: Requirement  # who can vouch for a message that was never sent
    controls: tuple[Control, ...] = ()
    finality: Finality
    defaults: tuple[str, ...] = ()  # what the adapter could choose and leaves to the GMP
    stops: tuple[str, ...] = ()  # what of the GMP's own stops a forgery that is noticed
    notes: tuple[str, ...] = ()
    watch: Mapping[int, Watch] = field(default_factory=dict)  # by chain id, the logs of changes


@dataclass(frozen=True, slots=True)
class NotRead:
    """A GMP whose trust could not be read."""

    gmp: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class GmpEnds:
    """One direction of a lane, as the routers have it for one GMP."""

    source: ChainDeployment
    destination: ChainDeployment
    source_adapter: str
    adapter: str  # on the destination


class ChainState(Chain, Protocol):
    """A chain whose accounts can be looked into."""

    async def code(self, address: str) -> bytes:
        """The contract at an address, or nothing if there is none."""

    async def storage(self, address: str, slot: int) -> bytes:
        """A word of a contract's storage."""


class NotReadableError(Exception):
    """A contract is not what it should be; the text says which one."""


class TrustReader(Protocol):
    """Reads whom one GMP trusts; see `bridge.gmps.registry.trust_reader`."""

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """What the GMP rests on in that direction.

        Raises:
            NotReadableError: its contracts are not what this version knows.
            UnansweredError: a chain gives no answer.
        """
