"""What the command says about itself: every example in it can be typed, and the shell completes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer._click.core import Command, Context  # typer keeps its click to itself
from typer.core import TyperGroup

from bridge.cli.app import app

WAYBILL = Path(sys.executable).with_name("waybill")
MESSAGE_ID = "0x" + "ab" * 32


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
    return last.removeprefix("Example: ").replace("0x…", MESSAGE_ID)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example_that_can_be_typed(path: tuple[str, ...]) -> None:
    words = shlex.split(example_of(ALL[path]))
    assert words[: len(path) + 1] == ["waybill", *path]
    # What typing it would do up to the command's own work: every option and argument is read and checked.
    context = ALL[path].make_context(path[-1], words[len(path) + 1 :])
    assert not context.args


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
