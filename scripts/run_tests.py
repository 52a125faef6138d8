"""Runs the linters and the tests, and prints `<n> passed, <n> failed` as the last line.

python -m scripts.run_tests          what `make test` runs
python -m scripts.run_tests --all    what `make test-all` runs: also everything marked `long`, the proofs and the twins
python -m scripts.run_tests --lint   the linters alone

The suites run one after another, and each uses both cores. A suite passes if it exits with status 0; its output is parsed only
for the counts in the final table.
"""

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.release import ROUTER

ROOT = Path(__file__).resolve().parents[1]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
FORGE = str(ROOT / "build" / "tools" / "bin" / "forge")
ANSI_CODES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Counts:
    """A suite's test counts.

    Attributes:
        passed: Number of passed tests.
        failed: Number of failed tests, and errors outside a test.
    """

    passed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Suite:
    """A command that runs tests.

    Attributes:
        name: Name in the table.
        command: Program and arguments.
        counts: Parses the counts from the command's output.
        environment: Additional environment variables.
    """

    name: str
    command: Sequence[str]
    counts: Callable[[str], Counts]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one suite.

    Attributes:
        name: Name in the table.
        counts: Test counts.
        seconds: Wall-clock time.
        cpu: CPU time of all its processes, in seconds.
    """

    name: str
    counts: Counts
    seconds: float
    cpu: float


def pytest_counts(output: str) -> Counts:
    """Parses pytest's last line, such as `= 1 failed, 5 passed, 1 error in 0.3s =`."""
    closing = [line for line in output.splitlines() if re.search(r"\bin \d+\.\d+s\b", line)]
    number = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", closing[-1])} if closing else {}
    return Counts(number.get("passed", 0), sum(number.get(word, 0) for word in ("failed", "error", "errors")))


def forge_counts(output: str) -> Counts:
    """Parses forge's last line: `Ran 2 test suites in 1s (2s CPU time): 9 tests passed, 1 failed, 0 skipped (…)`."""
    lines = re.findall(r"^Ran \d+ test suites? .*: (\d+) tests? passed, (\d+) failed", output, re.MULTILINE)
    return Counts(*map(int, lines[-1])) if lines else Counts(0, 0)


def node_counts(output: str) -> Counts:
    """Parses the summary of Node's test runner: `ℹ pass 5`, `ℹ fail 1`, …; a cancelled test counts as failed."""
    number = {word: int(count) for word, count in re.findall(r"^ℹ ([a-z]+) (\d+)$", output, re.MULTILINE)}
    return Counts(number.get("pass", 0), number.get("fail", 0) + number.get("cancelled", 0))


def check_counts(_: str) -> Counts:
    """Returns a count of one passed test, for a check without tests."""
    return Counts(1, 0)


def tool(name: str, *arguments: str) -> Suite:
    """Returns a suite that passes if the tool exits with status 0."""
    return Suite(name, arguments, check_counts, {})


def lint_suites() -> list[Suite]:
    """Returns the checks of style, types and layers."""
    venv = ROOT / ".venv" / "bin"
    tsc = ROOT / "dapp" / "node_modules" / ".bin" / "tsc"
    return [
        tool("ruff check", str(venv / "ruff"), "check", "--quiet", "."),
        tool("ruff format", str(venv / "ruff"), "format", "--check", "--quiet", "."),
        tool("forge fmt", FORGE, "fmt", "--check"),
        tool("layers", str(venv / "lint-imports"), "--cache-dir", "build/cache/import_linter"),
        tool("mypy", str(venv / "mypy"), "--no-error-summary"),
        tool("tsc", str(tsc), "--project", "dapp"),
    ]


def test_suites(seed: int | None) -> list[Suite]:
    """Returns the test suites.

    The quick tests; with a seed, also the long tests that use it, the proofs and the twins.
    """
    pytest = [
        PYTHON,
        "-m",
        "pytest",
        "--numprocesses=2",
        "--dist=loadgroup",
        "--no-loadscope-reorder",
        "--durations=20",
    ]
    deployed = {"WAYBILL_ROUTER": str(ROUTER.relative_to(ROOT))}
    if seed is None:
        return [
            Suite("contracts", [FORGE, "test"], forge_counts, deployed),
            Suite("python", pytest, pytest_counts, {}),
            Suite("kit", ["npm", "--prefix", "dapp", "--silent", "test"], node_counts, {}),
        ]
    print(f"seed {seed}; `python -m scripts.run_tests --all --seed {seed}` repeats this run", flush=True)
    return [
        Suite("contracts", [FORGE, "test"], forge_counts, deployed | {"FOUNDRY_FUZZ_SEED": hex(seed)}),
        Suite("proofs", [PYTHON, "-m", "scripts.prove"], pytest_counts, {}),
        Suite("twins", [PYTHON, "-m", "scripts.twins"], pytest_counts, {}),
        Suite("python", pytest, pytest_counts, {}),
        Suite(
            "python long",
            [*pytest, "-m", "long", f"--hypothesis-seed={seed}"],
            pytest_counts,
            {"WAYBILL_TEST_SEED": str(seed)},
        ),
        Suite("kit", ["npm", "--prefix", "dapp", "--silent", "test"], node_counts, {}),
        Suite("kit long", ["npm", "--prefix", "dapp", "--silent", "run", "test:long"], node_counts, {}),
    ]


def processor_seconds() -> float:
    """Returns the CPU time in seconds of all child processes that have exited, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(suite: Suite) -> Result:
    """Runs one suite and streams its output."""
    print(f"\n=== {suite.name}", flush=True)
    started, used = time.monotonic(), processor_seconds()
    output = bytearray()
    process = subprocess.Popen(
        suite.command,
        cwd=ROOT,
        env={**os.environ, **suite.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        while chunk := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
            output += chunk
        code = process.wait()
    finally:
        stop(process)
    counts = suite.counts(ANSI_CODES.sub("", output.decode(errors="replace")))
    if code and not counts.failed:
        counts = Counts(0 if suite.counts is check_counts else counts.passed, 1)
    elif not counts.passed and not counts.failed:
        print(f"{suite.name} ran no test")
        counts = Counts(0, 1)
    return Result(suite.name, counts, time.monotonic() - started, processor_seconds() - used)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stops a suite and its child processes. SIGINT comes first, so that tests can tear down chains and Spark."""
    for number, patience in ((signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue


def compile_contracts() -> Result:
    """Compiles the contracts with the release profile, for all suites."""
    return run(tool("compile", PYTHON, "-m", "scripts.release"))


def report(results: Sequence[Result], seconds: float) -> int:
    """Prints the table and the last line; returns the exit status."""
    print(f"\n{'suite':<12} {'passed':>6} {'failed':>6} {'seconds':>8} {'cpu':>8}")
    for result in results:
        counts = result.counts
        print(f"{result.name:<12} {counts.passed:>6} {counts.failed:>6} {result.seconds:>8.1f} {result.cpu:>8.1f}")
    print(f"{'all':<26} {seconds:>8.1f} {sum(result.cpu for result in results):>8.1f}")
    passed = sum(result.counts.passed for result in results)
    failed = sum(result.counts.failed for result in results)
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main() -> int:
    """Runs the requested suites."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--all", action="store_true", help="also the long tests, the proofs and the twins")
    chosen.add_argument("--lint", action="store_true", help="the linters alone")
    parser.add_argument("--seed", type=int, help="the seed of the long tests (default: a random one)")
    arguments = parser.parse_args()
    started = time.monotonic()
    results = [run(suite) for suite in lint_suites()]
    if not arguments.lint:
        results.append(compile_contracts())
        seed = (arguments.seed or random.SystemRandom().getrandbits(32)) if arguments.all else None
        results += [run(suite) for suite in test_suites(seed)]
    return report(results, time.monotonic() - started)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exits normally, so that the suites' processes are stopped
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
