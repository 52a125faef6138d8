"""The tests that the promises' pages name exist, and run in `make test`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("conformance.md", "INVARIANTS.md")


def functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Every function of a module, and whether the module or a decorator marks it `long`."""
    module_is_long = any(isinstance(node, ast.Assign) and "mark.long" in ast.unparse(node) for node in tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, module_is_long or any("mark.long" in ast.unparse(one) for one in node.decorator_list)


def long_by_name() -> dict[str, bool]:
    """Whether each test is `long`. Solidity's tests never are."""
    found: dict[str, bool] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        if "def test_" in (text := path.read_text()):
            found |= {node.name: is_long for node, is_long in functions(ast.parse(text))}
    for path in (ROOT / "tests" / "solidity").rglob("*.sol"):
        for name in re.findall(r"function ((?:test|invariant|check)\w*)", path.read_text()):
            found[name] = False
    return found


def test_named_tests_exist_and_run_in_make_test() -> None:
    known = long_by_name()
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text()
        named = set(re.findall(r"[`\[]((?:test|invariant|check)(?:_|Fuzz_)\w+)[`\]]", text))
        assert len(named) > 40, page
        assert sorted(named - known.keys()) == [], page
        assert sorted(name for name in named if known[name]) == [], page
