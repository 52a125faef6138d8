"""A trace of coverage is read by line, branch and function, and what is not reached is named by its code."""

from pathlib import Path

import pytest

from scripts.coverage import EXCEPTIONS, read_exceptions, read_trace

TRACE = """\
TN:
SF:contracts/A.sol
FN:1,A.f
FNDA:3,A.f
FN:3,A.g
FNDA:0,A.g
DA:2,3
DA:4,0
BRDA:2,0,0,1
BRDA:2,0,1,-
end_of_record
SF:tests/solidity/B.t.sol
DA:1,0
end_of_record
"""


def test_unreached_lines_branches_and_functions_of_contracts_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "A.sol").write_text("function f() {\n  if (x) y();\n}\n  z();\n")
    reached, gaps = read_trace(TRACE.splitlines(), tmp_path)
    assert list(reached) == ["contracts/A.sol"]
    assert (dict(reached["contracts/A.sol"].found), dict(reached["contracts/A.sol"].hit)) == (
        {"function": 2, "line": 2, "branch": 2},
        {"function": 1, "line": 1, "branch": 1},
    )
    assert gaps == {
        ("contracts/A.sol", "function", "A.g"),
        ("contracts/A.sol", "line", "z();"),
        ("contracts/A.sol", "branch", "if (x) y();"),
    }


def test_exception_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="without a reason"):
        read_exceptions('[[gap]]\nsource = "a"\nkind = "line"\ncode = "b"\nreason = ""\n')


def test_exceptions_of_the_repository_name_lines_that_exist() -> None:
    root = EXCEPTIONS.parents[1]
    for source, kind, code in read_exceptions(EXCEPTIONS.read_text()):
        lines = [line.strip() for line in (root / source).read_text().splitlines()]
        assert code in lines or kind == "function", f"{source}: {code}"
