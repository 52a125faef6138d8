"""Prints each requirement: what a user runs to get it, the tests that prove it, and the verdict.

python -m scripts.conformance           the table
python -m scripts.conformance --missing the rows that are not proven and have no reason
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
KIT_TESTS = ROOT / "dapp" / "test"
_SOLIDITY_NAMED = re.compile(
    r"@custom:requirement ((?:[A-Z]+-\d+,?(?: |\n\s*/// (?=[A-Z]+-\d))?)+)\s*\n\s*(?:///[^\n]*\n\s*)*function (\w+)"
)
"""The rows and the function: a list that ends with a comma goes on in the next line."""

_TYPESCRIPT_NAMED = re.compile(r'^// @requirement ([A-Z0-9, -]+)\ntest\("([^"]+)"', re.MULTILINE)


REASONS: Final = ("optional", "another layer", "not applicable")
"""What may stand instead of a test."""


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement.

    Attributes:
        name: its number, such as OIP-12.
        text: what the document asks for.
        level: the document's keyword; empty where it has none.
        where: what a user runs to get it.
        reason: one of `REASONS` if no test can prove it.
        why: the reason's sentence.
        open: what a user does not get yet.
    """

    name: str
    text: str
    level: str = ""
    where: str = ""
    reason: str = ""
    why: str = ""
    open: str = ""

    def verdict(self, tests: Sequence[str]) -> str:
        """Proven, excused, or what is missing."""
        if self.reason:
            return f"{self.reason}: {self.why}"
        if self.open:
            return f"open: {self.open}"
        return "proven" if tests else "no test"


def requirements() -> dict[str, Row]:
    """Every requirement by its id, in the documents' order."""
    with (ROOT / "docs" / "conformance.toml").open("rb") as file:
        return {name: Row(name, **row) for name, row in tomllib.load(file).items()}


def headings() -> dict[str, str]:
    """By the first row of each document, what the document is called."""
    return _titled(r"# [A-Z]\. (.+)")


def parts() -> dict[str, str]:
    """By the first row of each part of a document, what the part is called."""
    return _titled(r"## (.+)")


def _titled(pattern: str) -> dict[str, str]:
    """By the next row after each line of that pattern, what the line names."""
    found, title = dict[str, str](), ""
    for line in (ROOT / "docs" / "conformance.toml").read_text(encoding="utf-8").splitlines():
        if named := re.fullmatch(pattern, line):
            title = named.group(1)
        elif title and (row := re.fullmatch(r"\[([A-Z]+-\d+)\]", line)):
            found[row.group(1)], title = title, ""
    return found


def proofs() -> dict[str, list[str]]:
    """By requirement, the tests that name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for requirement, test in named_tests():
        found[requirement].append(test)
    return found


def named_tests() -> Iterator[tuple[str, str]]:
    """Every (requirement, test) that a marker in Python, or a tag in Solidity or TypeScript, states."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for requirement in _marked(node):
                    yield requirement, f"{path.relative_to(ROOT)}::{node.name}"
    yield from _tagged(TESTS, "*.t.sol", _SOLIDITY_NAMED)
    yield from _tagged(KIT_TESTS, "*.test.ts", _TYPESCRIPT_NAMED)


def _tagged(folder: Path, files: str, tag: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob(files)):
        for names, test in tag.findall(path.read_text()):
            for requirement in re.findall(r"[A-Z]+-\d+", names):
                yield requirement, f"{path.relative_to(ROOT)}::{test}"


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.requirement"):
            yield from (str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant))


def main() -> int:
    """Prints the table; fails if a test names a requirement that does not exist."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="only the requirements that are not proven")
    only_missing = parser.parse_args().missing
    known, found = requirements(), proofs()
    titles = headings()
    print("| row | where | tests | verdict |\n|---|---|---|---|")
    for name, row in known.items():
        verdict = row.verdict(found.get(name, []))
        if name in titles and not only_missing:
            print(f"| **{titles[name]}** | | | |")
        if not only_missing or verdict == "no test" or row.open:
            print(f"| {name}: {row.text} | {row.where} | {', '.join(found.get(name, []))} | {verdict} |")
    unknown = sorted(set(found) - set(known))
    for name in unknown:
        print(f"unknown requirement {name}, named by {', '.join(found[name])}", file=sys.stderr)
    verdicts = Counter(row.verdict(found.get(name, [])).partition(":")[0] for name, row in known.items())
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()), file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
