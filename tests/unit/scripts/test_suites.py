"""The test run counts what passed, and lets nothing that went wrong look green."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.test_suites import (
    WHOLE_BUDGET,
    Counts,
    Result,
    Run,
    Shown,
    Suite,
    forge_counts,
    judge,
    node_counts,
    pytest_counts,
    report,
    run,
    run_suite,
)

ROOT = Path(__file__).resolve().parents[3]
SUITE = Suite(name="sample", title="a sample", command=("true",), budget=10, counts=pytest_counts)
CLOSED = "==== 3 passed in 0.01s ===="


def ended(code: int, output: str, *, stopped: bool = False) -> Result:
    return judge(SUITE, Run(code, output, 1.0, 0.5, stopped))


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("===== 3 passed in 0.01s =====", Counts(3)),
        ("3 passed in 72.11s (0:01:12)", Counts(3)),
        ("== 1 failed, 5 passed, 2 skipped, 1 error in 0.30s ==", Counts(5, 2, 2)),
        ("2 xfailed, 1 xpassed, 4 warnings in 1.00s", Counts(0, 1, 2)),
        ("==== no tests ran in 0.00s ====", Counts()),
        ("Killed", Counts()),
    ],
)
def test_pytest_closing_line_is_read(line: str, counts: Counts) -> None:
    assert pytest_counts(f"tests 9 passed\n{line}\n") == counts


def test_forge_closing_line_is_read() -> None:
    closing = "Ran 2 test suites in 5.2s (6.1s CPU time): 9 tests passed, 1 failed, 2 skipped (12 total tests)"
    output = f"Ran 3 tests for A.t.sol:A\nSuite result: ok. 3 passed; 0 failed; 0 skipped\n\n{closing}\n"
    assert forge_counts(output) == Counts(9, 1, 2)
    assert forge_counts("Compiler run failed:\nError") == Counts()


def test_summary_of_nodes_runner_is_read_and_a_cancelled_test_counts_as_failed() -> None:
    summary = "ℹ tests 9\nℹ suites 0\nℹ pass 4\nℹ fail 1\nℹ cancelled 1\nℹ skipped 2\nℹ todo 1\nℹ duration_ms 12.5\n"
    assert node_counts(f"✔ a test (1ms)\n{summary}") == Counts(4, 2, 3)
    assert node_counts("npm error missing script: test") == Counts()


def test_green_suite_passes() -> None:
    assert (ended(0, CLOSED).passed, ended(0, CLOSED).failed) == (3, 0)


@pytest.mark.parametrize(
    ("result", "failed", "note"),
    [
        (ended(5, "=== no tests ran in 0.00s ==="), 1, "exit code 5"),
        (ended(0, "No tests found"), 1, "ran no test"),
        (ended(1, "=== 1 failed, 3 passed in 0.01s ==="), 1, ""),
        (ended(0, "=== 3 passed, 2 skipped in 0.01s ==="), 2, "2 skipped"),
        (ended(-9, CLOSED), 1, "exit code -9"),
        (ended(-15, CLOSED, stopped=True), 1, "stopped"),
    ],
)
def test_suite_that_is_not_plainly_green_fails(result: Result, failed: int, note: str) -> None:
    assert result.failed == failed
    assert note in result.note


@pytest.mark.parametrize(("is_ci", "failed"), [("true", 1), ("", 0)])
def test_a_suite_that_lacks_what_it_needs_is_left_out_by_name_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_ci: str, failed: int
) -> None:
    monkeypatch.setenv("CI", is_ci)
    result = run_suite(replace(SUITE, missing=lambda: "there is no broker"), Shown())
    assert (result.name, result.passed, result.failed) == ("sample", 0, failed)
    report([result], 1)
    assert "left out: there is no broker" in capsys.readouterr().out.split("budget")[-1]


def test_report_closes_with_the_one_line_that_continuous_integration_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = Result(name="unit", passed=3, failed=0, seconds=1, cpu=1.5, budget=10)
    late = Result(name="anvil", passed=4, failed=1, seconds=11, cpu=2, budget=10)
    assert report([good], 1) == 0
    capsys.readouterr()
    assert report([good, late], 11) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if re.fullmatch(r"\d+ passed, \d+ failed", line)] == ["7 passed, 1 failed"]
    assert lines[-1] == "7 passed, 1 failed"
    (whole,) = [line for line in lines if line.startswith("all ")]
    assert whole.split()[1:] == ["11.0", "3.5", str(WHOLE_BUDGET)]
    assert [line for line in lines if "over its budget" in line] == [line for line in lines if "anvil" in line]


@pytest.mark.parametrize(
    ("printed", "failures"),
    [
        ("E   x\nFAILED tests/a.py::test_b - assert 1 == 2\nERROR tests/c.py::test_d\n", 2),
        ("[PASS] test_A()\n[FAIL: wrong] test_B() (gas: 1)\n[FAIL: wrong] test_B() (gas: 1)\n", 1),
        ("✔ a (1ms)\n✖ b (2ms)\n✖ failing tests:\n", 1),
        ("an ERROR in a line, no test FAILED\n", 0),
    ],
)
def test_failed_tests_are_named_again_at_the_end(
    capsys: pytest.CaptureFixture[str], printed: str, failures: int
) -> None:
    result = ended(1, printed)
    assert len(result.failures) == failures
    report([result], 1)
    lines = capsys.readouterr().out.splitlines()
    assert all(f"  {failure}" in lines for failure in result.failures)
    assert ("failed in sample:" in lines) == (failures > 0)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_a_test_that_no_timeout_ends_is_named_when_its_suite_is_stopped(tmp_path: Path) -> None:
    hanging = tmp_path / "tests" / "test_locks.py"
    hanging.parent.mkdir()
    hanging.write_text("import ctypes\n\ndef test_lock():\n    ctypes.PyDLL(None).sleep(3)\n")  # holds the GIL
    command = [sys.executable, "-m", "pytest", str(hanging), "--rootdir", str(tmp_path), "-c", os.devnull]
    command += ["-o", "faulthandler_timeout=0.5", "-p", "no:cacheprovider"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    assert ended(-2, printed, stopped=True).failures == ("hangs: tests/test_locks.py, line 4 in test_lock",)
    assert ended(0, printed).failures == ()


def test_a_test_that_hypothesis_repeats_ends_when_its_time_is_over(tmp_path: Path) -> None:
    repeated = tmp_path / "test_repeated.py"
    repeated.write_text(
        "import time\nfrom hypothesis import given, settings, strategies\n\n"
        "@settings(deadline=None)\n@given(strategies.lists(strategies.integers()))\n"
        "def test_slow(numbers):\n    time.sleep(0.01 if len(numbers) < 2 else 60)\n"
    )
    command = [sys.executable, "-m", "pytest", str(repeated), "--rootdir", str(tmp_path), "-c", os.devnull]
    command += ["--timeout", "2", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=50
    )
    assert pytest_counts(done.stdout) == Counts(failed=1)
    assert "test_repeated.py::test_slow took longer than 2 s" in done.stdout
    assert time.monotonic() - started < 30


def test_command_that_hangs_is_stopped() -> None:
    done = run(python("import time; print('begun', flush=True); time.sleep(60)"), limit=1)
    assert done.stopped
    assert done.output.startswith("begun\n")
    assert done.seconds < 30


def test_processor_time_is_that_of_a_command_and_of_what_it_starts() -> None:
    busy = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])\n{busy}"
    assert run(python(parent), limit=60).cpu >= 1
    assert run(python("import time; time.sleep(1)"), limit=60).cpu < 0.7


def test_processes_that_a_suite_leaves_behind_are_ended() -> None:
    leave = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    done = run(python(leave), limit=30)
    assert (done.code, done.stopped) == (0, False)
    assert not is_alive(int(done.output))


def test_process_that_keeps_the_output_open_from_another_session_does_not_hold_the_run_up() -> None:
    leave = (
        "import subprocess, sys; code = 'import time; time.sleep(20)'\n"
        "print(subprocess.Popen([sys.executable, '-c', code], start_new_session=True).pid)"
    )
    done = run(python(leave), limit=15)
    os.kill(int(done.output), 9)
    assert (done.code, done.stopped) == (0, False)


LANES = """
import sys
from scripts import test_suites
from scripts.test_suites import Suite, main, pytest_counts, signal

def suite(name, code):
    return Suite(name=name, title=name, command=(sys.executable, "-c", code), budget=60, counts=pytest_counts)

closed = "print('== 1 passed in 0.01s ==', flush=True)"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
test_suites.SUITES = (
    suite("unit", f"import time; print('begun', flush=True); time.sleep({0}); {{closed}}"),
    suite("spark", f"import os, signal, time; print(os.getpid(), flush=True); time.sleep({0}); {1}; {{closed}}"),
    suite("web", closed),
)
sys.argv = ["make test", "unit", "spark", "web"]
sys.exit(main())
"""


def lanes(*, seconds: float, then: str = "pass") -> subprocess.Popen[str]:
    """A run of three suites in two lanes: `unit` beside `spark` and `web`, of which the first two take so long."""
    code = LANES.format(seconds, then)
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_suites_run_beside_each_other_and_each_line_names_its_suite() -> None:
    started = time.monotonic()
    with lanes(seconds=2) as running:
        printed, _ = running.communicate(timeout=50)
    assert time.monotonic() - started < 4
    assert running.returncode == 0
    *lines, closing = printed.splitlines()
    assert closing == "3 passed, 0 failed"
    assert "unit       | begun" in lines
    assert "web        | == 1 passed in 0.01s ==" in lines
    assert [line.split()[0] for line in lines if line.endswith(" 60")] == ["unit", "spark", "web"]


def test_suites_of_a_lane_that_dies_count_as_failed() -> None:
    with lanes(seconds=0, then="os.kill(os.getppid(), signal.SIGKILL)") as running:
        printed, _ = running.communicate(timeout=50)
    assert running.returncode == 1
    assert printed.splitlines()[-1] == "1 passed, 2 failed"
    assert printed.count("its lane died") == 2


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_suites_of_all_lanes_end_with_the_run(end: signal.Signals) -> None:
    with lanes(seconds=40) as running:
        assert running.stdout is not None
        pid = next(int(line.split()[-1]) for line in running.stdout if line.split()[-1].isdigit())
        running.send_signal(end)
        running.wait(timeout=30)
    assert running.returncode != 0
    assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs, giving it a moment to go away; one that is dead but not yet collected does not."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize(
    ("programs", "missing"),
    [
        ({}, ["Python 3.11 or newer", "Node 20 or newer", "npm"]),
        ({"python3": "exit 1", "node": "echo v18.19.0", "npm": "echo 9"}, ["Python 3.11 or newer", "Node 20 or newer"]),
        ({"python3": "exit 0", "node": "echo v20.1.0"}, ["npm"]),
        ({"python3": "exit 0", "node": "echo v22.1.0", "npm": "echo 10"}, []),
        ({"python3": "exit 1", "python3.12": "exit 0", "node": "echo v20.0.0", "npm": "echo 10"}, []),
    ],
)
def test_what_the_machine_lacks_is_named(tmp_path: Path, programs: dict[str, str], missing: list[str]) -> None:
    (tmp_path / "head").symlink_to("/usr/bin/head")
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    check = [str(ROOT / "scripts" / "check-machine")]
    done = subprocess.run(check, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if missing else 0)
    named = [line.strip() for line in done.stderr.splitlines() if "Debian" in line]
    assert [name for name, line in zip(missing, named, strict=True) if line.startswith(name)] == missing
    if not missing:
        assert done.stdout.strip() in programs
