"""Prints which test proves which requirement, and the requirements that no test names yet.

python -m scripts.conformance           the table
python -m scripts.conformance --missing the rows without a test and without a reason
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
_SOLIDITY_NAMED = re.compile(r"@custom:requirement ([A-Z0-9, -]+)\s*\n\s*(?:///[^\n]*\n\s*)*function (\w+)")


def requirements() -> dict[str, str]:
    """The text of every requirement by its id."""
    return {name: row["text"] for name, row in _rows().items()}


def reasons() -> dict[str, str]:
    """Why there is no test, by requirement."""
    return {name: row["reason"] for name, row in _rows().items() if "reason" in row}


def _rows() -> dict[str, dict[str, str]]:
    with (ROOT / "docs" / "conformance.toml").open("rb") as file:
        return tomllib.load(file)


def named_tests() -> Iterator[tuple[str, str]]:
    """Every (requirement, test) that a marker in Python or a tag in Solidity states."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for requirement in _marked(node):
                    yield requirement, f"{path.relative_to(ROOT)}::{node.name}"
    for path in sorted(TESTS.rglob("*.t.sol")):
        for names, function in _SOLIDITY_NAMED.findall(path.read_text()):
            for requirement in re.findall(r"[A-Z]+-\d+", names):
                yield requirement, f"{path.relative_to(ROOT)}::{function}"


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.requirement"):
            yield from (str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant))


def main() -> int:
    """Prints the table; fails if a test names a requirement that does not exist."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="only the requirements that no test names")
    only_missing = parser.parse_args().missing
    known, explained = requirements(), reasons()
    proofs: dict[str, list[str]] = defaultdict(list)
    for requirement, test in named_tests():
        proofs[requirement].append(test)
    for name, text in known.items():
        if only_missing and (proofs.get(name) or name in explained):
            continue
        print(f"{name:9} {text}")
        if name in explained and not proofs.get(name):
            print(f"          no test: {explained[name]}")
        for test in proofs.get(name, []):
            print(f"          {test}")
    unknown = sorted(set(proofs) - set(known))
    for name in unknown:
        print(f"unknown requirement {name}, named by {', '.join(proofs[name])}", file=sys.stderr)
    proven = sum(1 for name in known if proofs.get(name))
    print(
        f"\n{proven} of {len(known)} requirements are named by a test, {len(explained)} have a reason", file=sys.stderr
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
