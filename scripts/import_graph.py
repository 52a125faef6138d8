"""Finds import cycles among the modules of bridge and indexer, and the modules that no entry point reaches.

Imports count wherever they stand: in functions, and under TYPE_CHECKING too. A module also reaches those that it names in a string,
as `python -m` and lazy commands do: by the whole name, or behind the fixed beginning of an f-string such as f"bridge.cli.{name}".
An f-string with a fixed end too, such as f"bridge.gmps.{gmp}.adapter", names every module that fits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import grimp

PACKAGES: Final = ("bridge", "indexer")

Graph = Mapping[str, frozenset[str]]
"""By module, the modules that it imports."""


def read_imports(packages: Iterable[str] = PACKAGES) -> dict[str, frozenset[str]]:
    """The imports between the modules of packages, which `sys.path` has."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    return {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def read_names(modules: Iterable[str], root: Path) -> dict[str, frozenset[str]]:
    """By module, the modules that it names in strings."""
    known = frozenset(modules)
    return {module: frozenset(_named(ast.parse(_file_of(module, root).read_text()), known)) for module in known}


def _file_of(module: str, root: Path) -> Path:
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _named(tree: ast.AST, known: frozenset[str]) -> Iterator[str]:
    strings, beginnings, patterns = set[str](), set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            beginnings.add(str(node.values[0].value))
            if isinstance(node.values[-1], ast.Constant):
                patterns.add(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
                )
    for beginning in ("", *(one for one in beginnings if one.endswith("."))):
        yield from ({beginning + string.replace("-", "_") for string in strings} & known)
    for pattern in patterns:
        yield from (module for module in known if fnmatchcase(module, pattern))


def unreached(imports: Graph, names: Graph, entries: Iterable[str]) -> list[str]:
    """The modules that no entry point leads to. To import a module is to import the packages that it is in."""
    reached, waiting = set[str](), list(entries)
    while waiting:
        parts = waiting.pop().split(".")
        for module in (".".join(parts[:length]) for length in range(1, len(parts) + 1)):
            if module in imports and module not in reached:
                reached.add(module)
                waiting += [*imports[module], *names[module]]
    # A package is run by its __main__; to name the one is to name the other.
    return sorted(module for module in imports.keys() - reached if module.removesuffix(".__main__") not in reached)


def cycles(imports: Graph) -> list[list[str]]:
    """The groups of modules of which each imports all others, directly or not; Tarjan's algorithm."""
    numbers, lowest, stack, groups = dict[str, int](), dict[str, int](), list[str](), list[list[str]]()

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for imported in imports[module]:
            if imported not in numbers:
                visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == numbers[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                groups.append(sorted(group))

    for module in sorted(imports):
        if module not in numbers:
            visit(module)
    return groups
