"""Builds the documentation site in build/site, with search, for offline use.

The site contains docs/, the packages' READMEs, and reference pages generated from the code.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from sphinx.cmd.build import main as sphinx

from scripts import kit_reference, operator_pages, reference_pages

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "build" / "docs"
SITE: Final = ROOT / "build" / "site"

READMES: Final = {"typescript.md": ROOT / "dapp" / "README.md", "solidity.md": ROOT / "contracts" / "README.md"}
"""By place in the documentation, the READMEs of packages, which are pages of it as well."""

MADE: Final = reference_pages.PAGES | operator_pages.PAGES | {"reference/kit.md": kit_reference.page}
"""The function that makes each generated page, by the page's place in the documentation."""

_LINK: Final = re.compile(r"(?<!\!)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def within_the_site(text: str, written: Path, place: Path) -> str:
    """Returns a page with its links adapted to the site. Links to files outside the site become plain names.

    Args:
        text: Text of the page.
        written: File to which the page's links are relative.
        place: Path of the page in the documentation.
    """

    def link(found: re.Match[str]) -> str:
        words, path, anchor = found[1], found[2], found[3] or ""
        target = (written.parent / path).resolve()
        places = {readme.resolve(): SOURCES / at for at, readme in READMES.items()}
        if target in places:
            inside = places[target]
        elif target.is_relative_to(ROOT / "docs") and target.suffix != ".toml":
            inside = SOURCES / target.relative_to(ROOT / "docs")
        else:
            named = f"`{target.relative_to(ROOT)}`"
            return named if words.strip("`") in named else f"{words} ({named})"
        return f"[{words}]({os.path.relpath(inside, place.parent)}{anchor})"

    return _LINK.sub(link, text)


def build() -> int:
    """Builds the site. Returns Sphinx's exit status, which is nonzero if there are warnings."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCES, ignore=shutil.ignore_patterns("*.toml"))
    for place, make in MADE.items():
        (SOURCES / place).parent.mkdir(exist_ok=True)
        (SOURCES / place).write_text(make())
    for place, readme in READMES.items():
        (SOURCES / place).write_text(within_the_site(readme.read_text(), readme, SOURCES / place))
    for page in SOURCES.rglob("*.md"):
        within = page.relative_to(SOURCES)
        if str(within) not in READMES:
            page.write_text(within_the_site(page.read_text(), ROOT / "docs" / within, page))
    return sphinx(
        [
            "-q",
            "-W",
            "--keep-going",
            "-b",
            "html",
            "-d",
            str(ROOT / "build" / "cache" / "docs"),
            str(SOURCES),
            str(SITE),
        ]
    )


if __name__ == "__main__":
    code = build()
    if code == 0:
        print(f"the site is in {SITE.relative_to(ROOT)}; open {SITE.relative_to(ROOT)}/index.html")
    sys.exit(code)
