"""What counts as proven: a claim that holds on every path, beside a control that fails."""

import shlex
from pathlib import Path

import pytest

from scripts.prove import Answer, answers, contracts, solver_command, unpaired

PASSED, COUNTEREXAMPLE, TIMEOUT, STUCK, REVERT_ALL, EXCEPTION = range(6)


def answer(function: str, outcome: int, *, cut_loops: int = 0) -> Answer:
    return Answer(contract="SampleProofs", function=function, outcome=outcome, cut_loops=cut_loops, seconds=0.1)


def test_claim_that_holds_and_control_that_fails_are_what_is_wanted() -> None:
    assert answer("check_X", PASSED).fault == ""
    assert answer("control_X", COUNTEREXAMPLE).fault == ""


@pytest.mark.parametrize("outcome", [COUNTEREXAMPLE, TIMEOUT, STUCK, REVERT_ALL, EXCEPTION])
def test_claim_with_any_other_answer_is_not_proven(outcome: int) -> None:
    assert "claim" in answer("check_X", outcome).fault


@pytest.mark.parametrize("outcome", [PASSED, TIMEOUT, STUCK, REVERT_ALL, EXCEPTION])
def test_control_without_a_counterexample_is_a_failure(outcome: int) -> None:
    assert "control" in answer("control_X", outcome).fault


def test_claim_whose_loops_were_cut_is_not_proven() -> None:
    assert "3 loops" in answer("check_X", PASSED, cut_loops=3).fault


def test_claim_without_its_control_is_named() -> None:
    found = [answer("check_X", PASSED), answer("check_Y", PASSED), answer("control_Y", COUNTEREXAMPLE)]
    assert list(unpaired(found)) == ["SampleProofs.X: claim without a control"]


def test_report_of_halmos_is_read() -> None:
    row = {"name": "check_X(uint256)", "exitcode": 0, "num_bounded_loops": 1, "time": [2.5, 2.0, 0.5]}
    (read,) = answers({"tests/solidity/symbolic/Sample.proof.sol:SampleProofs": [row]})
    assert read == Answer(contract="SampleProofs", function="check_X", outcome=0, cut_loops=1, seconds=2.5)


def test_every_contract_of_proofs_is_found() -> None:
    assert {"MessageProofs", "ReceivingProofs", "GovernanceProofs"} <= set(contracts(""))
    assert contracts("Governance") == ["GovernanceProofs"]


def test_the_solver_is_found_below_a_path_with_a_space() -> None:
    """halmos splits the command as a shell would; a solver that it can't start leaves every control unrefuted."""
    provers = Path("/a new user/waybill/tools")
    assert shlex.split(solver_command(provers))[0] == "/a new user/waybill/tools/yices-smt2"
