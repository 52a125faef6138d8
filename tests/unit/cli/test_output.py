"""Tables can be read and copied from, however narrow the terminal is and wherever the output goes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bridge.cli.output import facts, table
from tests.cases import for_each_case

ID = f"0x{'ab' * 32}"
LONG = "a sentence of quite some words that says what was found and where"


def drawn(*, width: int, terminal: bool) -> list[str]:
    """The lines of a table with an id, short cells and a long text."""
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, soft_wrap=True)
    columns = ["message", "lane", "state", "found"]
    console.print(table(None, columns, [[ID, "alpha → beta", "EXECUTED", LONG], [ID, "beta → alpha", "STALLED", ""]]))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_row_is_a_line_where_the_output_is_read_by_a_program() -> None:
    heading, first, second = drawn(width=80, terminal=False)
    assert heading.split() == ["message", "lane", "state", "found"]
    assert first == f"{ID}  alpha → beta  EXECUTED  {LONG}"
    assert second == f"{ID}  beta → alpha  STALLED"


@for_each_case("width", [20, 80, 100, 120, 160])
def test_a_narrow_terminal_breaks_neither_ids_nor_words(width: int) -> None:
    shown = drawn(width=width, terminal=True)
    first = next(line for line in shown if ID in line)
    assert first.startswith(f"{ID}  alpha → beta  EXECUTED  a sentence of"), shown
    said = " ".join(" ".join(line.replace(ID, "").split()) for line in shown)
    assert set(LONG.split()) <= set(said.split()), "a word was broken into lines"


def test_a_wide_terminal_folds_nothing() -> None:
    assert f"{ID}  alpha → beta  EXECUTED  {LONG}" in drawn(width=300, terminal=True)


@pytest.mark.parametrize("width", [20, 80, 100])
def test_a_column_of_texts_folds_between_words_though_one_of_them_is_an_id(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, soft_wrap=True)
    console.print(table(None, ["check", "found"], [["versions", LONG * 2], ["seal", f"{ID} holds 1 ether"]]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in shown) <= max(width, len("versions  ") + len(ID))
    assert any(ID in line for line in shown)


@pytest.mark.parametrize(("width", "terminal"), [(80, False), (80, True), (40, True)])
def test_names_and_values_break_no_id_and_lose_nothing(width: int, *, terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, soft_wrap=True)
    console.print(facts({"message": ID, "received over hyperlane": LONG * 2, "name": "[red]x"}))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert any(line.split() == ["message", ID] for line in shown.splitlines()), shown
    assert "[red]x" in shown
    assert set(LONG.split()) <= set(shown.split())
    assert terminal or len(shown.splitlines()) == 3
