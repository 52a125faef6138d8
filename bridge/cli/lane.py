"""`waybill lane`: pauses and resumes the relayer's deliveries on a lane."""

from __future__ import annotations

import getpass
import time
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import CliError, UsageError, result, rows_table
from bridge.cli.workspace import Workspace
from bridge.protocol.lanes import Lane, LaneState
from bridge.queries.lanes import change_lane, lane_change_value

app = typer.Typer(help="Pause and resume deliveries on a lane.", no_args_is_help=True)

_SOURCE = "The source chain: its name or id."
_DESTINATION = "The destination chain: its name or id."
Source = Annotated[str, typer.Argument(help=_SOURCE)]
Destination = Annotated[str, typer.Argument(help=_DESTINATION)]
By = Annotated[
    str | None, typer.Option("--by", help="The author of the change; your login by default.", show_default=False)
]


@app.command("list")
def list_lanes(
    *,
    history: Annotated[bool, typer.Option("--history", help="Show all changes, oldest first.")] = False,
) -> None:
    """List paused and halted lanes, with the reason and the author.

    Example: waybill lane list
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()
    with workspace.relayer_store() as store:
        lanes = store.lanes if store else None
        changes = [] if lanes is None else lanes.history() if history else lanes.held()
    value = [lane_change_value(change, deployment) for change in changes]
    columns = {name: name for name in ("lane", "state", "reason", "by")}
    result(value, rows_table(value, columns) if value else "every lane runs")


@app.command()
def pause(
    source: Source,
    destination: Destination,
    *,
    reason: Annotated[str, typer.Option("--reason", help="The reason, kept permanently.")],
    by: By = None,
) -> None:
    """Pause a lane's deliveries until the lane is resumed, even across restarts.

    Deliveries in flight are finished, and messages are still observed.

    Example: waybill lane pause alpha beta --reason "router upgrade"
    """
    _set_state((source, destination), LaneState.PAUSED, reason, by)


@app.command()
def resume(
    source: Annotated[str | None, typer.Argument(help=_SOURCE, show_default=False)] = None,
    destination: Annotated[str | None, typer.Argument(help=_DESTINATION, show_default=False)] = None,
    *,
    reason: Annotated[str, typer.Option("--reason", help="The fix, kept permanently.")] = "resumed by hand",
    streams: Annotated[
        bool,
        typer.Option("--streams", help="Resume publishing to Apache Kafka after a halt. No record is lost meanwhile."),
    ] = False,
    by: By = None,
) -> None:
    """Resume a paused or halted lane once its cause is fixed, or the streams with --streams.

    Example: waybill lane resume alpha beta
    """
    if streams:
        _resume_streams()
        return
    if source is None or destination is None:
        raise UsageError(
            "a lane has a source and a destination", next_step="waybill lane resume SOURCE DESTINATION, or --streams"
        )
    _set_state((source, destination), LaneState.RUNNING, reason, by)


def _resume_streams() -> None:
    with Workspace.current().relayer_store() as store:
        if store is None:
            raise CliError("no relayer has run here yet, so there is no store", next_step="waybill relayer run")
        was_halted = store.streams.resume()
    text = "the relayer publishes again" if was_halted else "publishing had not halted"
    result({"resumed": was_halted}, text)


def _set_state(ends: tuple[str, str], state: LaneState, reason: str, by: str | None) -> None:
    """Sets a lane's state, and prints it.

    Raises:
        UsageError: a chain is unknown.
        CliError: no relayer has run yet.
        LaneHaltedError: the lane is halted and can't be paused.
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()
    lane = Lane(*(one.chain_id for one in options.lane(deployment, *ends)))
    with workspace.relayer_store() as store:
        if store is None:
            raise CliError("no relayer has run here yet, so there is no store", next_step="waybill relayer run")
        who, now = by or getpass.getuser(), time.time()
        change, changed = change_lane(deployment, store.lanes, lane, state=state, reason=reason, by=who, now=now)
    value = {**lane_change_value(change, deployment), "changed": changed}
    result(value, f"{value['lane']} is {state}" + ("" if changed else " already"))
