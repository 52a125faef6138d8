"""Each defect that was found from outside has a test that bears its number."""

from __future__ import annotations

from scripts.findings import commands, findings, named_tests


def test_every_finding_has_a_test_and_every_number_is_known() -> None:
    named = {finding for finding, _ in named_tests()}
    assert sorted(findings().keys() - named) == [], "no test names them"
    assert sorted(named - findings().keys()) == [], "tests/findings.toml does not have them"


def test_each_runner_gets_the_tests_of_its_kind() -> None:
    assert set(commands(set(findings()))) == {"pytest", "forge", "kit"}
    assert "forge" in commands({"C1"})
