"""What the command says about itself: every example in it can be typed, and the shell completes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from rich.markup import render
from typer._click.core import Command, Context  # typer keeps its click to itself
from typer.core import TyperGroup

from bridge.cli.app import app
from bridge.cli.errors import _AGAIN, _ENDS, _MEND_PLAN, _READ_HELP, as_cli_error
from tests.unit.cli.examples import read_line

WAYBILL = Path(sys.executable).with_name("waybill")


def commands(command: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name in command.list_commands(Context(command)):
        found = command.get_command(Context(command), name)
        assert found is not None
        yield from commands(found, (*path, name))


ROOT = typer.main.get_command(app)
ALL = dict(commands(ROOT))


def example_of(command: Command) -> str:
    last = (command.help or "").strip().splitlines()[-1].strip()
    assert last.startswith("Example: waybill "), f"its help ends with {last!r}"
    return last.removeprefix("Example: ")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example_that_can_be_typed(path: tuple[str, ...]) -> None:
    line = example_of(ALL[path])
    assert line.split()[: len(path) + 1] == ["waybill", *path]
    read_line(line)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_every_command_shows_each_of_its_words(path: tuple[str, ...]) -> None:
    command = ALL[path]
    texts = [command.help or "", *(str(getattr(parameter, "help", None) or "") for parameter in command.params)]
    assert [text for text in texts if render(text).plain != text] == [], "brackets are markup, which is not shown"


def test_every_kind_of_error_names_a_command_or_says_to_type_the_same_one_again() -> None:
    for kind, _, next_step in _ENDS:
        if next_step.endswith(" --help"):
            assert tuple(next_step.split()[1:-1]) in ALL
        elif next_step not in (_READ_HELP, _MEND_PLAN, _AGAIN):
            read_line(next_step)
        ended = as_cli_error(kind.__new__(kind))
        assert ended is not None
        assert ended.next_step


def complete(words: str) -> str:
    position = len(words.split(" ")) - 1
    asked = {"_WAYBILL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [WAYBILL], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_the_shell_completes_commands_and_options() -> None:
    assert complete("waybill mess").split() == ["message"]
    assert {"watch", "retry", "cancel"} <= set(complete("waybill message ").split())
    assert "--watch" in complete("waybill status --w")
