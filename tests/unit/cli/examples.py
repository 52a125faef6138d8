"""Lines that somebody may type, read by the command as far as its own work."""

from __future__ import annotations

import re
import shlex

import typer
from typer._click.core import Command  # typer keeps its click to itself
from typer.core import TyperGroup

from bridge.cli.app import app
from bridge.cli.root import separated

_MESSAGE_ID = "0x" + "ab" * 32


def read_line(line: str) -> None:
    """Has the command read every word of a line, options and arguments checked, and then do nothing.

    Raises:
        Exception: it would be refused.
    """
    filled = re.sub(r"0x…|\bID\b", _MESSAGE_ID, line)
    program, *typed = shlex.split(filled.partition(" > ")[0], comments=True)
    assert program == "waybill"
    _, words = separated(typed)
    command: Command | None = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        context = command.make_context("waybill", list(words), resilient_parsing=True)
        name, command, words = command.resolve_command(context, words)
        assert command is not None, f"{name} is no command"
    assert command is not None
    read = command.make_context(command.name or "", words)
    assert not read.args, f"{read.args} are too many words"
