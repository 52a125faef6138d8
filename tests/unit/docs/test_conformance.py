"""The tests that the pages of promises name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("conformance.md", "INVARIANTS.md")


def existing_tests() -> set[str]:
    """The names of all tests in Python and Solidity."""
    names: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        names.update(re.findall(r"def (test_\w+)", path.read_text()))
    for path in (ROOT / "tests" / "solidity").rglob("*.sol"):
        names.update(re.findall(r"function ((?:test|invariant|check)\w*)", path.read_text()))
    return names


def test_named_tests_exist() -> None:
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text()
        named = set(re.findall(r"[`\[]((?:test|invariant|check)(?:_|Fuzz_)\w+)[`\]]", text))
        assert len(named) > 40, page
        assert sorted(named - existing_tests()) == [], page
