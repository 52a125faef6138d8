"""Runs the tests of every defect that was found from outside, or of those named.

python -m scripts.findings          all of them
python -m scripts.findings R1 E4    those of two

A test names its finding: with pytest's marker `finding`, with `Finding_<number>_` in a forge test's name, or with a title
that begins with `<number>: ` in a test of the dApp kit.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
_FORGE_TEST = re.compile(r"function (\w*?Finding_([A-Z]\d+)_\w+)")
_KIT_TEST = re.compile(r"""\b(?:test|it)\(\s*["'`]([A-Z]\d+): """)


def findings() -> dict[str, str]:
    """What each finding was, by its number."""
    with (TESTS / "findings.toml").open("rb") as file:
        return tomllib.load(file)


def named_tests() -> Iterator[tuple[str, str]]:
    """Yield every (finding, test): pytest's by marker, forge's by name, the kit's by title."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for finding in _marked(node):
                    yield finding, f"{path.relative_to(ROOT)}::{node.name}"
    for path in sorted(TESTS.rglob("*.t.sol")):
        for function, finding in _FORGE_TEST.findall(path.read_text()):
            yield finding, f"{path.relative_to(ROOT)}::{function}"
    for path in sorted((ROOT / "dapp" / "test").rglob("*.test.ts")):
        for finding in _KIT_TEST.findall(path.read_text()):
            yield finding, str(path.relative_to(ROOT))


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.finding"):
            yield from (str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant))


def commands(chosen: set[str]) -> dict[str, list[str]]:
    """The command of each runner that has a test of one of these findings."""
    files: dict[str, set[str]] = {"forge": set(), "pytest": set(), "kit": set()}
    for finding, test in named_tests():
        if finding in chosen:
            path = test.split("::")[0]
            runner = "forge" if path.endswith(".sol") else "kit" if path.endswith(".ts") else "pytest"
            files[runner].add(test if runner == "pytest" else path)
    numbers = "|".join(sorted(chosen))
    kit = ["node", "--conditions=source", "--import", "tsx", "--test", "--test-reporter=spec"]
    runners = {  # forge first: it compiles, which would take a test of Python past its limit on a busy machine
        "forge": [str(ROOT / "build/tools/bin/forge"), "test", "--match-test", f"Finding_({numbers})_"],
        "pytest": [sys.executable, "-m", "pytest", "-m", "finding and not sweep", *sorted(files["pytest"])],
        "kit": [*kit, f"--test-name-pattern=^({numbers}): ", *sorted(file[5:] for file in files["kit"])],
    }
    return {name: command for name, command in runners.items() if files[name]}


def main() -> int:
    """Run the tests; fail if one fails, or if a finding has none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("findings", nargs="*", metavar="NUMBER", help="such as R1 (default: all)")
    known = findings()
    chosen = set(parser.parse_args().findings) or set(known)
    if unknown := chosen - set(known):
        parser.error(f"tests/findings.toml has no {', '.join(sorted(unknown))}")
    if untested := chosen - {finding for finding, _ in named_tests()}:
        print(f"no test names {', '.join(sorted(untested))}", file=sys.stderr)
    codes = []
    for runner, command in commands(chosen).items():
        print(f"\n=== {runner}", flush=True)
        codes.append(subprocess.run(command, cwd=ROOT / "dapp" if runner == "kit" else ROOT, check=False).returncode)
    return 1 if untested or any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
