"""Measures which lines, branches and functions of contracts/ the Solidity tests reach, and wants all of them.

What no test can reach is in scripts/uncovered.toml with its reason; an entry about something that is reached, or is not there
any more, fails too.
"""

import os
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
WORK = ROOT / "build" / "coverage"
TRACE = WORK / "lcov.info"
EXCEPTIONS = ROOT / "scripts" / "uncovered.toml"
KINDS = {"DA": "line", "BRDA": "branch", "FNDA": "function"}

Gap = tuple[str, str, str]
"""A source, `line`, `branch` or `function`, and the code of the line (or the function's name) that is not reached."""


@dataclass(slots=True)
class Reach:
    """How much of one source is reached, by kind."""

    found: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hit: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def read_trace(trace: Iterable[str], root: Path) -> tuple[dict[str, Reach], set[Gap]]:
    """Read an LCOV trace file, for the sources below contracts/.

    Args:
        trace: its lines.
        root: where the sources that it names lie.
    """
    reached: dict[str, Reach] = {}
    gaps: set[Gap] = set()
    source, code = "", list[str]()
    for record in trace:
        key, _, value = record.strip().partition(":")
        if key == "SF":
            source = value
            code = (root / source).read_text().splitlines() if source.startswith("contracts/") else []
        elif key in KINDS and code:
            kind, parts = KINDS[key], value.split(",")
            # A line and a branch begin with the line's number, a function with how often it was called.
            times, place = (parts[0], parts[1]) if kind == "function" else (parts[-1], code[int(parts[0]) - 1].strip())
            if kind == "line":
                times = parts[1]
            reach = reached.setdefault(source, Reach())
            reach.found[kind] += 1
            if times in {"0", "-"}:
                gaps.add((source, kind, place))
            else:
                reach.hit[kind] += 1
    return reached, gaps


def read_exceptions(text: str) -> set[Gap]:
    """Read the list of what can't be reached.

    Raises:
        ValueError: an entry has no reason.
    """
    entries = tomllib.loads(text).get("gap", [])
    for entry in entries:
        if not entry["reason"].strip():
            raise ValueError(f"{EXCEPTIONS.name}: {entry['code']!r} is listed without a reason")
    return {(entry["source"], entry["kind"], entry["code"]) for entry in entries}


def measure() -> None:
    """Compile without the optimizer, apart from the tests' output, and run all Solidity tests.

    Raises:
        SystemExit: a test failed, or the contracts do not compile.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    folders = {"FOUNDRY_OUT": "build/coverage/out", "FOUNDRY_CACHE_PATH": "build/coverage/cache"}
    command = [str(FORGE), "coverage", "--report", "lcov", "--report-file", str(TRACE)]
    # Without the optimizer a router costs more than its snapshot says.
    command += ["--no-match-path", "tests/solidity/gas/*"]
    # Nothing new is reached by the tenth run of a fuzz test.
    few = {"FOUNDRY_FUZZ_RUNS": "8", "FOUNDRY_INVARIANT_RUNS": "1", "FOUNDRY_INVARIANT_DEPTH": "16"}
    if subprocess.run(command, cwd=ROOT, env={**os.environ, **folders, **few}, check=False).returncode:
        sys.exit("forge coverage failed; see the lines above")


def share(reach: Reach, kind: str) -> str:
    """`12/12`, or nothing where there is none of the kind."""
    return f"{reach.hit[kind]}/{reach.found[kind]}" if reach.found[kind] else ""


def main() -> int:
    """Measure, print, compare; 0 if everything is reached that can be."""
    measure()
    reached, gaps = read_trace(TRACE.read_text().splitlines(), ROOT)
    known = read_exceptions(EXCEPTIONS.read_text())
    print(f"{'':<44} {'lines':>10} {'branches':>10} {'functions':>10}")
    total = Reach()
    for source, reach in sorted(reached.items()):
        print(f"{source:<44} " + " ".join(f"{share(reach, kind):>10}" for kind in KINDS.values()))
        for kind in KINDS.values():
            total.found[kind] += reach.found[kind]
            total.hit[kind] += reach.hit[kind]
    print(f"{'all':<44} " + " ".join(f"{share(total, kind):>10}" for kind in KINDS.values()))
    for source, kind, place in sorted(gaps - known):
        print(
            f"not reached: {kind} in {source}: {place}. Write a test, or explain it in {EXCEPTIONS.relative_to(ROOT)}"
        )
    for source, kind, place in sorted(known - gaps):
        print(f"explained, but reached or gone: {kind} in {source}: {place}")
    print(f"{len(gaps)} gaps, {len(gaps & known)} explained", flush=True)
    return 0 if gaps == known else 1


if __name__ == "__main__":
    sys.exit(main())
