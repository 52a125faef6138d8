"""Rows as people and programs want them: a drawn table, JSON, JSON lines, CSV or Parquet."""

from __future__ import annotations

import io
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bridge.cli.output import UsageError, plain, table

if TYPE_CHECKING:
    import pyarrow as pa


class Format(StrEnum):
    """The formats."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


Chosen = Annotated[
    Format, typer.Option("--format", help="How to print the rows. parquet needs --output.", show_default=True)
]
Output = Annotated[
    Path | None,
    typer.Option("--output", help="Write the rows to this new file, and not to stdout.", show_default=False),
]


def check(form: Format, output: Path | None) -> None:
    """Looks whether rows can be written so, before any is computed.

    Raises:
        UsageError: Parquet has no place on a terminal, or the file is there already.
    """
    if form is Format.PARQUET and output is None:
        raise UsageError("Parquet is no text", next_step="add --output rows.parquet")
    if output is not None and output.exists():
        raise UsageError(f"{output} is there already", next_step="name another file, or move it away")


def export(rows: pa.Table, form: Format, output: Path | None) -> None:
    """Writes rows to stdout, or to a new file; see `check`."""
    written = _written(rows, form)
    if output is None:
        sys.stdout.write(written.decode())
        return
    with output.open("xb") as file:
        file.write(written)


def _written(rows: pa.Table, form: Format) -> bytes:
    from pyarrow import csv, parquet

    stream = io.BytesIO()
    if form is Format.PARQUET:
        parquet.write_table(rows, stream, compression="zstd")
        return stream.getvalue()
    if form is Format.CSV:
        csv.write_csv(rows, stream)
        return stream.getvalue()
    values = rows.to_pylist()
    if form is Format.JSON:
        return (json.dumps(values, indent=2, default=plain) + "\n").encode()
    if form is Format.JSONL:
        return "".join(json.dumps(row, default=plain) + "\n" for row in values).encode()
    console = Console(file=io.StringIO(), highlight=False, soft_wrap=True)
    cells = [["" if cell is None else str(plain(cell)) for cell in row.values()] for row in values]
    console.print(table(None, rows.column_names, cells))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().encode()
