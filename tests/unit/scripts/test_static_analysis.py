"""slither's findings are named by detector and place, and each has its reason in docs/static-analysis.toml."""

from typing import Any

import pytest

from scripts.static_analysis import EXPLANATIONS, explained, findings


def function(name: str, contract: str) -> dict[str, Any]:
    parent = {"type": "contract", "name": contract, "type_specific_fields": {"parent": {"type": "file"}}}
    return {"type": "function", "name": name, "type_specific_fields": {"parent": parent}}


def report(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"results": {"detectors": [{"check": "timestamp", "elements": [element]} for element in elements]}}


def test_finding_is_named_by_contract_and_function_whatever_its_arguments() -> None:
    assert findings(report(function("withdraw(address)", "RouterViews"))) == {("timestamp", "RouterViews.withdraw")}


def test_finding_in_a_statement_is_named_by_its_function() -> None:
    statement = {"type": "node", "name": "x = 1", "type_specific_fields": {"parent": function("set(uint48)", "Log")}}
    assert findings(report(statement)) == {("timestamp", "Log.set")}


def test_report_without_findings_is_read() -> None:
    assert findings({"results": {}}) == set()


def test_explanation_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="timestamp is listed without a reason"):
        explained('[[finding]]\ncheck = "timestamp"\nplaces = ["A.b"]\nreason = " "\n')


def test_every_explanation_of_the_repository_is_read() -> None:
    assert ("assembly", "BoundedCall.tryCall") in explained(EXPLANATIONS.read_text())
