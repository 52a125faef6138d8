"""Tells the code of a file from its strings and its prose. Each part keeps the lines of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

_STRING: Final = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_PYTHON: Final = re.compile(
    rf'''(?P<comment>\#[^\n]*)
    |(?P<string>(?<!\w)(?P<prefix>[rbufRBUF]{{0,2}})(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|{_STRING}))''',
    re.DOTALL | re.VERBOSE,
)
_SOLIDITY: Final = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>{_STRING})", re.DOTALL)
_TYPESCRIPT: Final = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>`(?:\\.|[^`\\])*`|{_STRING})", re.DOTALL)
_SQL: Final = re.compile(rf"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<string>{_STRING})", re.DOTALL)
_DATA: Final = re.compile(r"(?P<comment>^\s*#[^\n]*)", re.MULTILINE)
_LEXERS: Final = {
    ".py": _PYTHON,
    ".sol": _SOLIDITY,
    ".ts": _TYPESCRIPT,
    ".sql": _SQL,
    ".toml": _DATA,
    ".yml": _DATA,
}
_MARKDOWN_CODE: Final = re.compile(r"^ *```.*?^ *```|(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
_PLACEHOLDER: Final = re.compile(r"\$?\{[^{}]+\}")


Span = tuple[int, int]
"""Where a part begins, and where it has ended."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The parts of one file; what belongs to another part is blank.

    Attributes:
        whole: the file as it is.
        code: code alone, with the expressions inside an f-string or a template. Of Markdown, its code blocks and code spans.
        strings: string literals, docstrings included. Of Markdown and data, the whole file.
        prose: comments and string literals. Of Markdown, all but its code.
    """

    whole: str
    code: str
    strings: str
    prose: str

    def line_of(self, position: int) -> int:
        """The line, from 1, of a character in any part."""
        return self.whole.count("\n", 0, position) + 1


def read_source(path: PurePath, text: str) -> SourceText:
    """Split a file by the language that its name ends with; a file of an unknown language is code and text at once."""
    if path.suffix == ".md":
        shown = [found.span() for found in _MARKDOWN_CODE.finditer(text)]
        return SourceText(text, _only(text, shown), text, _without(text, shown))
    lexer = _LEXERS.get(path.suffix)
    if lexer is None:
        return SourceText(text, text, text, "")
    comments, strings, nested = list[Span](), list[Span](), list[Span]()
    for found in lexer.finditer(text):
        (comments if found["comment"] is not None else strings).append(found.span())
        if _is_template(path.suffix, found):
            nested += [inner.span() for inner in _PLACEHOLDER.finditer(text, *found.span())]
    code = _overlaid(_without(text, comments + strings), text, nested)
    if lexer is _DATA:
        return SourceText(text, code, code, _only(text, comments))
    return SourceText(text, code, _only(text, strings), _only(text, comments + strings))


def _is_template(suffix: str, found: re.Match[str]) -> bool:
    if found["comment"] is not None:
        return False
    return (suffix == ".py" and "f" in found["prefix"].lower()) or (suffix == ".ts" and found[0].startswith("`"))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _only(text: str, spans: list[Span]) -> str:
    """The text with everything outside of the spans blank."""
    return _overlaid(_blank(text), text, spans)


def _without(text: str, spans: list[Span]) -> str:
    """The text with everything inside the spans blank."""
    return _overlaid(text, _blank(text), spans)


def _overlaid(below: str, above: str, spans: list[Span]) -> str:
    """One text with the spans of another, which is as long, laid over it."""
    parts, end = list[str](), 0
    for first, last in sorted(spans):
        parts += [below[end:first], above[first:last]]
        end = last
    return "".join([*parts, below[end:]])
