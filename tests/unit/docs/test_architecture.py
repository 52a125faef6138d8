"""docs/architecture.md names files, functions and packages that are there, and all of the layers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = re.findall(r"^\|[^|]*\| `([^`]+\.(?:py|sol))` \| `([^`]+)` \|$", PAGE, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`((?:bridge|indexer|contracts|tests|docs)/[\w./-]+)`", PAGE)))


def test_the_way_of_a_message_has_its_steps() -> None:
    assert len(STEPS) > 15


@pytest.mark.parametrize(("file", "function"), STEPS)
def test_each_step_names_a_function_of_its_file(file: str, function: str) -> None:
    text = (ROOT / file).read_text()
    for name in function.split("."):
        assert re.search(rf"\b(?:def|class|function) {name}\b", text), f"{file} has no {name}"


@pytest.mark.parametrize("path", NAMED)
def test_each_place_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("package", ["bridge", "indexer"])
def test_the_table_of_layers_is_the_one_that_is_checked(package: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (checked,) = [one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == [package]]
    heading = f"| row | packages of `{package}` |"
    table = PAGE.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    drawn = [set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table]
    assert drawn == [set(re.split(r" [:|] ", layer)) for layer in checked]
