"""The glossary is short, and explains terms that the documentation uses."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.test_docs import PAGES, ROOT

MOST_TERMS = 40
_PAGE = (ROOT / "docs" / "glossary.md").read_text()
TERMS = re.findall(r"^(\S.*)\n: ", _PAGE, re.MULTILINE)
OTHERS = " ".join(page.read_text() for page in PAGES if page.name != "glossary.md" and "decisions" not in page.parts)


def test_forty_terms_are_enough_and_stand_in_order() -> None:
    assert 20 < len(TERMS) <= MOST_TERMS
    assert len(TERMS) == len(re.findall(r"^: ", _PAGE, re.MULTILINE))
    assert sorted(set(TERMS), key=str.lower) == TERMS


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_used_more_than_once(term: str) -> None:
    words = re.escape(term).replace(r"\ ", r"\s+").replace(r"\-", "-")
    assert len(re.findall(rf"\b{words}(?:s|d|ies)?\b", OTHERS, re.IGNORECASE)) >= 2
