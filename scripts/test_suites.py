"""Runs the checks and the test suites in two lanes beside each other, and counts what passed.

One lane has the suites that compute, the other has those that mostly wait: for chains, for Spark, for a browser. A line that
they print begins with the name of its suite.

The last line is `<n> passed, <n> failed`. The exit code is 0 only if nothing failed; a skipped test, a suite that ran no
test and a suite that ended badly without naming a failed test each count as failed.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import IO

from scripts import release

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv" / "bin"
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
ANSI_CODES = re.compile(r"\x1b\[[0-9;]*m")
FAILURES = re.compile(r"^(?:FAILED |ERROR |\[FAIL|✖ (?!failing tests)).*", re.MULTILINE)
"""How pytest, forge and Node's test runner name a test that failed."""
HANGING = re.compile(r'^  File "\S*/(tests/[^"]+)", (line \d+ in test_\w+)', re.MULTILINE)
"""How pytest names, among the stacks that it shows after `faulthandler_timeout`, a test that nothing ended."""
WHOLE_BUDGET = 1750
"""Seconds that all suites together may take, in two lanes on two quiet cores; with set-up that is half an hour."""
OVERRUN = 2
"""A suite that takes this many times its budget hangs, and is stopped."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tests by outcome; errors outside a test count as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def pytest_counts(output: str) -> Counts:
    """Read pytest's closing line, such as `= 1 failed, 5 passed, 1 error in 0.3s =`."""
    closing = [line for line in output.splitlines() if re.search(r"\bin \d+\.\d+s\b", line)]
    found = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", closing[-1])} if closing else {}
    failed = sum(found.get(word, 0) for word in ("failed", "error", "errors", "xpassed"))
    return Counts(found.get("passed", 0), failed, found.get("skipped", 0) + found.get("xfailed", 0))


def forge_counts(output: str) -> Counts:
    """Read forge's closing line: `Ran 2 test suites in 1s (2s CPU time): 9 tests passed, 1 failed, 0 skipped (…)`."""
    found = re.findall(
        r"^Ran \d+ test suites? .*: (\d+) tests? passed, (\d+) failed, (\d+) skipped", output, re.MULTILINE
    )
    return Counts(*map(int, found[-1])) if found else Counts()


def node_counts(output: str) -> Counts:
    """Read the summary of Node's test runner: `ℹ pass 5`, `ℹ fail 1`, …; a cancelled test counts as failed."""
    found = {word: int(number) for word, number in re.findall(r"^ℹ ([a-z]+) (\d+)$", output, re.MULTILINE)}
    failed, skipped = found.get("fail", 0) + found.get("cancelled", 0), found.get("skipped", 0) + found.get("todo", 0)
    return Counts(found.get("pass", 0), failed, skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests that one command runs."""

    name: str
    title: str
    command: tuple[str, ...]
    budget: int
    """Seconds the suite may take on two cores, beside one of the other lane."""
    counts: Callable[[str], Counts]
    missing: Callable[[], str | None] = lambda: None
    """Brings what the suite alone needs; says why it can't."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one suite, or of all the checks."""

    name: str
    passed: int
    failed: int
    seconds: float
    cpu: float
    """Seconds of processor time: far less than two for each second on the clock means a busy machine, not a slow suite."""
    budget: int
    note: str = ""
    failures: tuple[str, ...] = ()
    """What the runner printed of each failed test, a line each."""


BESIDE_EACH_OTHER = ("--numprocesses=logical", "--maxprocesses=4", "--dist=loadfile")
"""For tests whose files share no chain, no Spark and no clock: one process for each core, a file in one of them."""


def kafka_missing() -> str | None:
    """Fetch a broker's jars, if they are not here; return why they can't be had."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.setup_kafka"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=False,
        text=True,
        stderr=subprocess.STDOUT,
    )
    print(done.stdout, end="", flush=True)
    return None if done.returncode == 0 else "Apache Kafka can't be fetched"


def pytest_suite(
    name: str, title: str, budget: int, *options: str, missing: Callable[[], str | None] = lambda: None
) -> Suite:
    """Describe the suite of Python tests in tests/<name>."""
    return Suite(
        name=name,
        title=title,
        command=(sys.executable, "-m", "pytest", f"tests/{name}", "--durations=5", *options),
        budget=budget,
        counts=pytest_counts,
        missing=missing,
    )


SUITES = (
    Suite(
        name="solidity",
        title="contracts, with forge",
        command=(str(FORGE), "test"),
        budget=500,
        counts=forge_counts,
        missing=release.missing,
    ),
    Suite(
        name="release",
        title="the router as it is deployed, with forge",
        command=(sys.executable, "-m", "scripts.release", "--test"),
        budget=240,
        counts=forge_counts,
    ),
    Suite(
        name="proofs",
        title="claims about the contracts, with halmos",
        command=(sys.executable, "-m", "scripts.prove"),
        budget=420,
        counts=pytest_counts,
    ),
    Suite(
        name="twins",
        title="routers that lack a check, a sample",
        command=(sys.executable, "-m", "scripts.twins", "--sample", "3"),
        budget=150,
        counts=pytest_counts,
    ),
    pytest_suite("unit", "Python, without chains or Spark", 900, *BESIDE_EACH_OTHER),
    pytest_suite("simulation", "storms in a simulated world", 360, *BESIDE_EACH_OTHER[:2], "--dist=load"),
    pytest_suite("anvil", "Python, against real anvil chains", 800, *BESIDE_EACH_OTHER, missing=release.missing),
    pytest_suite("spark", "Python, on real Spark sessions", 600, *BESIDE_EACH_OTHER),
    pytest_suite("kafka", "streams out, with a real Apache Kafka", 200, *BESIDE_EACH_OTHER, missing=kafka_missing),
    Suite(
        name="web",
        title="the dApp kit and its page, with anvil and Chromium",
        command=("npm", "--prefix", "dapp", "--silent", "test"),
        budget=480,
        counts=node_counts,
    ),
)

WAITING = ("lint", "spark", "kafka", "anvil", "web")
"""The lane of the suites that wait, after the quick look at everything; the other suites keep the cores busy beside it."""

CHECKS = {
    "style of Python": (str(VENV / "ruff"), "check", "--quiet", "."),
    "format of Python": (str(VENV / "ruff"), "format", "--check", "--quiet", "."),
    "format of Solidity": (str(FORGE), "fmt", "--check"),
    "types": (str(VENV / "mypy"), "--no-error-summary"),
    "types of TypeScript": (str(ROOT / "dapp" / "node_modules" / ".bin" / "tsc"), "--project", "dapp"),
    "layers": (str(VENV / "lint-imports"), "--cache-dir", "build/cache/import_linter"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended.

    Attributes:
        code: its exit code.
        output: what it printed.
        seconds: by the wall clock.
        cpu: seconds of processor time that it and its children used.
        stopped: whether it ran into its limit.
    """

    code: int
    output: str
    seconds: float
    cpu: float
    stopped: bool


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started; the first signal lets it tear down devnets, which takes Spark a while."""
    for end, patience in ((signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)


def output_of(process: subprocess.Popen[bytes], pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield what a process prints until it ends, even if something it started still holds its output open."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None
            if selector.select(timeout=0.2):
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    return
                yield chunk
            elif ended:
                return


class Shown:
    """Prints what a command says: as it comes, or a line at a time behind the name of its suite."""

    def __init__(self, prefix: str = "") -> None:
        """Nothing was said yet."""
        self._prefix = prefix.encode()
        self._pending = b""

    def chunk(self, said: bytes) -> None:
        """Prints what is new, up to the last whole line if lines are told apart."""
        if not self._prefix:
            self._print(said)
            return
        *lines, self._pending = (self._pending + said).split(b"\n")
        self._print(b"".join(self._prefix + line + b"\n" for line in lines))

    def end(self) -> None:
        """Prints a last line that was not ended."""
        if self._pending:
            self.chunk(b"\n")

    def line(self, text: str) -> None:
        """Prints a line that the command did not say."""
        self.chunk(f"{text}\n".encode())

    def _print(self, said: bytes) -> None:
        sys.stdout.buffer.write(said)
        sys.stdout.flush()


def run(command: tuple[str, ...], limit: float, show: Shown | None = None) -> Run:
    """Run a command in a process group of its own, which does not outlive it.

    Args:
        command: program and arguments.
        limit: seconds after which it is stopped.
        show: prints its output as it comes; None prints nothing.
    """
    started, used = time.monotonic(), cpu_of_children()
    colour = {"FORCE_COLOR": "1"} if show is not None and sys.stdout.isatty() else {}
    environment = {**os.environ, **colour}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert process.stdout is not None
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        end_group(process)

    timer = threading.Timer(limit, stop)
    timer.start()
    chunks: list[bytes] = []
    try:
        for chunk in output_of(process, process.stdout):
            chunks.append(chunk)
            if show is not None:
                show.chunk(chunk)
        code = process.wait()
    finally:
        timer.cancel()
        end_group(process)
        process.stdout.close()
        if show is not None:
            show.end()
    output = ANSI_CODES.sub("", b"".join(chunks).decode(errors="replace"))
    return Run(code, output, time.monotonic() - started, cpu_of_children() - used, stopped.is_set())


def cpu_of_children() -> float:
    """Seconds of processor time of all processes that this one has started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_checks(show: Shown) -> Result:
    """Run the linters of code and prose, the type checker and the layer check; print what each finds."""
    started, used = time.monotonic(), cpu_of_children()
    failed = 0
    for name, command in CHECKS.items():
        done = run(command, limit=600)
        show.line(f"  {'FAILED' if done.code else 'ok    '} {name} ({done.seconds:.1f} s)")
        if done.code:
            failed += 1
            show.line(done.output)
    took, cpu = time.monotonic() - started, cpu_of_children() - used
    return Result(name="lint", passed=len(CHECKS) - failed, failed=failed, seconds=took, cpu=cpu, budget=120)


def judge(suite: Suite, done: Run) -> Result:
    """Count a suite's tests; whatever keeps it from being plainly green counts as failed."""
    counts = suite.counts(done.output)
    failed = counts.failed + counts.skipped
    note = f"{counts.skipped} skipped, which counts as failed" if counts.skipped else ""
    failures = FAILURES.findall(done.output)
    if done.stopped:
        failures += [f"hangs: {file}, {line}" for file, line in HANGING.findall(done.output)]
        failed, note = failed + 1, f"stopped after {done.seconds:.0f} s"
    elif done.code and not failed:
        failed, note = 1, f"ended with exit code {done.code}"
    elif not counts.passed and not failed:
        failed, note = 1, "ran no test"
    return Result(
        name=suite.name,
        passed=counts.passed,
        failed=failed,
        seconds=done.seconds,
        cpu=done.cpu,
        budget=suite.budget,
        note=note,
        failures=tuple(dict.fromkeys(failures)),
    )


def run_suite(suite: Suite, show: Shown) -> Result:
    """Run one suite, showing its output; without what it needs, it is left out, which in CI counts as failed."""
    started = time.monotonic()
    reason = suite.missing()
    if reason is not None:
        is_ci = os.environ.get("CI") == "true"
        note, took = f"left out: {reason}", time.monotonic() - started
        show.line(note)
        return Result(name=suite.name, passed=0, failed=int(is_ci), seconds=took, cpu=0, budget=suite.budget, note=note)
    return judge(suite, run(suite.command, suite.budget * OVERRUN, show))


def run_named(name: str, show: Shown, bringing: Lock) -> Result:
    """Run the checks or one suite; what two suites need is brought once, since the second one waits for it."""
    suite = next((suite for suite in SUITES if suite.name == name), None)
    title = f"{suite.title}, budget {suite.budget} s" if suite else "style, types, layers, names, prose"
    show.line(f"=== {name}: {title}")
    if suite is None:
        return run_checks(show)

    def missing() -> str | None:
        with bringing:
            return suite.missing()

    return run_suite(replace(suite, missing=missing), show)


def run_lane(names: Sequence[str], results: Connection, bringing: Lock) -> None:
    """Run suites one after another in a process of their own, and send the result of each."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the suite's processes end with this one
    with contextlib.suppress(KeyboardInterrupt):
        for name in names:
            show = Shown(f"{name:<10} | ")
            result = run_named(name, show, bringing)
            show.line(f"=== {result.passed} passed, {result.failed} failed, {result.seconds:.0f} s")
            results.send(result)


def run_lanes(lanes: Sequence[Sequence[str]]) -> Generator[Result]:
    """Run lanes beside each other and yield each result as it comes.

    Ending this generator ends the lanes, with all that they started.
    """
    fork = multiprocessing.get_context("fork")
    bringing = fork.Lock()
    running = {}
    try:
        for names in lanes:
            here, there = fork.Pipe(duplex=False)
            lane = fork.Process(target=run_lane, args=(names, there, bringing))
            lane.start()
            there.close()
            running[here] = lane
        while running:
            ready = wait(list(running))
            for here in [one for one in running if one in ready]:
                try:
                    yield here.recv()
                except EOFError:
                    running.pop(here).join()
    finally:
        for lane in running.values():
            lane.terminate()
        for lane in running.values():
            lane.join()


def run_all(names: Sequence[str]) -> list[Result]:
    """Run suites in their lanes; one whose lane died before it had a result counts as failed."""
    waiting = [name for name in WAITING if name in names]
    lanes = [lane for lane in ([name for name in names if name not in waiting], waiting) if lane]
    with contextlib.closing(run_lanes(lanes)) as results:
        found = {result.name: result for result in results}
    lost = Result(name="", passed=0, failed=1, seconds=0, cpu=0, budget=0, note="its lane died")
    return [found.get(name) or replace(lost, name=name) for name in names]


def report(results: list[Result], seconds: float) -> int:
    """Print the failed tests once more, the table and the closing line; return the exit code.

    Args:
        results: of every suite.
        seconds: that all of them took by the wall clock, which is less than their sum if they ran beside each other.
    """
    for result in results:
        if result.failures:
            print(f"\nfailed in {result.name}:\n  " + "\n  ".join(line[:500] for line in result.failures))
    print("\nsuite       passed  failed  seconds     cpu  budget")
    for result in results:
        late = "over its budget" if result.seconds > result.budget else ""
        notes = ", ".join(filter(None, (result.note, late)))
        row = f"{result.name:<10} {result.passed:>7} {result.failed:>7} {result.seconds:>8.1f} {result.cpu:>7.1f}"
        print(f"{row} {result.budget:>7}  {notes}".rstrip())
    whole = f"{'all':<26} {seconds:>8.1f} {sum(one.cpu for one in results):>7.1f}"
    if len(results) > 1:
        whole += f" {WHOLE_BUDGET:>7}  {'over its budget' if seconds > WHOLE_BUDGET else ''}"
    print(whole.rstrip())
    passed, failed = sum(result.passed for result in results), sum(result.failed for result in results)
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main() -> int:
    """Run the suites named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help="lint, solidity, release, proofs, twins, unit, simulation, anvil, spark, kafka, web (default: all)",
    )
    known = ["lint", *(suite.name for suite in SUITES)]
    chosen = parser.parse_args().suites or known
    if unknown := set(chosen) - set(known):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    started = time.monotonic()
    alone = len(chosen) == 1
    results = [run_named(chosen[0], Shown(), multiprocessing.Lock())] if alone else run_all(chosen)
    return report(results, time.monotonic() - started)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the suite's processes end with this one
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
