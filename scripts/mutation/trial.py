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
"""The bytecode without a fault, which the tests accept."""
ARTIFACTS = Path("build") / "forge" / "out"
FORGE = ROOT / "build" / "tools" / "bin" / "forge"
TEST_SECONDS = 400
"""A mutant that keeps the tests busy for so long is caught: it loops."""

FEW_RUNS = {
    "FOUNDRY_FUZZ_RUNS": "32",
    "FOUNDRY_FUZZ_SEED": "0x5ca1ab1e",
    "FOUNDRY_INVARIANT_RUNS": "8",
    "FOUNDRY_INVARIANT_DEPTH": "32",
    "FOUNDRY_INVARIANT_SHRINK_RUN_LIMIT": "0",
}
"""Few, and the same in every trial, so that a mutant's fate is no matter of chance."""

QUICK = {"FOUNDRY_OPTIMIZER": "false"}
"""The compiler takes half the time. {prepare} shows that the tests pass on a router that was compiled so, so that they fail on a
mutant for its fault. Only whether a survivor's bytecode is the same is asked with the optimizer."""

TESTS = ROOT / "tests" / "solidity"
BESIDE_THE_ROUTER = {
    "adapters": ("adapters",),
    "atomic": ("atomic",),
    "client": ("client", "examples"),
    "examples": ("examples",),
    "governance": ("governance",),
    "relaying": ("relaying",),
}
"""Folders of contracts that tests make with `new`, and the folders of these tests."""

SHARED = ("types", "libraries")
"""Folders of what tests and adapters are made of, as the router is, and may do more with."""

OF_SHARED = "tests/solidity/router/{Message,MessageEncoding,gmpTable}.t.sol"
"""The tests that take them as they are, without a router. They are compiled with the optimizer: their stacks are too deep without."""

FIRST_TESTS = {
    "Addresses": ("receiveMessage", "route"),
    "AssetInstruction": ("AssetRegistry",),
    "Atomic": ("AtomicActions",),
    "AtomicAssets": ("AtomicExamples",),
    "AtomicCoordinator": ("AtomicActions",),
    "AtomicParameters": ("AtomicExamples",),
    "AtomicParticipant": ("AtomicActions",),
    "AttestationGuard": ("Guards",),
    "ReissueGuard": ("Guards",),
    "BaseAdapter": ("HyperlaneAdapter", "AdapterConnections"),
    "BoundedCall": ("recipientCall", "route"),
    "BoundedMulticall": ("BoundedMulticall",),
    "ExpiringLocks": ("Guards", "AssetRegistry"),
    "Gateway": ("gateway",),
    "Gmp": ("registry", "route"),
    "GmpRegistry": ("registry",),
    "LanePolicy": ("pauses", "receiveMessage", "expire"),
    "Message": ("receiveMessage", "route", "retryRoute", "execute"),
    "MessageReceiver": ("receiveMessage", "execute", "expire", "recipientCall", "routerMessages"),
    "MessageRecords": ("receiveMessage", "registry", "route", "recipientCall", "retryRoute", "gateway"),
    "MessageSender": ("route", "retryRoute"),
    "OrderedGuard": ("Guards",),
    "Profile": ("gateway",),
    "Profiles": ("gateway",),
    "RecipientCall": ("recipientCall", "execute"),
    "Router": ("routerViews", "roles"),
    "RouterExtension": ("roles",),
    "RouterState": ("registry", "route"),
    "RouterViews": ("withdraw", "route"),
    "SenderBase": ("route", "retryRoute"),
    "StateHashGuard": ("Guards",),
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
    """The contracts that are mutated: what runs on chain; not interfaces, or what only tests use."""
    folders = ("", "types/", "libraries/", *(f"{folder}/" for folder in BESIDE_THE_ROUTER))
    found = (path for folder in folders for path in sorted((ROOT / "contracts" / folder).glob("*.sol")))
    return [str(path.relative_to(ROOT)) for path in found if not path.name.startswith("I") or path.name[1].islower()]


def prepare() -> None:
    """Make the copy of the contracts and compile it: the state that every mutant starts from.

    Raises:
        subprocess.CalledProcessError: the contracts do not compile.
        RuntimeError: the tests fail without any fault.
    """
    # The tests that take their router from an artifact must be compiled before, or their compilation would count as a loop.
    subprocess.run([str(FORGE), "build", "--quiet"], cwd=ROOT, check=True)
    COPY.mkdir(parents=True, exist_ok=True)
    for name in ("contracts", "tests/golden", "tests/solidity"):
        shutil.rmtree(COPY / name, ignore_errors=True)
        shutil.copytree(ROOT / name, COPY / name)
    shutil.copy(ROOT / "foundry.toml", COPY / "foundry.toml")
    if not (COPY / "build" / "gmp").exists():
        # forge reads no file that a link leads to outside of the copy.
        shutil.copytree(ROOT / "build" / "gmp", COPY / "build" / "gmp", copy_function=os.link)
    if not (COPY / "snapshots").exists():
        (COPY / "snapshots").symlink_to(ROOT / "snapshots")
    for name in ("node_modules", "build/tools"):
        if not (COPY / name).exists():
            (COPY / name).symlink_to(ROOT / name)
    subprocess.run([str(FORGE), "build", "contracts", "--ast", "--quiet"], cwd=COPY, check=True)
    pristine = json.dumps(bytecodes())
    if PRISTINE.exists() and PRISTINE.read_text() == pristine:
        return
    _compile_router().check_returncode()
    folders = sorted({tests for folders in BESIDE_THE_ROUTER.values() for tests in folders})
    for tests in folders:
        _forge(COPY, "build", "--quiet", **_linked(tests)).check_returncode()
    for verdict in (_ask_router(), _ask_shared(), *map(_ask_beside, folders)):
        if verdict.status != "survived":
            raise RuntimeError(f"the tests show nothing of faults, for they fail without one: {verdict.by}")
    PRISTINE.write_text(pristine)


def all_mutants() -> Iterator[Mutant]:
    """Every mutant of every source, from the syntax trees of {prepare}."""
    for source in sources():
        # A file without a contract of its name still has a tree, in the artifact of whatever it declares.
        artifacts = sorted((COPY / ARTIFACTS / Path(source).name).glob("*.json"))
        trees = (json.loads(path.read_text()).get("ast") for path in artifacts)
        tree = next((tree for tree in trees if tree and tree["absolutePath"] == source), None)
        if tree is not None:
            yield from mutants(source, (ROOT / source).read_bytes(), tree)


def bytecodes() -> dict[str, str]:
    """The copy's contracts as {prepare} compiles them, without the metadata's hash, which changes with every comment."""
    found = {}
    for source in sources():
        for path in sorted((COPY / ARTIFACTS / Path(source).name).glob("*.json")):
            code = json.loads(path.read_text())["bytecode"]["object"]
            found[f"{path.parent.name}/{path.name}"] = re.sub(r"a264697066735822[0-9a-f]{68}", "", code)
    return found


def try_out(mutant: Mutant) -> Verdict:
    """Compile one mutant and run tests until one fails; the copy is as before afterwards."""
    place = COPY / mutant.source
    whole = place.read_bytes()
    try:
        place.write_bytes(mutant.applied(whole))
        beside = mutant.source.split("/")[1]
        return _tested_beside(mutant, beside) if beside in BESIDE_THE_ROUTER else _tested_in_router(mutant)
    finally:
        place.write_bytes(whole)


def first_files(source: str) -> list[str]:
    """The test files to begin with, where most mutants of a source die."""
    name = Path(source).stem
    told = FIRST_TESTS.get(name, (name[0].lower() + name[1:], name))
    return [str(path.relative_to(ROOT)) for path in sorted(TESTS.rglob("*.t.sol")) if path.name[:-6] in told]


def _tested_in_router(mutant: Mutant) -> Verdict:
    """The true tests, compiled long since, take their router from the copy's artifact."""
    if _compile_router().returncode:
        return Verdict("invalid")
    for chosen in first_files(mutant.source):
        verdict = _ask_router("--match-path", chosen)
        if verdict.status != "survived":
            return verdict
    if _is_equivalent():
        return Verdict("equivalent")
    verdict = _ask_router()
    if verdict.status != "survived" or mutant.source.split("/")[1] not in SHARED:
        return verdict
    verdict = _ask_shared()
    return verdict if verdict.status != "survived" else _ask_beside("adapters")


def _compile_router() -> subprocess.CompletedProcess[str]:
    return _forge(COPY, "build", "contracts/Router.sol", "--quiet", **_apart("router"))


def _ask_router(*narrowed: str) -> Verdict:
    artifact = COPY / _apart("router")["FOUNDRY_OUT"] / "Router.sol" / "Router.json"
    return _judge(_forge(ROOT, "test", "--fail-fast", *narrowed, WAYBILL_ROUTER=str(artifact.relative_to(ROOT))))


def _tested_beside(mutant: Mutant, folder: str) -> Verdict:
    """Adapters and the dApp kit are made by their tests, which link them when they run, so that only they are compiled again."""
    if _forge(COPY, "build", mutant.source, "--quiet", **_apart("beside")).returncode:
        return Verdict("invalid")
    files = [file for file in first_files(mutant.source) if file.split("/")[2] in BESIDE_THE_ROUTER[folder]]
    for chosen in files:
        verdict = _ask_beside(chosen.split("/")[2], "--match-path", chosen)
        if verdict.status != "survived":
            return verdict
    if _is_equivalent():
        return Verdict("equivalent")
    verdicts = (_ask_beside(tests) for tests in BESIDE_THE_ROUTER[folder])
    return next((verdict for verdict in verdicts if verdict.status != "survived"), Verdict("survived"))


def _ask_shared() -> Verdict:
    settings = {"FOUNDRY_TEST": "tests/solidity/router", **_folders("shared")}
    return _judge(_forge(COPY, "test", "--fail-fast", "--match-path", OF_SHARED, **settings))


def _ask_beside(tests: str, *narrowed: str) -> Verdict:
    return _judge(_forge(COPY, "test", "--fail-fast", *narrowed, **_linked(tests)))


def _linked(tests: str) -> dict[str, str]:
    return {"FOUNDRY_TEST": f"tests/solidity/{tests}", "FOUNDRY_DYNAMIC_TEST_LINKING": "true", **_apart(tests)}


def _apart(name: str) -> dict[str, str]:
    """Settings for what is compiled without the optimizer: forge forgets what it has compiled when they change."""
    return {**QUICK, **_folders(name)}


def _folders(name: str) -> dict[str, str]:
    return {"FOUNDRY_OUT": f"build/{name}/out", "FOUNDRY_CACHE_PATH": f"build/{name}/cache"}


def _is_equivalent() -> bool:
    """Whether the optimizer makes the same code of the mutant as without the fault."""
    _forge(COPY, "build", "contracts", "--ast", "--quiet").check_returncode()
    return json.dumps(bytecodes()) == PRISTINE.read_text()


def _forge(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(FORGE), *arguments]
    given = {**os.environ, **FEW_RUNS, **environment}
    limit = TEST_SECONDS if arguments[0] == "test" else None
    try:
        return subprocess.run(
            command, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=limit
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
