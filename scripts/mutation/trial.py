"""Puts one mutant into a copy of the contracts, compiles only what it is part of, and asks the tests."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.mutation.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutation"
COPY = WORK / "copy"
PRISTINE = WORK / "pristine.json"
"""The bytecode without a fault."""
ARTIFACTS = Path("build") / "forge" / "out"
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
TEST_SECONDS = 400
"""A mutant that keeps the tests busy for so long is caught: it loops."""

FEW_RUNS = {"FOUNDRY_FUZZ_RUNS": "32", "FOUNDRY_INVARIANT_RUNS": "8", "FOUNDRY_INVARIANT_DEPTH": "32"}
ROUTER_PARTS = ("Router", "RouterExtension", "Profiles")
TESTS = ROOT / "tests" / "solidity"
BESIDE_THE_ROUTER = ("adapters", "client")
"""Folders of contracts that tests make with `new`, so that the tests have to be compiled with them."""

FIRST_TESTS = {
    "Dispatcher": ("route", "retryRoute"),
    "Gateway": ("gateway",),
    "Gmp": ("registry", "route"),
    "GmpRegistry": ("registry",),
    "Ledger": ("withdraw", "route"),
    "Message": ("receiveMessage", "route"),
    "MessageReceiver": ("receiveMessage", "execute", "expire"),
    "MessageSender": ("route", "retryRoute"),
    "Profiles": ("gateway",),
    "Receipts": ("receiveMessage", "registry"),
    "RecipientCall": ("receiveMessage", "execute"),
    "RouterMessageHandling": ("routerMessages",),
    "Rules": ("pauses", "receiveMessage", "expire"),
    "Sending": ("route", "retryRoute"),
    "SentMessage": ("retryRoute", "gateway"),
}
"""Test files by source where their names differ."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    status: str
    """`killed`, `survived`, `invalid` (it does not compile) or `equivalent` (the bytecode is the same)."""
    by: str = ""
    """The first test that failed."""


def sources() -> list[str]:
    """The contracts that are mutated: what runs on chain; not interfaces, examples, or what tests use."""
    folders = ("", "types/", "libraries/", "client/", "adapters/")
    found = (path for folder in folders for path in sorted((ROOT / "contracts" / folder).glob("*.sol")))
    return [str(path.relative_to(ROOT)) for path in found if not path.name.startswith("I") or path.name[1].islower()]


def prepare() -> None:
    """Make the copy of the contracts and compile it: the state that every mutant starts from.

    Raises:
        subprocess.CalledProcessError: the contracts do not compile.
    """
    COPY.mkdir(parents=True, exist_ok=True)
    for name in ("contracts", "tests/solidity"):
        shutil.rmtree(COPY / name, ignore_errors=True)
        shutil.copytree(ROOT / name, COPY / name)
    shutil.copy(ROOT / "foundry.toml", COPY / "foundry.toml")
    if not (COPY / "build" / "gmp").exists():
        # forge reads no file that a link leads to outside of the copy.
        shutil.copytree(ROOT / "build" / "gmp", COPY / "build" / "gmp", copy_function=os.link)
    for name in ("node_modules", "build/tools"):
        if not (COPY / name).exists():
            (COPY / name).symlink_to(ROOT / name)
    subprocess.run([str(FORGE), "build", "contracts", "--ast", "--quiet"], cwd=COPY, check=True)
    PRISTINE.write_text(json.dumps(bytecodes()))


def all_mutants() -> Iterator[Mutant]:
    """Every mutant of every source, from the syntax trees of {prepare}."""
    for source in sources():
        # A file without a contract of its name still has a tree, in the artifact of whatever it declares.
        artifacts = sorted((COPY / ARTIFACTS / Path(source).name).glob("*.json"))
        trees = (json.loads(path.read_text()).get("ast") for path in artifacts)
        tree = next((tree for tree in trees if tree and tree["absolutePath"] == source), None)
        if tree is not None:
            yield from mutants(source, (ROOT / source).read_bytes(), tree)


def bytecodes() -> list[str]:
    """The copy's router in its parts, without the metadata's hash at the end, which changes with every comment."""
    found = []
    for name in ROUTER_PARTS:
        text = (COPY / ARTIFACTS / f"{name}.sol" / f"{name}.json").read_text()
        found.append(re.sub(r"a264697066735822[0-9a-f]{68}", "", json.loads(text)["bytecode"]["object"]))
    return found


def try_out(mutant: Mutant) -> Verdict:
    """Compile one mutant and run tests until one fails; the copy is as before afterwards."""
    place = COPY / mutant.source
    whole = place.read_bytes()
    try:
        place.write_bytes(mutant.applied(whole))
        beside = mutant.source.split("/")[1]
        return _tested_beside(beside) if beside in BESIDE_THE_ROUTER else _tested_in_router(mutant)
    finally:
        place.write_bytes(whole)


def first_files(source: str) -> list[str]:
    """The test files to begin with, where most mutants of a source die."""
    name = Path(source).stem
    told = FIRST_TESTS.get(name, (name[0].lower() + name[1:], name))
    return [str(path.relative_to(ROOT)) for path in sorted(TESTS.rglob("*.t.sol")) if path.name[:-6] in told]


def _tested_in_router(mutant: Mutant) -> Verdict:
    """The true tests, compiled long since, take their router from the copy's artifact."""
    if _forge(COPY, "build", "contracts/Router.sol", "contracts/Profiles.sol", "--quiet").returncode:
        return Verdict("invalid")
    if bytecodes() == json.loads(PRISTINE.read_text()):
        return Verdict("equivalent")
    artifact = (COPY / ARTIFACTS / "Router.sol" / "Router.json").relative_to(ROOT)
    for chosen in (*first_files(mutant.source), None):
        narrowed = ("--match-path", chosen) if chosen else ()
        verdict = _judge(_forge(ROOT, "test", "--fail-fast", *narrowed, WAYBILL_ROUTER=str(artifact)))
        if verdict.status != "survived":
            return verdict
    return Verdict("survived")


def _tested_beside(folder: str) -> Verdict:
    """Adapters and the dApp kit are compiled into their tests, so those of the folder are compiled anew."""
    if _forge(COPY, "build", f"contracts/{folder}", "--quiet").returncode:
        return Verdict("invalid")
    tests = f"tests/solidity/{folder}"
    verdict = _judge(_forge(COPY, "test", "--fail-fast", FOUNDRY_TEST=tests))
    if verdict.status == "survived" and folder == "client":
        return _judge(_forge(COPY, "test", "--fail-fast", FOUNDRY_TEST="tests/solidity/examples"))
    return verdict


def _forge(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(FORGE), *arguments]
    given = {**os.environ, **FEW_RUNS, **environment}
    try:
        return subprocess.run(
            command, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=TEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, f"[FAIL] ran for more than {TEST_SECONDS} s", "")


def _judge(done: subprocess.CompletedProcess[str]) -> Verdict:
    if done.returncode == 0:
        return Verdict("survived")
    failed = re.search(r"\[FAIL[^\]]*\]? ?.*", done.stdout)
    if failed is None:
        raise RuntimeError(f"forge test could not run: {done.stderr.strip() or done.stdout.strip()}"[:2000])
    return Verdict("killed", failed.group()[:200])


def timed(mutant: Mutant) -> tuple[Verdict, float]:
    """{try_out} and how long it took, in seconds."""
    started = time.monotonic()
    return try_out(mutant), time.monotonic() - started
