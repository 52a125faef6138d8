"""Fails on import cycles, on modules that no entry point reaches, and on the names that docs/style/terms.toml replaces.

`make lint` runs it as `python -m scripts.structure`. `make measure` counts the same. A module that has to stay although nothing
reaches it has an excuse in pyproject.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from scripts.import_graph import Graph, cycles, read_imports, read_names, unreached
from scripts.names import ROOT, TERMS, find_names, read_terms, tracked_files

ENTRY_POINTS: Final = ("bridge.client",)
"""The modules that users import; [project.scripts] names the commands."""


def entry_points(project: dict[str, Any]) -> set[str]:
    """The modules of the commands that pyproject.toml declares, and those that users import."""
    commands = {script.partition(":")[0] for script in project["project"]["scripts"].values()}
    return {*commands, *ENTRY_POINTS}


@dataclass(frozen=True, slots=True)
class Excuse:
    """A module that no entry point reaches, and that may stay: an entry of `unreached` in pyproject.toml."""

    module: str
    reason: str


def excuses(project: dict[str, Any]) -> list[Excuse]:
    """Read the excuses from pyproject.toml."""
    return [Excuse(**one) for one in project["tool"]["waybill"]["measure"]["unreached"]]


def judge_excuses(imports: Graph, names: Graph, entries: set[str], excused: Sequence[Excuse]) -> list[str]:
    """The excuses that have no reason, or that are not needed: the module is gone, or something else reaches it.

    Args:
        imports: by module, what it imports.
        names: by module, the modules that it names.
        entries: the entry points.
        excused: those of pyproject.toml.
    """
    problems = [f"{one.module}: its excuse has no reason" for one in excused if not one.reason.strip()]
    for one in excused:
        others = {other.module for other in excused} - {one.module}
        if one.module not in unreached(imports, names, entries | others):
            state = "it is reached without" if one.module in imports else "there is no such module"
            problems.append(f"{one.module}: remove its excuse from pyproject.toml, {state}")
    return problems


def check() -> list[str]:
    """Each import cycle, unreachable module, unneeded excuse and forbidden name, a line each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    excused, entries = excuses(project), entry_points(project)
    imports = read_imports()
    names = read_names(imports, ROOT)
    dead = unreached(imports, names, entries | {one.module for one in excused})
    return [
        *(f"import cycle: {' <-> '.join(group)}" for group in cycles(imports)),
        *(f"{module}: no entry point reaches it; delete it, or excuse it in pyproject.toml" for module in dead),
        *judge_excuses(imports, names, entries, excused),
        *map(str, find_names(read_terms(TERMS.read_text()), tracked_files(ROOT), ROOT)),
    ]


def main() -> int:
    """Print each problem; 1 if there is one."""
    problems = check()
    print("".join(f"{problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
