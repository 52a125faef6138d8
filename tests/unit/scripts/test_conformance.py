"""The table of requirements: no test names one that does not exist, and no row is open without a reason."""

from __future__ import annotations

from collections import defaultdict

from scripts.conformance import named_tests, reasons, requirements


def test_every_requirement_has_a_test_or_a_reason() -> None:
    proofs = defaultdict(list)
    for requirement, test in named_tests():
        proofs[requirement].append(test)
    known, explained = requirements(), reasons()
    assert sorted(set(proofs) - set(known)) == [], "named by a test, and not in docs/conformance.toml"
    open_rows = [name for name in known if not proofs[name] and name not in explained]
    assert open_rows == []
    assert [name for name in explained if proofs[name]] == [], "a row has a test or a reason, not both"
