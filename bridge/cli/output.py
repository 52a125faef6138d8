"""Prints results to stdout and everything else to stderr, and defines the exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pydantic.alias_generators import to_camel
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from bridge.cli.root import DEVNET, current
from bridge.protocol.text import visible
from bridge.queries.commands import for_network, value_for_network

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ID: Final = re.compile(r"0x[0-9A-Fa-f]{40,}\S*")  # of an account, a message, an action or a dead letter
_CAPITAL: Final = re.compile("(?<=[a-z])[A-Z](?=[a-z])")
_WIDE: Final = 10_000
"""Characters of a line of a file or pipe."""

_READABLE: Final = 20
"""Characters of a line that a column of text keeps on a narrow terminal, unless it needs fewer."""


class ExitCode(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNKNOWN_ID = 3
    PENDING = 4
    BEHIND = 5  # the index is too far behind the chains for a conclusive answer


class CliError(Exception):
    """An expected failure, which includes the next step."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, next_step: str | None = None) -> None:
        """Stores the message, the exit code, and the next step if there is one."""
        super().__init__(message)
        self.code = code
        self.next_step = next_step


class UsageError(CliError):
    """An invalid option or argument."""

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        """Stores the message. The exit code is 2."""
        super().__init__(message, code=ExitCode.USAGE, next_step=next_step)


def result(value: Any, *shown: RenderableType) -> None:
    """Prints a result: with --json as one JSON document, otherwise as the given tables and texts, one after another.

    Texts are data, never markup.
    """
    if current().as_json:
        sys.stdout.write(json.dumps(value_for_network(value, _network()), indent=2, default=plain) + "\n")
        return
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE)
    for part in shown:
        console.print(escaped(part) if isinstance(part, str) else part)


def with_network(text: str) -> str:
    """Adds the current `--network` to the commands in a text."""
    return for_network(text, _network())


def _network() -> str:
    return current().network or DEVNET


def progress(text: str) -> None:
    """Prints a line of progress to stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escaped(with_network(text)))


def fail(error: CliError) -> NoReturn:
    """Prints an error, and exits with its code."""
    message, next_step = with_network(str(error)), with_network(error.next_step) if error.next_step else None
    if current().as_json:
        document = {"error": {"code": error.code.name, "message": message, "next": next_step}}
        sys.stderr.write(json.dumps(document) + "\n")
    else:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[red]error[/red] {escaped(message)}")
        if next_step:
            console.print(f"[bold]next[/bold]  {escaped(next_step)}")
    raise SystemExit(error.code)


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Returns a table whose cells are data, never markup. Ids are not wrapped, so that they can be copied."""
    return _drawn(columns, rows, title=title, title_justify="left", header_style="bold")


def facts(pairs: Mapping[str, str]) -> Table:
    """Returns a table of names and values, one pair per line. Ids are not wrapped."""
    drawn = _drawn(("", ""), list(pairs.items()), show_header=False)
    drawn.columns[0].style = "bold"
    return drawn


def _drawn(headers: Sequence[str], rows: Sequence[Sequence[str]], **look: Any) -> Table:
    """Builds a table with one line per row. On a narrow terminal, text is wrapped if it stays readable."""
    drawn = Table(box=None, pad_edge=False, **look)
    cells = [[visible(cell, keep="\n") for cell in row] for row in rows]
    for place, header in enumerate(headers):
        texts = [header, *(row[place] for row in cells)]
        width = max(cell_len(line) for text in texts for line in text.split("\n"))
        longest_id = max((len(found) for text in texts for found in _ID.findall(text)), default=0)
        drawn.add_column(header, overflow="fold", min_width=max(min(width, _READABLE), longest_id))
    for row in cells:
        drawn.add_row(*map(escape, row))
    return drawn


def rows_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], title: str | None = None) -> Table:
    """Returns a table of a JSON answer's rows.

    `columns` maps each key to show to its heading. None becomes an empty cell.
    """
    cells = [[_cell(row[key]) for key in columns] for row in rows]
    return table(title, list(columns.values()), cells)


def details(value: Mapping[str, Any]) -> Table:
    """Returns a table of a JSON object's non-empty values."""
    shown = {name: _cell(one) for name, one in value.items()}
    return facts({_CAPITAL.sub(lambda one: f" {one[0].lower()}", name): text for name, text in shown.items() if text})


def _cell(value: Any) -> str:
    """Formats a value of a JSON answer for display."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(one) or 'none'}" for name, one in value.items())
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return ", ".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)


def escaped(text: str) -> str:
    """Escapes markup and control characters. Payloads and reasons are untrusted."""
    return escape(visible(text, keep="\n"))


def fields_of(record: DataclassInstance) -> dict[str, Any]:
    """Returns a record's fields for JSON, with camelCase names."""
    return in_camel_case(asdict(record))


def in_camel_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row for JSON, with camelCase names in place of snake_case."""
    return {to_camel(name): value for name, value in row.items()}


def plain(value: Any) -> Any:
    """Converts values that JSON can't represent: bytes to hex digits, sets to lists."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, frozenset | set):
        return sorted(str(item) for item in value)
    return str(value)
