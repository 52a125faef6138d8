"""Proves that each test of an attack fails on a vulnerable twin: the contract without the check that stops the attack.

tests/solidity/twins/twins.toml defines for each twin the change in contracts/, the test that must then fail,
and the expected failure. Only the changed contract is compiled, usually the router. The tests use its artifact
instead of the real one (tests/solidity/TestedRouter.sol, tests/solidity/atomic/TestedAtomic.sol).

The last line is `<n> passed, <n> failed in <s>s`.

    python -m scripts.twins          every twin
    python -m scripts.twins forged   twins whose name contains one of the arguments
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
TESTS = ROOT / "tests" / "solidity"
TABLE = TESTS / "twins" / "twins.toml"
WORK = ROOT / "build" / "twins"
SOURCES = {
    "Router": ("contracts/Router.sol", "WAYBILL_ROUTER"),
    "AtomicCoordinator": ("contracts/atomic/AtomicCoordinator.sol", "WAYBILL_COORDINATOR"),
    "AtomicAssets": ("contracts/examples/AtomicAssets.sol", "WAYBILL_PARTICIPANT"),
}
"""By contract that may be changed: its file, and the variable in which the tests look for its artifact."""
QUICK = {"FOUNDRY_OPTIMIZER": "false"}
"""The tests pass on a router that is compiled without the optimizer, too, and the compiler takes half the time."""
TRIAL = {"FOUNDRY_FUZZ_SEED": "0x5ca1ab1e"}
"""What a test tries is no matter of chance, so neither is whether it notices a twin."""

FAILURE = re.compile(r"^\[FAIL: (.*?)\]", re.MULTILINE | re.DOTALL)


class TwinError(Exception):
    """A twin can't be built or tested according to its entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A source edit that turns a contract into its twin."""

    file: str
    """Below contracts/."""
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A contract without one of its checks, and the test that must detect this."""

    name: str
    edits: tuple[Edit, ...]
    path: str
    """The test's file, below tests/solidity/."""
    test: str
    because: str
    """What the failed test must say: that the attack went through, and not that something else broke."""
    contract: str = "Router"
    """Which of `SOURCES` has the change."""

    @property
    def artifact(self) -> Path:
        """The path of the changed contract's artifact."""
        return WORK / "build" / "forge" / "out" / f"{self.contract}.sol" / f"{self.contract}.json"


def read_twins() -> dict[str, Twin]:
    """Reads the table of twins by name, in order.

    Raises:
        TwinError: an entry is incomplete.
    """
    twins = {}
    for name, entry in tomllib.loads(TABLE.read_text()).items():
        try:
            path, test = entry["test"].split(":")
            edits = tuple(Edit(**edit) for edit in entry.get("edits", [])) or (
                Edit(file=entry["file"], before=entry["before"], after=entry["after"]),
            )
            contract = entry.get("contract", "Router")
            SOURCES[contract]
            twins[name] = Twin(
                name=name, edits=edits, path=path, test=test, because=entry["because"], contract=contract
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TwinError(f"{TABLE.name}: [{name}]: {error} is missing or has the wrong type") from error
    return twins


def edited(source: str, edit: Edit, twin: str) -> str:
    """Returns the source with the edit applied.

    Raises:
        TwinError: the text to replace is missing or not unique.
    """
    if (times := source.count(edit.before)) != 1:
        raise TwinError(
            f"{twin}: contracts/{edit.file} contains {edit.before!r} {times} times instead of once; update the "
            f"entry in {TABLE.name} to match the code"
        )
    return source.replace(edit.before, edit.after)


def prepare() -> None:
    """Creates a project that compiles a copy of the contracts alone."""
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "foundry.toml", WORK / "foundry.toml")
    (WORK / "build" / "tools").mkdir(parents=True, exist_ok=True)
    links = {"build/tools/bin": FORGE.parent.resolve(), "node_modules": ROOT / "node_modules"}
    for name, target in links.items():
        if not (WORK / name).is_symlink():
            (WORK / name).symlink_to(target)


def compile_twin(twin: Twin) -> None:
    """Compiles the twin's contract.

    Raises:
        TwinError: the twin does not compile, or an edit does not apply.
    """
    shutil.rmtree(WORK / "contracts", ignore_errors=True)
    shutil.copytree(ROOT / "contracts", WORK / "contracts")
    for edit in twin.edits:
        source = WORK / "contracts" / edit.file
        source.write_text(edited(source.read_text(), edit, twin.name))
    twin.artifact.unlink(missing_ok=True)
    command = [str(FORGE), "build", SOURCES[twin.contract][0], "--root", str(WORK), "--force"]
    environment = {**os.environ, **QUICK}
    done = subprocess.run(command, cwd=WORK, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not twin.artifact.exists():
        raise TwinError(f"{twin.name} does not compile:\n{done.stdout}{done.stderr}")


def run_test(twin: Twin) -> tuple[bool, str]:
    """Runs a twin's test with the twin's artifact.

    Returns:
        Whether the test passed, and its output if it failed.

    Raises:
        TwinError: the test does not exist.
    """
    path, test = twin.path, twin.test
    command = [str(FORGE), "test", "--match-path", f"tests/solidity/{path}", "--match-test", rf"^{test}\("]
    environment = {**os.environ, **TRIAL, SOURCES[twin.contract][1]: str(twin.artifact.relative_to(ROOT))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    ran = re.search(r"(\d+) tests? passed, (\d+) failed", done.stdout)
    if ran is None or int(ran[1]) + int(ran[2]) != 1:
        raise TwinError(
            f"{path}: expected exactly one test named {test} to run, got {ran and ran[0]}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    failure = FAILURE.search(done.stdout)
    return done.returncode == 0, failure[1] if failure else ""


def fault_of(twin: Twin, made: Twin | None) -> str:
    """Tests a twin.

    Args:
        twin: Twin to test.
        made: Previously tested twin. Its artifact is reused if the twin is the same.

    Returns:
        The reason why the twin proves nothing, or an empty string if its test fails as expected.
    """
    try:
        if made is None or (made.contract, made.edits) != (twin.contract, twin.edits):
            compile_twin(twin)
        passed, said = run_test(twin)
    except TwinError as error:
        return str(error)
    if passed:
        return f"{twin.test} passes without the check"
    return "" if re.search(twin.because, said) else f"{twin.test} fails otherwise than by {twin.because!r}: {said}"


def main() -> int:
    """Tests the requested twins. Returns 0 if every twin's test failed as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the name of a twin (default: all)")
    arguments = parser.parse_args()
    started = time.monotonic()
    twins = [
        twin
        for twin in read_twins().values()
        if not arguments.names or any(part in twin.name for part in arguments.names)
    ]
    if not twins:
        parser.error(f"no twin has that name; see {TABLE.relative_to(ROOT)}")
    prepare()
    failed = 0
    made = None
    for number, twin in enumerate(sorted(twins, key=lambda twin: (twin.contract, repr(twin.edits))), 1):
        fault, made = fault_of(twin, made), twin
        failed += bool(fault)
        shown = (
            f"FAILED {twin.name}: {fault}" if fault else f"  ok {number}/{len(twins)} {twin.name}: {twin.test} fails"
        )
        print(shown, flush=True)
    print(f"{len(twins) - failed} passed, {failed} failed in {time.monotonic() - started:.1f}s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TwinError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
