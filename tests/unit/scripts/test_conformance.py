"""The table of requirements: no test names one that does not exist, and no row is open without a reason."""

from __future__ import annotations

import re

import pytest

from scripts.build_docs import conformance
from scripts.conformance import REASONS, headings, main, parts, proofs, requirements


def test_every_requirement_has_a_test_and_a_place_or_a_reason() -> None:
    known, found = requirements(), proofs()
    assert sorted(set(found) - set(known)) == [], "named by a test, and not in docs/conformance.toml"
    assert [name for name, row in known.items() if not row.reason and not (found.get(name) and row.where)] == []
    assert [name for name, row in known.items() if row.reason and (found.get(name) or row.where or row.open)] == [], (
        "a row has a test or a reason, not both"
    )


def test_a_solidity_test_may_name_its_rows_over_several_lines() -> None:
    test = "tests/solidity/router/receiveMessage.t.sol::testFuzz_Revert_When_TheSameGmpDeliversAgain"
    assert {"OIP-8", "OBX-11", "OBX-27", "X-3"} <= {row for row, tests in proofs().items() if test in tests}


def test_a_typescript_test_names_its_rows_in_the_line_above_it() -> None:
    (test,) = (test for test in proofs()["OIP-38"] if test.startswith("dapp/test/sending.test.ts::"))
    assert test.endswith("::a message of each kind is routed without a ttl, and lives as long as its kind should")
    assert {row for row, tests in proofs().items() if test in tests} == {f"OIP-{number}" for number in range(34, 44)}


def test_a_reason_is_one_of_three_with_its_sentence() -> None:
    excused = {name: row for name, row in requirements().items() if row.reason or row.why}
    assert [name for name, row in excused.items() if row.reason not in REASONS or not row.why.endswith(".")] == []


def test_rows_are_in_the_order_of_their_documents() -> None:
    numbers: dict[str, list[int]] = {}
    for name in requirements():
        document, number = re.fullmatch(r"([A-Z]+)-(\d+)", name).groups()  # type: ignore[union-attr]  # else the test fails
        numbers.setdefault(document, []).append(int(number))
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    assert list(headings()) == ["OIP-1", "GLA-1", "OBX-1", "SF-1", "X-1", "OBXS-1"]


def test_the_command_prints_row_place_tests_and_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["conformance"])
    assert main() == 0
    printed = capsys.readouterr()
    rows = dict(re.findall(r"^\| ([A-Z]+-\d+): (.*)$", printed.out, re.MULTILINE))
    assert rows.keys() == requirements().keys()
    assert rows["OIP-12"].split(" | ")[1] == "the Solidity kit: StateHashGuard"
    assert rows["OIP-12"].endswith("| proven |")
    assert "proven" in printed.err


def test_the_page_follows_the_documents_part_by_part() -> None:
    page = conformance()
    found = re.findall(r"^## (.+)$|^### (.+)$|^\| ([A-Z]+-\d+) \|", page, re.MULTILINE)
    expected: list[tuple[str, str, str]] = []
    for name in requirements():
        expected += [(headings()[name], "", "")] if name in headings() else []
        expected += [("", parts()[name], "")] if name in parts() else []
        expected.append(("", "", name))
    assert found == expected
    assert len(parts()) > 20
    assert page.count("\n|---|") == len(headings().keys() | parts().keys()), "each part is a table of its own"
