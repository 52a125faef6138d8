"""Every block of code in the documentation is run by a test, or has a reason why not.

Shell lines are read by the command here, and the README's and the quickstart's are typed in tests/spark/test_quickstart.py;
TypeScript is checked by dapp/test/long/package.test.ts.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Final

import pytest

from bridge.cli.settings import WaybillSettings
from bridge.deploy.plan import NetworkPlan
from bridge.protocol.deployment import Deployment
from scripts.reference_pages import http_api
from tests.unit.docs.test_docs import ROOT, blocks

PLAYED: Final = (
    "tests/solidity/recipes/Courier.sol",
    "tests/solidity/recipes/TicketOffice.sol",
    "tests/solidity/recipes/Listings.sol",
    "tests/solidity/recipes/Recipes.t.sol",
    "tests/solidity/conformance/MyGateway.t.sol",
    "tests/anvil/recipes.py",
)
"""Code that tests run, from which the documentation's code is taken."""

ELSEWHERE: Final = {
    ("README.md", "python"): "run by tests/spark/test_quickstart.py",
    ("docs/quickstart.md", "python"): "run by tests/spark/test_quickstart.py",
    ("docs/quickstart.md", "ts"): "run by tests/spark/test_quickstart.py",
    ("docs/quickstart.md", "sh"): "run by tests/spark/test_quickstart.py",
    ("docs/add-an-adapter.md", "python"): "run by tests/anvil/test_sixth_gmp.py",
    ("docs/own-anvil.md", "sh"): "run by tests/anvil/test_attached_devnet.py",
    ("docs/add-an-adapter.md", "solidity"): "run by tests/anvil/test_sixth_gmp.py",
    ("docs/analysts.md", "python"): "run by tests/spark/test_pipeline.py",
    ("docs/analysts.md", "sql"): "run by tests/spark/test_pipeline.py",
    ("dapp/README.md", "ts"): "checked by dapp/test/long/package.test.ts; what the functions call is tested beside it",
    ("dapp/README.md", "tsx"): "checked by dapp/test/long/package.test.ts, run by dapp/test/long/embedded.test.ts",
    ("dapp/README.md", "html"): "served as it is by dapp/test/long/embedded.test.ts",
    ("dapp/README.md", "js"): "run by dapp/test/long/embedded.test.ts",
    (
        "docs/operate/cluster.md",
        "",
    ): "for servers of the reader's own; tests/spark/test_cluster.py runs a standalone one",
    ("docs/operate/install.md", ""): "most change a server",
    ("docs/index.md", "{toctree}"): "read by the site's build, which fails for a page that is not there",
}
"""By page and language, where else a block is run."""

TRANSCRIPT: Final = "Outcome: chains and index agree"
"""What `make demo` printed on some machine; tests/spark/test_quickstart.py runs it and compares what it found."""

HERE: Final = {"solidity", "python", "toml", "json", ""}
"""Languages whose blocks the tests of this file look at, wherever they stand."""


def lines_of(code: str) -> list[str]:
    """What is compared: without imports, since paths differ, empty lines and indentation."""
    stripped = (line.strip() for line in textwrap.dedent(code).splitlines())
    return [line for line in stripped if line and not re.match(r"(import|from) ", line)]


def stands_in(wanted: list[str], code: list[str]) -> bool:
    return any(code[start : start + len(wanted)] == wanted for start in range(len(code) - len(wanted) + 1))


def test_documented_code_stands_in_tested_code() -> None:
    played = [lines_of((ROOT / path).read_text()) for path in PLAYED]
    shown = [
        (page, content)
        for language in ("solidity", "python")
        for page, content in blocks(language)
        if (page, language) not in ELSEWHERE
    ]
    assert len(shown) > 12
    for page, content in shown:
        assert any(stands_in(lines_of(content), code) for code in played), f"{page}:\n{content}"


def test_no_block_is_of_a_language_that_nothing_runs() -> None:
    found = re.compile(r"^ *```([\w{}-]+)$", re.MULTILINE)
    for path in (ROOT / "README.md", ROOT / "dapp" / "README.md", *(ROOT / "docs").rglob("*.md")):
        page = str(path.relative_to(ROOT))
        for language in found.findall(path.read_text()):
            assert language in HERE or (page, language) in ELSEWHERE, f"{page}: {language}"
    for page, language in ELSEWHERE:
        assert page in {found for found, _ in blocks(language)}, f"{page} has no {language} any more"


def test_unlabelled_lines_are_existing_commands() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    api = re.sub(r"\{\w+\}", "*", http_api())
    for page, content in blocks(""):
        if TRANSCRIPT in content or (page, "") in ELSEWHERE:
            continue
        for line in filter(None, map(str.strip, content.splitlines())):
            word, *rest = line.split()
            if word == "make":
                assert rest[0] in targets, f"{page}: {line}"
            elif word in ("GET", "POST"):
                path = re.sub(r"\{[\w ]+\}", "*", line.partition('{"')[0].split(maxsplit=1)[1].strip())
                path = path.partition("?")[0].replace("alpha/beta", "*/*")
                assert f"## {word} {path}\n" in api, f"{page}: {line}"
            else:
                assert word == "waybill", f"{page}: {line}"


def test_settings_of_the_documentation_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for page, content in blocks("toml"):
        file = tmp_path / "block.toml"
        file.write_text(content)
        assert WaybillSettings.load(file).model_dump(include=set(tomllib.loads(content))), page


def test_files_of_the_documentation_are_accepted() -> None:
    address = "0x" + "Ab" * 20
    found = [
        json.loads(content.replace("0x…", address.lower()).replace("https://…", "https://rpc.example"))
        for page, content in blocks("json")
        if page == "docs/formats.md"
    ]
    deployment, plan = found
    assert Deployment.model_validate(deployment).network == "devnet"
    plan["chains"] *= 2  # a network has two chains at least
    plan["chains"][1] = plan["chains"][1] | {"chainId": 1, "name": "other"}
    assert NetworkPlan.model_validate(plan).network == "testnet"
