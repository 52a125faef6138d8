"""Prints how far the code is from its goals, one figure a line, and writes build/measure.json.

make measure                               every figure
make measure ARGS="--list"                 and each place that a figure counts
make measure ARGS="--list forbidden_names" or those of some figures
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scripts import journey
from scripts.import_graph import PACKAGES, cycles, read_imports, read_names, unreached
from scripts.names import ROOT, TERMS, find_names, read_terms, tracked_files
from scripts.prose import find_broken, find_seldom
from scripts.structure import entry_points, excuses

RESULT: Final = ROOT / "build" / "measure.json"
_SMALL: Final = 70  # lines


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure.

    Attributes:
        value: what is written to the file.
        goal: what it should be, in words.
        note: what it consists of.
        places: what it counts, a line each.
    """

    value: int
    goal: str
    note: str = ""
    places: Sequence[str] = field(default=(), repr=False)


def count_statements(text: str) -> int:
    """The statements of a module, without docstrings and other strings that stand alone."""
    return sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in ast.walk(ast.parse(text)))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count_layers(package: str, project: dict[str, Any]) -> int | None:
    """How many layers the contracts of import-linter give a package; None if no contract is about its parts.

    Args:
        package: `bridge` or `indexer`.
        project: pyproject.toml.
    """
    counts = []
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        prefixes = [f"{container}." for container in contract.get("containers", ())] or [""]
        layers = [
            [prefix + name for name in re.findall(r"[\w.]+", layer)]
            for prefix in prefixes
            for layer in contract["layers"]
        ]
        counts.append(sum(any(_is_part(name, package) for name in layer) for layer in layers))
    return max(counts, default=0) or None


def _is_part(module: str, package: str) -> bool:
    return module.startswith(f"{package}.") and module.count(".") == 1


def _layers(project: dict[str, Any]) -> Figure:
    counts, notes = [], []
    for package in PACKAGES:
        count = count_layers(package, project)
        if count is None:
            count = sum((folder / "__init__.py").exists() for folder in (ROOT / package).iterdir())
            notes.append(f"{package} has no contract, and {count} packages")
        else:
            notes.append(f"{package} has {count}")
        counts.append(count)
    return Figure(max(counts), "at most 7", "; ".join(notes))


def _journey(*, fresh: bool) -> Figure:
    if fresh or not journey.RESULT.exists():
        subprocess.run([sys.executable, "-m", "scripts.journey"], cwd=ROOT, check=True)
    files: dict[str, list[str]] = json.loads(journey.RESULT.read_text())
    found = [file for language in files.values() for file in language]
    note = ", ".join(f"{len(group)} of {language}" for language, group in files.items())
    return Figure(len(found), "at most 90", note, found)


def measure(*, fresh: bool) -> tuple[dict[str, Figure], list[str]]:
    """Every figure by its name, and the words that should be rare.

    Args:
        fresh: trace the way of a message again.
    """
    files = tracked_files()
    python = [
        file for file in files if file.startswith(tuple(f"{name}/" for name in PACKAGES)) and file.endswith(".py")
    ]
    texts = {file: (ROOT / file).read_text() for file in python}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = project["tool"]["waybill"]["measure"]

    statements = sum(map(count_statements, texts.values()))
    before = own["statements_before"]
    modules = {file: text for file, text in texts.items() if not file.endswith("/__init__.py")}
    small = [file for file, text in modules.items() if len(text.splitlines()) < _SMALL]
    imports = read_imports()
    groups = cycles(imports)
    excused = [one.module for one in excuses(project)]
    dead = unreached(imports, read_names(imports, ROOT), entry_points(project).union(excused))
    names = find_names(read_terms(TERMS.read_text()), files)
    broken = find_broken(files)
    words, sentences = broken["forbidden_words"], broken["long_sentences"]
    figures = {
        "journey_files": _journey(fresh=fresh),
        "statements": Figure(
            statements, f"at most {before * 85 // 100}", f"{statements / before - 1:+.1%} against {before}"
        ),
        "small_files": Figure(
            len(small), "printed, not judged", f"of {len(modules)} are shorter than {_SMALL} lines", small
        ),
        "layers": _layers(project),
        "cycles": Figure(len(groups), "0", "", [" <-> ".join(group) for group in groups]),
        "unreachable": Figure(len(dead), "0", f"{len(excused)} excused in pyproject.toml", dead),
        "forbidden_names": Figure(
            len(names), "0", f"places of {len({one.what for one in names})} names", _lines(names)
        ),
        "forbidden_words": Figure(len(words), "0", "", _lines(words)),
        "long_sentences": Figure(len(sentences), "0", "", _lines(sentences)),
    }
    return figures, [one.what for one in find_seldom(files)]


def _lines(found: Iterable[object]) -> list[str]:
    return [str(one) for one in found]


_ALWAYS_LISTED: Final = ("cycles", "unreachable")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--fresh", action="store_true", help="trace a message again, for a minute, instead of reading the last trace"
    )
    parser.add_argument(
        "--list", nargs="*", metavar="FIGURE", help="print each place, of all figures or of those named"
    )
    arguments = parser.parse_args()
    figures, seldom = measure(fresh=arguments.fresh)
    listed = {*_ALWAYS_LISTED, *(figures if arguments.list == [] else arguments.list or ())}
    if unknown := listed - figures.keys():
        parser.error(f"no figure is called {', '.join(sorted(unknown))}; there are {', '.join(figures)}")
    for name, figure in figures.items():
        print(f"{name:<16} {figure.value:>6}  goal: {figure.goal:<20} {figure.note}".rstrip())
        if name in listed:
            print("".join(f"    {place}\n" for place in figure.places), end="")
    for word in sorted(set(seldom)):
        print(f"seldom           {seldom.count(word):>6}  {word.partition(':')[0]}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({name: figure.value for name, figure in figures.items()}, indent=2) + "\n")
    print(f"the figures are in {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
