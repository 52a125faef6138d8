"""Proves the claims in tests/solidity/symbolic with halmos, and refutes the control of each claim.

A claim is a function `check_X`. Its control `control_X` makes the same claim about a twin without the check, or
about an authorised account. A claim counts as proven only if no path was cut short, and a control counts as
refuted only if halmos found arguments for which it fails: a proof whose control also holds shows nothing. The
last line is `<n> passed, <n> failed in <s>s`.

    python -m scripts.prove              the bounds of `make test-all`
    python -m scripts.prove --deep       more arguments in every list and payload, and contracts that take minutes
    python -m scripts.prove Receiving    only contracts whose name contains this
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scripts.setup_proofs import PROVERS, ROOT

SOURCES = ROOT / "tests" / "solidity" / "symbolic"
WORK = ROOT / "build" / "proofs"
CONTRACT = re.compile(r"^contract (\w+Proofs) is", re.MULTILINE)
DEEP_CONTRACT = re.compile(r"DeepProofs$")
"""Too slow for `make test-all`."""
AT_ONCE = 2
"""Number of halmos processes, each of which uses one core."""

BOUNDS = ("--loop", "20", "--solver-timeout-branching", "2s", "--solver-timeout-assertion", "120s", "--early-exit")
QUICK = ("--default-array-lengths", "1", "--default-bytes-lengths", "0,32,65")
DEEP = ("--default-array-lengths", "0,1,2", "--default-bytes-lengths", "0,1,31,32,33,65,1024")

PROVEN, REFUTED = 0, 1
OUTCOMES = {
    PROVEN: "holds",
    REFUTED: "has a counterexample",
    2: "is undecided: the solver ran out of time",
    3: "is undecided: a path could not be followed",
    4: "says nothing: every path reverts",
    5: "could not be run",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """halmos' result for one function."""

    contract: str
    function: str
    """Without its arguments: `check_X` or `control_X`."""
    outcome: int
    """halmos' exit code for it."""
    cut_loops: int
    """Loops that were not followed to their end, so that paths are missing."""
    seconds: float

    @property
    def claim(self) -> str:
        """The name shared by a claim and its control."""
        return f"{self.contract}.{self.function.split('_', 1)[1]}"

    @property
    def is_control(self) -> bool:
        """Whether the function must fail."""
        return self.function.startswith("control_")

    @property
    def fault(self) -> str:
        """Returns the reason why the result is unexpected, or an empty string if it is as expected."""
        if self.is_control:
            return "" if self.outcome == REFUTED else f"control {OUTCOMES[self.outcome]}, so its claim shows nothing"
        if self.outcome != PROVEN:
            return f"claim {OUTCOMES[self.outcome]}"
        return f"claim was followed for some paths only: {self.cut_loops} loops were cut" if self.cut_loops else ""


def answers(report: dict[str, list[dict[str, object]]]) -> Iterator[Answer]:
    """Reads `test_results` from halmos' report."""
    for place, results in report.items():
        for result in results:
            times = result["time"]
            yield Answer(
                contract=place.rsplit(":", 1)[1],
                function=str(result["name"]).split("(")[0],
                outcome=int(str(result["exitcode"])),
                cut_loops=int(str(result["num_bounded_loops"] or 0)),
                seconds=float(times[0]) if isinstance(times, list) else 0.0,
            )


def unpaired(found: list[Answer]) -> Iterator[str]:
    """Returns claims without a control and controls without a claim."""
    for claim in sorted({answer.claim for answer in found}):
        sides = {answer.is_control for answer in found if answer.claim == claim}
        if len(sides) == 1:
            yield f"{claim}: {'control without a claim' if True in sides else 'claim without a control'}"


def contracts(pattern: str) -> list[str]:
    """Returns the proof contracts whose names contain `pattern`, ordered by file name."""
    texts = (path.read_text() for path in sorted(SOURCES.glob("*.proof.sol")))
    return [name for text in texts for name in CONTRACT.findall(text) if pattern in name]


def solver_command(provers: Path) -> str:
    """Returns the solver's command line, which halmos splits like a shell."""
    return shlex.join((str(provers / "yices-smt2"), "--smt2-model-format", "--bvconst-in-decimal"))


def follow(name: str, bounds: tuple[str, ...]) -> list[Answer]:
    """Runs halmos on one contract and prints the results; halmos' own output goes to a log.

    Raises:
        SystemExit: halmos exited without a report.
    """
    report, log = WORK / f"{name}.json", WORK / f"{name}.log"
    report.unlink(missing_ok=True)
    command = [str(PROVERS / "halmos"), "--no-status", "--root", str(ROOT), "--forge-build-out", "build/proofs/out"]
    command += ["--match-contract", f"^{name}$", "--match-test", "^(check|control)_"]
    command += ["--solver-command", solver_command(PROVERS), "--json-output", str(report), *BOUNDS, *bounds]
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=output, stderr=output, check=False)
    if not report.exists():
        raise SystemExit(f"halmos exited with status {done.returncode}: see {log}")
    found = list(answers(json.loads(report.read_text())["test_results"]))
    for answer in found:
        mark = "FAILED" if answer.fault else "ok    "
        print(
            f"  {mark} {answer.contract}.{answer.function} ({answer.seconds:.1f} s) {answer.fault}".rstrip(), flush=True
        )
    return found


def environment() -> dict[str, str]:
    """Returns the environment for halmos, with this project's forge and a separate home folder for solvers."""
    path = f"{ROOT / 'build' / 'tools' / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "FOUNDRY_PROFILE": "proofs", "HOME": str(WORK), "PATH": path, "NO_COLOR": "1"}


def prove(names: list[str], bounds: tuple[str, ...]) -> list[Answer]:
    """Compiles once, then runs halmos on the contracts in parallel.

    Raises:
        SystemExit: halmos exited without a report.
        subprocess.CalledProcessError: the contracts do not compile.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    build = ["forge", "build", "--ast", "--quiet", "--extra-output", "storageLayout", "metadata"]
    subprocess.run(build, cwd=ROOT, env=environment(), check=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [answer for found in pool.map(lambda name: follow(name, bounds), names) for answer in found]


def main() -> int:
    """Proves the requested contracts; returns 0 only if every claim holds and every control fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "contract", nargs="?", default="", help="part of the name of a contract of proofs, deep ones too"
    )
    parser.add_argument("--deep", action="store_true", help="longer lists and payloads; takes much longer")
    given = parser.parse_args()
    started = time.monotonic()
    names = contracts(given.contract)
    if not given.deep and not given.contract:
        names = [name for name in names if not DEEP_CONTRACT.search(name)]
    if not names:
        parser.error(
            f"no proof contract's name contains {given.contract!r}; the contracts are {', '.join(contracts(''))}"
        )
    found = prove(names, DEEP if given.deep else QUICK)
    lonely = list(unpaired(found))
    print("".join(f"  FAILED {line}\n" for line in lonely), end="")
    missing = set(names) - {answer.contract for answer in found}
    print("".join(f"  FAILED {name}: halmos ran none of its claims\n" for name in sorted(missing)), end="")
    failed = sum(bool(answer.fault) for answer in found) + len(lonely) + len(missing)
    passed = len(found) - sum(bool(answer.fault) for answer in found)
    print(f"{passed} passed, {failed} failed in {time.monotonic() - started:.2f}s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"The proofs do not compile: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
