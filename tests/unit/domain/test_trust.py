"""The smallest groups that could forge a message, against every group tried one by one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.domain.operators import KNOWN_OPERATORS
from bridge.domain.trust import (
    LEAST_DELAY,
    NOBODY,
    Account,
    AccountKind,
    Finality,
    Quorum,
    Requirement,
    any_of,
    at_least,
    minimal_sets,
    parties_of,
)
from bridge.protocol.deployment import ChainDeployment
from bridge.queries.trust import Operators

KEYS = tuple("abcdefgh")
OPERATOR = {key: key if key < "f" else "a" for key in KEYS}  # three of the keys are in one hand


def quorums(parties: st.SearchStrategy[Requirement]) -> st.SearchStrategy[Requirement]:
    members = st.lists(st.tuples(st.integers(1, 3), parties), max_size=5)
    return members.flatmap(
        lambda found: st.integers(0, sum(weight for weight, _ in found) + 1).map(
            lambda needed: Quorum(needed, tuple(found))
        )
    )


REQUIREMENTS = st.recursive(st.sampled_from(KEYS), quorums, max_leaves=14)


def suffices(requirement: Requirement, operators: frozenset[str]) -> bool:
    """Whether so many operators can do it: the definition."""
    if isinstance(requirement, str):
        return OPERATOR[requirement] in operators
    weight = sum(weight for weight, member in requirement.members if suffices(member, operators))
    return weight >= requirement.needed


def by_brute_force(requirement: Requirement) -> set[frozenset[str]]:
    everybody = sorted({OPERATOR[key] for key in KEYS})
    groups = [frozenset(one) for size in range(len(everybody) + 1) for one in itertools.combinations(everybody, size)]
    enough = [group for group in groups if suffices(requirement, group)]
    return {group for group in enough if not any(other < group for other in enough)}


@given(REQUIREMENTS)
def test_minimal_sets_are_those_that_trying_every_group_finds(requirement: Requirement) -> None:
    found = minimal_sets(requirement, OPERATOR.__getitem__)
    expanded: set[frozenset[str]] = set()
    for one in found.sets:
        ways = itertools.product(*(itertools.combinations(members, count) for count, members in one.groups))
        for way in ways:
            group = frozenset(itertools.chain(*way))
            assert len(group) == one.size
            assert group not in expanded, "no group is named twice"
            expanded.add(group)
    assert found.complete
    assert expanded == by_brute_force(requirement)
    assert found.least == min(map(len, expanded), default=None)


def test_as_many_guardians_as_wormhole_has_are_one_group() -> None:
    guardians = at_least(13, [f"guardian {number}" for number in range(19)])
    validators = at_least(2, ["x", "y", "z"])
    (only,) = minimal_sets(at_least(2, [guardians, validators])).sets
    assert sorted((count, len(members)) for count, members in only.groups) == [(2, 3), (13, 19)]


def test_a_set_with_all_weights_different_is_cut_off_and_says_so() -> None:
    weights = range(101, 151)  # sets are 2^50 here; the least is the heaviest that reach the sum
    signers = Quorum(sum(weights) * 2 // 3, tuple((weight, f"signer {weight}") for weight in weights))
    found = minimal_sets(signers)
    heaviest = itertools.accumulate(sorted(weights, reverse=True))
    assert not found.complete
    assert found.least == next(count for count, total in enumerate(heaviest, 1) if total >= signers.needed)


def test_an_operator_behind_two_gmps_counts_once() -> None:
    receipts = at_least(2, [at_least(2, ["a", "b"]), at_least(2, ["f", "c"])])
    assert minimal_sets(receipts).least == 4
    assert minimal_sets(receipts, OPERATOR.__getitem__).least == 3


def test_who_acts_at_once_is_the_owner_behind_and_nobody_behind_a_timelock() -> None:
    key = Account(address="0x01", kind=AccountKind.KEY)
    safe = Account(address="0x02", kind=AccountKind.SAFE, threshold=2, signers=("a", "b", "c"))
    slow = Account(address="0x03", kind=AccountKind.TIMELOCK, delay=LEAST_DELAY)
    fast = Account(address="0x03", kind=AccountKind.TIMELOCK, delay=LEAST_DELAY - 1)
    assert key.at_once == "0x01"
    assert minimal_sets(safe.at_once or "") == minimal_sets(at_least(2, "abc"))
    assert slow.at_once is None
    assert fast.at_once == "0x03", "a delay of less than a day leaves nobody the time to act"
    assert Account(address=NOBODY, kind=AccountKind.NOBODY).at_once is None
    for owner in (key, safe, slow):
        admin = Account(address="0x04", kind=AccountKind.CONTRACT, owner=owner)
        assert (admin.at_once, admin.is_delayed) == (owner.at_once, owner.is_delayed)


def test_names_of_the_plan_are_stronger_than_those_committed() -> None:
    staked = [address for address, name in KNOWN_OPERATORS.items() if name == "Staked"]
    assert len(staked) == 2, "Staked verifies for Wormhole and for Hyperlane"
    assert {Operators().of(address.upper().replace("X", "x", 1)) for address in staked} == {"Staked"}
    assert Operators({staked[0].lower(): "another"}).of(staked[0]) == "another"
    assert Operators().of("0xab") == "0xab"


@pytest.mark.parametrize(
    ("waits", "confirmations", "tag", "is_shallow"),
    [
        (Finality("one block", blocks=1), 1, None, False),
        (Finality("one block", blocks=1), 2, None, True),
        (Finality("instant", blocks=0), 0, None, False),
        (Finality("instant", blocks=0), 0, "finalized", True),
        (Finality("many blocks", blocks=64), 2, "finalized", False),
        (Finality("safe", tag="safe"), 0, "finalized", True),
        (Finality("safe", tag="safe"), 0, "safe", False),
        (Finality("final", tag="finalized"), 64, "finalized", False),
        (Finality("nobody says"), 64, "finalized", False),
    ],
)
def test_finality_is_shallow_where_it_is_known_to_be_less_than_the_networks(
    waits: Finality, confirmations: int, tag: str | None, is_shallow: bool
) -> None:
    address = "0x" + "01" * 20
    chain = {"chainId": 1, "name": "alpha", "rpcUrls": ["http://a"], "startBlock": 0, "router": address}
    deployed = ChainDeployment.model_validate(
        {**chain, "adapters": {}, "gmps": {}, "confirmations": confirmations, "finality": tag}
    )
    assert waits.is_shallower_than(deployed) is is_shallow


def test_parties_are_every_key_of_a_requirement() -> None:
    assert sorted(parties_of(any_of(["a", at_least(1, ["b", "a"])]))) == ["a", "a", "b"]
