"""Builds the documentation's site into build/site: searchable, and readable without a network.

The pages are those of docs/ and the READMEs of the packages; references and runbooks are made from the code, benchmarks
from build/bench.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sphinx.cmd.build import main as sphinx

from scripts import kit_reference, reference_pages

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "build" / "docs"
SITE: Final = ROOT / "build" / "site"
_BENCHES: Final = ROOT / "build" / "bench"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def benchmarks() -> str:
    """What the benches of this machine measured, file by file."""
    parts = [
        "# Figures of this machine",
        "Measured on the machine that built this site; `make bench-relay` measures again.",
    ]
    files = sorted(_BENCHES.glob("*.json"))
    parts += [f"## {file.stem}\n\n{_figures(json.loads(file.read_text()))}" for file in files]
    if not files:
        parts.append("Nothing has been measured here yet.")
    return "\n\n".join(parts) + "\n"


def _figures(value: Any) -> str:
    """Figures as a table: a row for each, named by the way to it."""
    rows = [f"| {_cell(' · '.join(path))} | {figure} |" for path, figure in _leaves(value, ())]
    return "\n".join(["| what | figure |", "|---|---|", *rows])


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _leaves(inner, (*path, str(name).replace("_", " ")))
        case list():
            for number, inner in enumerate(value, 1):
                yield from _leaves(inner, (*path, str(number)))
        case _:
            yield path, _cell(str(value))


READMES: Final = {"typescript.md": ROOT / "dapp" / "README.md", "solidity.md": ROOT / "contracts" / "README.md"}
"""By place in the documentation, the READMEs of packages, which are pages of it as well."""

MADE: Final = reference_pages.PAGES | {
    "reference/kit.md": kit_reference.page,
    "benchmarks.md": benchmarks,
}
"""By place in the documentation, what makes the pages that are not written by hand."""

_LINK: Final = re.compile(r"(?<!\!)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def within_the_site(text: str, written: Path, place: Path) -> str:
    """A page with links that lead somewhere in the site. What is in the repository alone is named, not linked to.

    Args:
        text: the page.
        written: the file that its links start from.
        place: where the page is in the documentation.
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
    """Builds the site; returns Sphinx's exit code, which is not 0 for a warning."""
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
