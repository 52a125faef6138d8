"""`waybill incident`: what the tripwire found and did, and what to do next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.next_commands import with_network
from bridge.cli.output import CliError, ExitCode, escaped, facts, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.domain.ports import TransientError, read_view
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import Deployment
from bridge.queries.incidents import finding_value, incident_details, incident_seed, incident_value
from bridge.service.connections import connected
from bridge.tripwire.journal import Deed, violations
from bridge.tripwire.store import Incident, TripwireStore

app = typer.Typer(help="What the tripwire found and did.", no_args_is_help=True)

IncidentId = Annotated[str, typer.Argument(help="The incident's id, as `waybill incident list` has it.", metavar="ID")]


@app.command(name="list")
def list_incidents(
    *, network: options.Network = DEVNET, config: options.Config = None, as_json: options.Json = False
) -> None:
    """List incidents and what was found besides, and check that the log is as the tripwire signed it.

    Ends with 1 if the log was changed.

    Example: waybill incident list
    """
    workspace = Workspace.of(network, config)
    deployment = workspace.deployment()
    with _store(workspace) as store:
        records = store.records()
        wrong = list(violations(records))
        value = {
            "incidents": [incident_value(one, deployment) for one in store.incidents()],
            "findings": [finding_value(one) for one in records if one.deed is Deed.FINDING],
            "records": len(records),
            "violations": wrong,
        }
    result(value, as_json=as_json, render=lambda console: _draw_list(console, value))
    if wrong:
        raise SystemExit(ExitCode.FAILED)


@app.command()
def show(
    incident: IncidentId,
    *,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Show an incident: evidence, what is paused until when, which messages wait, and the next commands.

    Example: waybill incident show 31338-2-0a1b2c3d
    """
    workspace = Workspace.of(network, config)
    deployment = workspace.deployment()
    with _store(workspace) as store:
        found = _find(store, incident)
        paused, times = asyncio.run(_pauses(workspace, deployment, found.gmp))
        value = incident_details(found, store, deployment, paused, times)
    result(value, as_json=as_json, render=lambda console: _draw(console, value))


@app.command()
def export(
    incident: IncidentId,
    *,
    network: options.Network = DEVNET,
    config: options.Config = None,
) -> None:
    """Write an incident as a seed for the simulator, so that it becomes a test.

    Example: waybill incident export 31338-2-0a1b2c3d
    """
    workspace = Workspace.of(network, config)
    with _store(workspace) as store:
        value = incident_seed(_find(store, incident), store, workspace.deployment())
    result(value, as_json=True, render=lambda _console: None)


@contextmanager
def _store(workspace: Workspace) -> Iterator[TripwireStore]:
    """The tripwire's store, to be read.

    Raises:
        CliError: there is none.
    """
    file: Path = workspace.tripwire_file
    if not file.exists():
        raise CliError(f"there is no tripwire's store {file}", next_step="waybill tripwire run")
    with closing(TripwireStore(file)) as store:
        yield store


def _find(store: TripwireStore, name: str) -> Incident:
    found = [one for one in store.incidents() if one.id == name]
    if not found:
        raise CliError(f"there is no incident {name!r}", code=ExitCode.UNKNOWN_ID, next_step="waybill incident list")
    return found[0]


async def _pauses(workspace: Workspace, deployment: Deployment, gmp: int) -> tuple[dict[int, int], dict[int, int]]:
    """Until when each router has the GMP paused, and the time of its chain; without chains that do not answer."""
    paused, times = dict[int, int](), dict[int, int]()
    async with connected(deployment, workspace.settings(), eager=False) as chains:
        for deployed in deployment.chains:
            chain = chains[deployed.chain_id]
            try:
                times[deployed.chain_id] = (await chain.head()).timestamp
                paused[deployed.chain_id] = await read_view(chain, ROUTER, deployed.router, "gmpPausedUntil", gmp)
            except TransientError:
                continue
    return paused, times


def _draw_list(console: Console, value: dict[str, Any]) -> None:
    rows = [
        [one["id"], one["gmp"], one["chain"], one["state"], _time(one["openedAt"]), _time(one["pausedUntil"])]
        for one in value["incidents"]
    ]
    columns = ["id", "GMP", "chain", "state", "opened", "paused until"]
    console.print(table(None, columns, rows) if rows else "no incidents")
    for one in value["findings"]:
        console.print(f"[bold]{escaped(one['kind'])}[/bold]  {_time(one['at'])}  {escaped(str(one.get('why', '')))}")
    for text in value["violations"]:
        console.print(f"[red]the log was changed[/red]: {escaped(text)}")


def _draw(console: Console, value: dict[str, Any]) -> None:
    pairs = {
        "incident": value["id"],
        "GMP": value["gmp"],
        "chain": value["chain"],
        "state": value["state"],
        "opened": _time(value["openedAt"]),
    }
    console.print(facts(pairs))
    for one in value["pauses"]:
        left = timedelta(seconds=one["secondsLeft"])
        console.print(
            f"  on {escaped(one['chain'])} until {_time(one['until'])}, {left} left"
            if left
            else f"  the pause on {escaped(one['chain'])} is over"
        )
    console.print("\n[bold]Evidence[/bold]")
    for one in value["evidence"]:
        block = one["block"]
        console.print(f"  {one['kind']} of message {one['messageId']} from {escaped(one['source'])}")
        console.print(f"    block {block['number']} {block['hash']}, transaction {one['transaction']}")
        console.print(f"      said by {escaped(', '.join(one['receiptSaidBy']))}")
        final = one["finalSourceBlock"]
        console.print(f"    final on the source: block {final['number']} {final['hash']}")
        console.print(f"      said by {escaped(', '.join(final['saidBy']))}")
    console.print("\n[bold]What happened[/bold]")
    for one in value["history"]:
        console.print(
            f"  {_time(one['at'])}  {one['what']}  {escaped(str(one.get('reason', one.get('transaction') or '')))}"
        )
    console.print("\n[bold]Messages that lack its receipt[/bold]")
    rows = [[one["messageId"], one["source"], ", ".join(one["retryOver"])] for one in value["lacking"]]
    console.print(table(None, ["message", "source", "can be retried over"], rows) if rows else "  none")
    console.print("\n[bold]What a pause can't do[/bold]\n" + "\n".join(f"  {line}" for line in value["limits"]))
    console.print("\n[bold]Next[/bold]\n" + "\n".join(f"  {escaped(with_network(line))}" for line in value["next"]))


def _time(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
