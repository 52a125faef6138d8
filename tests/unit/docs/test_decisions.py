"""Decisions and the pages at the root keep their form: short, wrapped, and naming only files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs.test_docs import FRONT, ROOT, name

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
WRAPPED = [*FRONT, *(ROOT / "docs" / "decisions").glob("*.md"), *(ROOT / "docs" / "benchmarks").glob("*.md")]
COLUMNS = 100
README_WORDS = 600
_PATH = re.compile(r"`((?:bench|bridge|contracts|dapp|docs|indexer|ops|scripts|snapshots|tests)/[\w./-]+)`")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem[:4])
def test_a_decision_says_context_decision_and_consequences_in_forty_lines(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
    assert lines[0].startswith(f"# {page.stem[:4]} ")
    assert len(lines) <= 40


def test_the_list_of_decisions_has_each_with_its_title() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([\w-]+\.md)\) \| (.+) \|$", (DECISIONS[0].parent / "README.md").read_text(), re.MULTILINE
    )
    titles = [page.read_text().partition("\n")[0].removeprefix("# ") for page in DECISIONS]
    assert [(f"{number} {title}", file) for number, file, title in listed] == [
        (title, page.name) for title, page in zip(titles, DECISIONS, strict=True)
    ]


@pytest.mark.parametrize("page", WRAPPED, ids=name)
def test_a_page_is_wrapped_and_names_only_files_that_exist(page: Path) -> None:
    text = page.read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > COLUMNS and not line.startswith(("|", "<"))] == []
    assert [path for path in _PATH.findall(text) if not (ROOT / path).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= README_WORDS
