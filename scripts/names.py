"""Finds the names that docs/style/terms.toml replaces by standard ones, in code and in code that documentation shows.

The kind of a name says where it is looked for:

- class, variable, event: an identifier, or a string that is the name; of a class also a file of its name.
- function: its definition, or a call.
- member: `Owner.name`.
- field: the declaration of `name` in the class `Owner`.
- value: a word in a string or in documentation, such as a state that is stored.
- setting: a field of settings, an access to one, an environment variable, a key of a settings file, a word of documentation.
- command: the command as it is typed.
- module: a file or folder of that name, or its test.
- definition: a type of that name.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePath
from typing import Final

from scripts.source_text import SourceText, read_source

ROOT: Final = Path(__file__).resolve().parents[1]
TERMS: Final = ROOT / "docs" / "style" / "terms.toml"

_SUFFIXES: Final = frozenset({".py", ".sol", ".ts", ".sql", ".md", ".toml", ".yml", ".json", ".tree", ".html"})
_NOT_OURS: Final = ("package-lock.json", "docs/style/", "tests/unit/test_measure.py")
"""Lists of other projects' packages, and files that name the names."""


_IDENTIFIER: Final = r"(?<![\w$])(?P<at><name>)(?![\w$])"
_FIELD: Final = r"^class {owner}\b[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*?    (?P<at><name>): "
_NAMED: Final = (("", "code", _IDENTIFIER), ("", "strings", r"""(["'`])(?P<at><name>)\1"""))
_PATTERNS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "class": _NAMED,
    "variable": _NAMED,
    "event": _NAMED,
    "function": (("", "code", _IDENTIFIER + r"\s*\("),),
    "member": (("", "code", r"(?<![\w$])<owner>\s*\.\s*(?P<at><name>)(?![\w$])"),),
    "field": ((".py", "code", _FIELD.format(owner="<owner>")),),
    "value": (("", "strings", _IDENTIFIER),),
    "setting": (
        (".py", "code", _FIELD.format(owner=r"\w*(?:Settings|Table)")),
        (".py", "code", r"(?<!\w)_?(?:settings|relaying)\.(?P<at><name>)(?![\w(])"),
        (".py", "whole", r'"(?P<at><name>)": '),
        (".toml", "code", r"^[ \t]*(?:\w+\.)*(?P<at><name>)[ \t]*="),
        (".md", "code", r"^[ \t]*(?:\w+\.)*(?P<at><name>)[ \t]*="),
        (".md", "whole", r"`(?:\w+\.)*(?P<at><name>)`"),
        ("", "whole", r"\bWAYBILL_(?P<at><upper>)(?!\w)"),
    ),
    "command": (
        ("", "whole", r"(?<![\w-])(?P<at><words>)(?![\w-])"),
        ("", "whole", r"""["'](?P<at><arguments>)["']"""),
    ),
    "definition": (("", "code", r"\b(?:class|struct|interface|type|enum)\s+(?P<at><name>)(?![\w$])"),),
    "module": (),
}
"""By kind, where a name is looked for: in files of a suffix, in a part of their text, by a regular expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A name to be replaced.

    Attributes:
        name: as it is written.
        kind: what it names; see the module.
        paths: globs of the files that are searched; `*` also matches `/`.
        replacement: the standard term.
        allowed: how many there may be.
    """

    name: str
    kind: str
    paths: tuple[str, ...]
    replacement: str
    allowed: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """A line of a file, and what is wrong with it."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def read_terms(text: str) -> list[Term]:
    """Read the `[[name]]` entries.

    Raises:
        ValueError: an entry has a kind that nothing matches.
    """
    terms = [Term(**{**entry, "paths": tuple(entry["paths"])}) for entry in tomllib.loads(text).get("name", [])]
    for term in terms:
        if term.kind not in _PATTERNS:
            raise ValueError(f"{term.name}: {term.kind!r} is no kind of name")
    return terms


def tracked_files(root: Path = ROOT) -> list[str]:
    """The repository's files, those that are not committed yet included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name and (root / name).is_file())


def find_names(terms: Sequence[Term], files: Sequence[str], root: Path = ROOT) -> list[Occurrence]:
    """Every occurrence of a name, without as many as are allowed."""
    found = {term: list[Occurrence]() for term in terms}
    for file in files:
        path = PurePath(file)
        wanted = [term for term in terms if any(fnmatch(file, glob) for glob in term.paths)]
        if not wanted or file.startswith(_NOT_OURS) or path.name in _NOT_OURS:
            continue
        text = (root / file).read_text() if path.suffix in _SUFFIXES else ""
        lowered = text.lower()
        source = None
        for term in wanted:
            if _is_called(path, term):
                found[term].append(Occurrence(file, 1, _said(term)))
            if _last_part(term.name).lower() in lowered:
                source = source or read_source(path, text)
                found[term] += [Occurrence(file, line, _said(term)) for line in _lines(term, path, source)]
    return sorted(one for term in terms for one in found[term][term.allowed :])


def _said(term: Term) -> str:
    return f"{term.kind} {term.name}: use {term.replacement}"


def _last_part(name: str) -> str:
    """The member of `Owner.member`, or the last word of a command."""
    return name.rsplit(maxsplit=1)[-1].rpartition(".")[2]


def _lines(term: Term, path: PurePath, source: SourceText) -> Iterator[int]:
    """The lines on which a file has the name."""
    found = {
        match.start("at")
        for suffix, part, pattern in _PATTERNS[term.kind]
        if path.suffix == suffix or not suffix
        for match in _compiled(pattern, term.name).finditer(getattr(source, part))
    }
    yield from (source.line_of(position) for position in sorted(found))


@cache
def _compiled(pattern: str, full_name: str) -> re.Pattern[str]:
    owner, _, name = full_name.rpartition(".")
    words = [re.escape(word) for word in full_name.split()]
    meant = {
        "<name>": re.escape(name),
        "<owner>": re.escape(owner),
        "<upper>": re.escape(name.upper()),
        "<words>": r"\s+".join(words),
        "<arguments>": r"""["'],\s*["']""".join(words),
    }
    return re.compile(re.sub("|".join(meant), lambda found: meant[found[0]], pattern), re.MULTILINE)


def _is_called(path: PurePath, term: Term) -> bool:
    stem = path.name.split(".")[0]
    if term.kind == "class":
        return path.suffix == ".sol" and stem == term.name
    return term.kind == "module" and (term.name in (stem, stem.removeprefix("test_")) or term.name in path.parent.parts)
