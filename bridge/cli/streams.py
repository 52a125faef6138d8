"""`waybill streams`: how far the streams out are, and how they go on after a halt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import CliError, facts, result
from bridge.cli.workspace import DEVNET, Workspace
from bridge.queries.streams import stream_value

app = typer.Typer(
    help="Publish what happens to Apache Kafka: how far it is, and go on after a halt.", no_args_is_help=True
)


@app.command()
def status(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Show how many records wait, how many were sent, and what keeps others from being sent.

    Example: waybill streams status
    """
    with open_relayer_store(Workspace.of(network)) as store:
        value = stream_value(store.streams.status(), time.time()) if store else None

    def draw(console: Console) -> None:
        if lines := drawn(value):
            console.print(facts(lines))
        else:
            console.print("no streams: waybill.toml names no kafka.bootstrap_servers, or no relayer has run with it")

    result(value, as_json=as_json, render=draw)


@app.command()
def resume(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Publish again after a halt, once its cause is gone. Records wait meanwhile; none is lost.

    Example: waybill streams resume
    """
    with open_relayer_store(Workspace.of(network)) as store:
        if store is None:
            raise CliError("no relayer has run here yet, so there is no store", next_step="waybill relayer run")
        was_halted = store.streams.resume()
    text = "the relayer publishes again" if was_halted else "publishing had not halted"
    result({"resumed": was_halted}, as_json=as_json, render=lambda console: console.print(text))


def drawn(value: Mapping[str, Any] | None) -> dict[str, str]:
    """The same for people; empty where nothing is published."""
    if value is None or not (value["recording"] or value["waiting"]):
        return {}
    age = "" if value["oldestSeconds"] is None else f", the oldest for {value['oldestSeconds']:.0f} s"
    lines = {
        "waiting": f"{value['waiting']}{age}",
        "sent": ", ".join(f"{count} {stream}" for stream, count in value["sent"].items() if count) or "nothing yet",
        "last version": str(value["version"]),
        "published by": value["publishedBy"] or "no relayer yet",
    }
    if value["error"]:
        lines["last error"] = value["error"]
    if value["halted"]:
        lines["halted"] = f"{value['halted']}; then `waybill streams resume`"
    return lines
