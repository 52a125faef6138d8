"""Small faults are made from the compiler's own syntax tree, and what became of each survives an interruption."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts.mutation.__main__ import explained, read_results
from scripts.mutation.operators import Mutant, mutants
from scripts.mutation.trial import FIRST_TESTS, first_files, sources

ROOT = Path(__file__).resolve().parents[3]
SOLC = ROOT / "build" / "tools" / "bin" / "solc"
SAMPLE = """\
// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

contract Vault {
    error TooMuch(uint256 amount);

    mapping(address => uint256) private held;
    bool private open = true;

    modifier whileOpen() {
        if (!open) revert();
        _;
    }

    // A comment: 1 + 1 == 2.
    function take(uint256 amount) external whileOpen {
        if (amount > held[msg.sender]) revert TooMuch(amount);
        held[msg.sender] -= amount;
    }
}
"""


@pytest.fixture(scope="module")
def made() -> list[Mutant]:
    wanted = {
        "language": "Solidity",
        "sources": {"Vault.sol": {"content": SAMPLE}},
        "settings": {"outputSelection": {"*": {"": ["ast"]}}},
    }
    done = subprocess.run(
        [str(SOLC), "--standard-json"], input=json.dumps(wanted), capture_output=True, text=True, check=True
    )
    tree = json.loads(done.stdout)["sources"]["Vault.sol"]["ast"]
    return list(mutants("Vault.sol", SAMPLE.encode(), tree))


def lines_after(made: list[Mutant], operator: str) -> list[str]:
    texts = [mutant.applied(SAMPLE.encode()).decode() for mutant in made if mutant.operator == operator]
    return [line.strip() for text in texts for line in text.splitlines() if line not in SAMPLE.splitlines()]


def test_comparison_is_moved_to_its_boundary_and_to_its_opposite(made: list[Mutant]) -> None:
    assert lines_after(made, "swap operator") == [
        "if (amount <= held[msg.sender]) revert TooMuch(amount);",
        "if (amount >= held[msg.sender]) revert TooMuch(amount);",
    ]


def test_check_is_removed_by_a_condition_that_never_holds(made: list[Mutant]) -> None:
    assert "if (false) revert TooMuch(amount);" in lines_after(made, "condition false")


def test_statement_is_deleted(made: list[Mutant]) -> None:
    assert "{}" in lines_after(made, "delete statement")
    assert "if (amount > held[msg.sender]) {}" in lines_after(made, "delete statement")


def test_modifier_and_negation_are_dropped_and_an_assignment_swapped(made: list[Mutant]) -> None:
    assert lines_after(made, "drop modifier") == ["function take(uint256 amount) external  {"]
    assert lines_after(made, "drop negation") == ["if (open) revert();"]
    assert lines_after(made, "swap assignment") == ["held[msg.sender] += amount;"]


def test_comments_and_types_are_left_alone(made: list[Mutant]) -> None:
    assert made
    assert all("A comment" not in mutant.code and "mapping" not in mutant.code for mutant in made)
    assert len({mutant.id for mutant in made}) == len(made)


def test_results_are_read_up_to_a_line_that_an_interruption_cut_off(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    assert read_results(results) == {}
    results.write_text('{"id": "a", "status": "killed"}\n{"id": "b", "sta')
    assert read_results(results) == {"a": {"id": "a", "status": "killed"}}


def test_survivor_is_explained_by_its_line_and_by_nothing_else(made: list[Mutant]) -> None:
    mutant, other = made[0], made[-1]
    known = {"source": "Vault.sol", "operator": mutant.operator, "code": mutant.code, "after": mutant.after}
    assert explained(mutant, [{**known, "reason": "it is the same"}]) == "it is the same"
    assert explained(other, [{**known, "reason": "it is the same"}]) == ""


def test_what_runs_on_chain_is_mutated_and_interfaces_are_not() -> None:
    found = sources()
    assert {"contracts/Router.sol", "contracts/types/MessageRecords.sol", "contracts/adapters/CcipAdapter.sol"} <= set(
        found
    )
    assert "contracts/client/IRouterClient.sol" not in found
    folders = {source.split("/")[1] for source in found if source.count("/") == 2}
    with_sources = {path.parent.name for path in (ROOT / "contracts").glob("*/*.sol")}
    assert with_sources - folders == {"conformance", "interfaces", "testing"}


@pytest.mark.parametrize("source", sources())
def test_every_source_has_test_files_of_its_own(source: str) -> None:
    assert first_files(source) != []


@pytest.mark.parametrize("name", sorted({name for names in FIRST_TESTS.values() for name in names}))
def test_test_file_named_for_a_source_exists(name: str) -> None:
    assert list((ROOT / "tests" / "solidity").rglob(f"{name}.t.sol"))


def test_tests_of_the_sending_half_come_first_for_it() -> None:
    assert first_files("contracts/SenderBase.sol") == [
        "tests/solidity/router/retryRoute.t.sol",
        "tests/solidity/router/route.t.sol",
    ]
