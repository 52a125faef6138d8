"""`waybill sync`: the progress of state changes from source finality to their application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from bridge.cli import options
from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import CliError, ExitCode, escaped, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.domain.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.queries.lanes import lane_name
from bridge.store import Store

app = typer.Typer(help="Follow state changes from primary finality to their application.", no_args_is_help=True)

_SHOWN = 100  # messages


@app.command()
def status(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Show each lane's last heartbeat, and what is not applied yet.

    Example: waybill sync status
    """
    deployment = Workspace.of(network).deployment()
    with _store(network) as store:
        beats = store.finality_records.heartbeats()
        waiting = store.jobs.listed(SyncJob, UNRESOLVED, _SHOWN)
    value = {
        "lanes": [
            {
                "lane": str(one.lane),
                "name": lane_name(deployment, one.lane.source_chain, one.lane.destination_chain),
                "at": one.at,
                "primaryFinal": one.progress.primary_final,
                "applied": one.progress.applied,
                "lagSeconds": one.progress.lag_seconds,
                "signer": one.signer,
            }
            for one in beats
        ],
        "pending": [
            {
                **one.record.document,
                "state": one.state.value,
                "propagations": one.tries,
                "problem": one.outcome,
                "next": f"waybill sync reconcile 0x{one.message_id.hex()}" if one.state is SyncState.DIVERGED else None,
            }
            for one in waiting
        ],
    }
    lanes = [
        [row["name"], str(row["primaryFinal"]), str(row["applied"]), f"{row['lagSeconds']:.0f} s"]
        for row in value["lanes"]
    ]
    pending = [[row["messageId"], row["state"], str(row["propagations"]), row["problem"]] for row in value["pending"]]
    drawn = table(None, ["lane", "final", "applied", "lag"], lanes)
    shown = table("\nnot applied", ["message", "state", "re-propagated", "problem"], pending)
    result(
        value,
        as_json=as_json,
        render=lambda console: console.print(drawn, *([shown] if pending else [])),
    )


@app.command()
def reconcile(message: options.MessageId, *, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Compare a message's primary record with its destination now, and go by the record.

    Ends with 4 if it is not applied yet.

    Example: waybill sync reconcile 0x…
    """
    workspace = Workspace.of(network)
    message_id = options.message_id(message)

    async def work() -> dict[str, Any]:
        async with workspace.open_relayer(workspace.working_settings()) as bridge:
            one = await bridge.reconcile(message_id)
            return {**one.record.document, "state": one.state.value, "problem": one.outcome}

    try:
        value = asyncio.run(work())
    except KeyError:
        raise _unknown(message) from None
    text = f"{value['messageId']} is {value['state']}" + (f": {value['problem']}" if value["problem"] else "")
    result(value, as_json=as_json, render=lambda console: console.print(escaped(text)))
    if value["state"] in UNRESOLVED:
        raise SystemExit(ExitCode.PENDING)


@contextmanager
def _store(network: str) -> Iterator[Store]:
    with open_relayer_store(Workspace.of(network)) as store:
        if store is None:
            raise CliError("no relayer has run here yet, so nothing is followed", next_step="waybill relayer run")
        yield store


def _unknown(message: str) -> CliError:
    return CliError(
        f"message {message} is not followed: only state changes are",
        code=ExitCode.UNKNOWN_ID,
        next_step="waybill sync status",
    )
