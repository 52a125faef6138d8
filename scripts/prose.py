"""Lints prose: docs/**.md and the READMEs, the help of the commands, comments, docstrings and texts in code.

`make lint` runs it as `python -m scripts.prose`. textlint reads the Markdown and the commands' help. Its rule
scripts/textlint/sentence-words.js finds long sentences, its rule `terminology` the words of docs/style/terms.toml. This module
searches code for the same words.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from scripts.names import ROOT, TERMS, Occurrence, tracked_files
from scripts.reference_pages import cli
from scripts.source_text import read_source

WORK: Final = ROOT / "build" / "prose"
COMMANDS: Final = WORK / "commands.md"
LONGEST: Final = 25  # words of a sentence

_TEXTLINT: Final = ROOT / "node_modules" / ".bin" / "textlint"
_SENTENCES: Final = ROOT / "scripts" / "textlint" / "sentence-words.js"
_CODE: Final = ("bridge/", "indexer/", "contracts/", "dapp/src/", "scripts/")
_SUFFIXES: Final = (".py", ".sol", ".ts", ".sql")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase to do without.

    Attributes:
        word: what it is called.
        pattern: the regular expression that finds it, in Python as in JavaScript.
        use: "never" or "seldom".
        replacement: what to write.
    """

    word: str
    pattern: str
    use: str
    replacement: str

    @property
    def expression(self) -> str:
        """The pattern for whole words, whose spaces may be the end of a line within a comment."""
        pattern = self.pattern.replace(" ", r"[\s#/*>]+")
        return rf"(?<![\w-])(?:{pattern})(?![\w-])"

    def __str__(self) -> str:
        return f"word {self.word}: use {self.replacement}"


def read_words(text: str) -> list[Word]:
    """Read the `[[word]]` entries."""
    return [Word(**{"pattern": entry["word"], **entry}) for entry in tomllib.loads(text).get("word", [])]


def find_words(words: Sequence[Word], file: str, text: str) -> list[Occurrence]:
    """Every use of the words in the prose of a file."""
    source = read_source(PurePath(file), text)
    return [
        Occurrence(file, source.line_of(found.start()), str(word))
        for word in words
        for found in re.finditer(word.expression, source.prose, re.IGNORECASE)
    ]


def find_in_markdown(words: Sequence[Word], files: Sequence[Path]) -> dict[str, list[Occurrence]]:
    """Forbidden words and long sentences of Markdown files, as textlint finds them.

    Raises:
        SystemExit: textlint can't run.
    """
    terms = [[word.expression, word.replacement] for word in words]
    rules = {
        str(_SENTENCES): {"max": LONGEST},
        "terminology": {"defaultTerms": False, "skip": [], "terms": terms},
    }
    WORK.mkdir(parents=True, exist_ok=True)
    configuration = WORK / "textlint.json"
    configuration.write_text(json.dumps({"rules": rules}))
    command = [str(_TEXTLINT), "--config", str(configuration), "--format", "json", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        reports: list[dict[str, Any]] = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"textlint could not run:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    found: dict[str, list[Occurrence]] = {"forbidden_words": [], "long_sentences": []}
    for report in reports:
        path = Path(report["filePath"])
        file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        for message in report["messages"]:
            rule = "forbidden_words" if message["ruleId"] == "terminology" else "long_sentences"
            found[rule].append(Occurrence(file, message["line"], message["message"]))
    return found


def find_broken(files: Sequence[str]) -> dict[str, list[Occurrence]]:
    """By rule, each place that breaks it: in the repository's files, and in the help of all commands."""
    words = _words("never")
    WORK.mkdir(parents=True, exist_ok=True)
    COMMANDS.write_text(cli())
    broken = find_in_markdown(words, [*(ROOT / page for page in _pages(files)), COMMANDS])
    # The help of a command is text of its module too: there its words are found at their place.
    in_pages = [one for one in broken["forbidden_words"] if ROOT / one.path != COMMANDS]
    in_code = [one for file in _code(files) for one in find_words(words, file, (ROOT / file).read_text())]
    return broken | {"forbidden_words": sorted(in_pages + in_code)}


def find_seldom(files: Sequence[str]) -> list[Occurrence]:
    """The words that no rule forbids, and that should be rare."""
    words = _words("seldom")
    read = [*_pages(files), *_code(files)]
    return sorted(one for file in read for one in find_words(words, file, (ROOT / file).read_text()))


def _words(use: str) -> list[Word]:
    return [word for word in read_words(TERMS.read_text()) if word.use == use]


def _pages(files: Sequence[str]) -> list[str]:
    return [file for file in files if file.endswith(".md")]


def _code(files: Sequence[str]) -> list[str]:
    return [file for file in files if file.startswith(_CODE) and file.endswith(_SUFFIXES)]


def judge(broken: dict[str, list[Occurrence]]) -> list[str]:
    """Each place that breaks a rule, and how many there are, to be printed."""
    return [line for rule, found in broken.items() if found for line in (*map(str, found), f"{rule}: {len(found)}")]


def main() -> int:
    """Print what breaks a rule; 1 if there is any."""
    problems = judge(find_broken(tracked_files()))
    print("".join(f"{problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
