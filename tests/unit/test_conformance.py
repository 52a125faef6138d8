"""The table of requirements: no test names one that does not exist, and no row is open without a reason."""

from __future__ import annotations

from collections import defaultdict

from scripts.conformance import named_tests, reasons, requirements

COMPLETE = ("OIP-", "X-")  # every row of these has a test, or a reason why there is none


def test_every_requirement_of_the_fault_tolerance_document_has_a_test_or_a_reason() -> None:
    proofs = defaultdict(list)
    for requirement, test in named_tests():
        proofs[requirement].append(test)
    known, explained = requirements(), reasons()
    assert sorted(set(proofs) - set(known)) == [], "named by a test, and not in docs/conformance.toml"
    open_rows = [name for name in known if name.startswith(COMPLETE) and not proofs[name] and name not in explained]
    assert open_rows == []
