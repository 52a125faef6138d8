"""`waybill sync`: the progress of state changes from source finality to their application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import CliError, ExitCode, escaped, progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.domain.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.protocol.addresses import checksummed
from bridge.queries.heartbeats import arrived_everywhere
from bridge.queries.lanes import chain_name, lane_name
from bridge.relayer.heartbeats import ArrivedHeartbeat
from bridge.service.connections import connected
from bridge.service.keys import paying_accounts
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
def heartbeats(
    *,
    sender: Annotated[
        str | None,
        typer.Option("--from", help="The relayer's account, if it is not this one's.", metavar="ADDRESS"),
    ] = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Show lag and loss of each lane as its destination knows it: from the heartbeats that arrived there.

    Needs neither the relayer nor its store, and asks no source chain. Exits with status 1 if a destination can't be read. The lanes of
    the others are shown all the same.

    Example: waybill sync heartbeats
    """
    workspace = Workspace.of(network, config)
    settings, deployment = workspace.settings(), workspace.deployment()
    contracts = settings.heartbeats.contracts(deployment)
    if not contracts:
        raise CliError(
            "no chain is known to have a Heartbeats contract", next_step="name them in [heartbeats.recipients]"
        )
    if sender is not None:
        believed: set[str] = {checksummed(sender)}
    else:
        believed = set(settings.heartbeats.senders) or paying_accounts(settings, deployment)

    async def work() -> tuple[list[ArrivedHeartbeat], dict[int, str]]:
        async with connected(deployment, settings, eager=False) as chains:
            return await arrived_everywhere(chains, contracts, believed)

    now = time.time()
    arrived, problems = asyncio.run(work())
    value = [
        {**one.value(now), "name": lane_name(deployment, one.lane.source_chain, one.lane.destination_chain)}
        for one in arrived
    ]
    columns = ["lane", "age", "final", "applied", "lag", "sent", "not executed", "checksum"]
    rows = [
        [
            row["name"],
            f"{row['ageSeconds']:.0f} s",
            *(str(row[name]) for name in ("primaryFinal", "applied")),
            f"{row['lagSeconds']:.0f} s",
            *(str(row[name]) for name in ("sent", "missing")),
            "matches" if row["matches"] else "differs",
        ]
        for row in value
    ]
    drawn = table(None, columns, rows)
    result(value, as_json=as_json, render=lambda console: console.print(drawn if rows else "no heartbeat has arrived"))
    for chain_id, problem in problems.items():
        progress(f"the lanes to {chain_name(deployment, chain_id)} are missing: {problem}")
    if problems:
        raise SystemExit(ExitCode.FAILED)


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
