"""What the documents claim of the contracts: each attack's tests and twin, each invariant, each public function's tree exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.twins import ROOT, TESTS, Twin, TwinError, edited, read_twins
from tests.cases import for_each_case

SECURITY = ROOT / "docs" / "security.md"
INVARIANTS = ROOT / "docs" / "INVARIANTS.md"
CAMPAIGNS = (TESTS / "invariants", TESTS / "atomic")
TREES = TESTS / "router"
INTERFACES = ROOT / "contracts" / "interfaces"
LINK = re.compile(r"\[(\w+)\]\((\.\./tests/solidity/[^)]+)\)")
TWINS = read_twins()


def attacks() -> Iterator[tuple[str, str, str]]:
    """Yield the first, third and fourth cell of each row of docs/security.md: attack, tests, twins."""
    for line in SECURITY.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "attack" and not cells[0].startswith("---"):
            yield cells[0], cells[2], cells[3]


def linked_tests(text: str, document: Path) -> Iterator[tuple[str, Path]]:
    for name, target in LINK.findall(text):
        yield name, (document.parent / target).resolve()


def lacking(text: str, document: Path) -> list[str]:
    """Name the links of a document whose file does not define the function that they name."""
    return [
        name
        for name, file in linked_tests(text, document)
        if not file.exists() or not re.search(rf"function {name}\(", file.read_text())
    ]


def public_functions() -> set[str]:
    """Name what a router answers: the functions of the interfaces that IRouter is made of, and of ERC-7786."""
    parents = set(re.findall(r'import \{(I\w+)\} from "\./', (INTERFACES / "IRouter.sol").read_text()))
    sources = [(INTERFACES / f"{parent}.sol").read_text() for parent in parents]
    functions = {name for source in sources for name in re.findall(r"^    function (\w+)\(", source, re.MULTILINE)}
    return functions | {"sendMessage", "supportsAttribute"}


def test_every_attack_of_the_security_table_has_tests_that_exist_and_a_twin() -> None:
    rows = list(attacks())
    assert len(rows) > 50
    assert lacking(SECURITY.read_text(), SECURITY) == []
    for attack, tests, twins in rows:
        assert LINK.search(tests), f"{attack}: no test"
        assert re.search(r"`[\w-]+`|\[test_\w+\]|symbolic proofs", twins), f"{attack}: no twin"


def test_every_twin_stands_in_the_security_table_beside_the_test_that_fails_on_it() -> None:
    named: dict[str, str] = {}
    for _, tests, twins in attacks():
        for name in re.findall(r"`([\w-]+)`", twins):
            named[name] = named.get(name, "") + tests
    assert set(named) <= set(TWINS)
    elsewhere = {twin.name for twin in TWINS.values() if twin.path.startswith("invariants/")}
    assert set(TWINS) - set(named) <= elsewhere
    for name, tests in named.items():
        assert f"[{TWINS[name].test}]" in tests, f"{name} fails {TWINS[name].test}, which its row does not name"


@for_each_case("twin", TWINS.values())
def test_every_twin_fits_the_contracts_as_they_are(twin: Twin) -> None:
    for edit in twin.edits:
        source = (ROOT / "contracts" / edit.file).read_text()
        assert edited(source, edit, twin.name) != source
    assert re.search(rf"function {twin.test}\(", (TESTS / twin.path).read_text())


def test_twin_whose_place_is_gone_is_named_with_what_to_do() -> None:
    edit = next(iter(TWINS.values())).edits[0]
    with pytest.raises(TwinError, match=r"some-twin: contracts/.* 0 times, not once; write its entry"):
        edited("contract Empty {}", edit, "some-twin")


def test_every_invariant_is_documented_with_tests_that_exist() -> None:
    text = INVARIANTS.read_text()
    assert lacking(text, INVARIANTS) == []
    sources = [file.read_text() for folder in CAMPAIGNS for file in folder.glob("*.t.sol")]
    campaign = {name for source in sources for name in re.findall(r"function (invariant_\w+)\(", source)}
    assert len(campaign) >= 20
    assert campaign == set(re.findall(r"\[(invariant_\w+)\]", text))


def test_every_public_function_of_the_router_stands_in_a_tree_that_tests_follow() -> None:
    trees = {tree: tree.read_text() for tree in TREES.glob("*.tree")}
    assert [tree.name for tree in trees if not tree.with_suffix(".t.sol").exists()] == []
    functions = public_functions()
    assert len(functions) > 40
    missing = {name for name in functions if not any(re.search(rf"\b{name}\b", tree) for tree in trees.values())}
    assert missing == set()


def own_functions(source: Path) -> set[str]:
    """Name the external functions of a contract, without those of interfaces that stand before it in its file."""
    text = source.read_text()
    begin = re.search(r"^(abstract )?contract ", text, re.MULTILINE)
    body = text[begin.start() :] if begin else ""
    return set(re.findall(r"^    function (\w+)\([^)]*\)[^{;]*?\b(?:external|public)\b", body, re.MULTILINE))


@for_each_case("folder", ["adapters", "atomic", "client", "examples", "governance", "relaying"])
def test_every_public_function_beside_the_router_stands_in_a_tree_that_tests_follow(folder: str) -> None:
    trees = {tree: tree.read_text() for tree in (TESTS / folder).glob("*.tree")}
    assert [tree.name for tree in trees if not tree.with_suffix(".t.sol").exists()] == []
    functions = {name for source in (ROOT / "contracts" / folder).glob("*.sol") for name in own_functions(source)}
    assert functions
    assert {name for name in functions if not any(re.search(rf"\b{name}\b", tree) for tree in trees.values())} == set()


OPEN_TO_ALL = {
    *("route", "retryRoute", "sendMessage", "fund", "cancel", "report"),
    *("receiveMessage", "execute", "expire", "withdraw"),
    *("setPolicy", "appointRetrier", "acceptOwnership"),
}
"""What changes a router for whoever calls it, each with checks of its own: for the caller's own messages, money or demands."""


def test_every_function_that_changes_a_router_is_in_the_matrix_of_roles_or_open_to_all() -> None:
    parents = set(re.findall(r'import \{(I\w+)\} from "\./', (INTERFACES / "IRouter.sol").read_text()))
    declared = re.compile(r"^    function (\w+)\(([^;]*);", re.MULTILINE | re.DOTALL)
    changing = {
        name
        for parent in parents
        for name, rest in declared.findall((INTERFACES / f"{parent}.sol").read_text())
        if not re.search(r"\b(view|pure)\b", rest)
    }
    assert len(changing) > 20
    matrix = set(re.findall(r"abi\.encodeCall\(source\.(\w+),", (TREES / "roles.t.sol").read_text()))
    assert {*changing, "sendMessage"} == matrix | OPEN_TO_ALL
