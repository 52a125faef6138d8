"""The page about the contracts: its two ways name the files that a half of the router is made of, and no others."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = ROOT / "contracts"
PAGE = ROOT / "docs" / "contracts.md"

MOST_FILES = 14
"""What a reader has to open to follow one message through a half of the router."""


def listed(way: str) -> list[str]:
    """The first cells of the table under a heading, below contracts/."""
    section = PAGE.read_text().split(f"## The way of `{way}`\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.sol)` \|", section, re.MULTILINE)


def imported(file: Path) -> set[Path]:
    """The file and all of ours that it imports, and that these import."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        next_file = waiting.pop().resolve()
        if next_file not in found:
            found.add(next_file)
            waiting += [next_file.parent / path for path in re.findall(r'from "(\.[^"]+)"', next_file.read_text())]
    return found


@pytest.mark.parametrize(("way", "half"), [("route", "MessageSender.sol"), ("receive", "MessageReceiver.sol")])
def test_the_way_of_a_message_is_listed_and_short(way: str, half: str) -> None:
    files = listed(way)
    assert len(files) == len(set(files)) <= MOST_FILES
    expected = {CONTRACTS / "Router.sol", *imported(CONTRACTS / half)}
    assert {CONTRACTS / file for file in files} == expected
    assert f"import {{{half.removesuffix('.sol')}}}" in (CONTRACTS / "Router.sol").read_text()


def test_every_contract_of_the_router_stands_in_the_table_of_halves() -> None:
    page = PAGE.read_text()
    named = set(re.findall(r"`(\w+)`", page))
    assert {file.stem for file in CONTRACTS.glob("*.sol")} <= named
