"""`waybill index rebuild` and `as-of`: the index rebuilt, and the index as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options, table_engine
from bridge.cli.index_proof import open_for_reading, readers
from bridge.cli.output import CliError, UsageError, facts, progress, result
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.deployment import Deployment, DeploymentError
from indexer.model.settings import TableEngineName


class Origin(StrEnum):
    """What the messages are rebuilt from."""

    LAKE = "lake"
    CHAINS = "chains"


def rebuild(
    *,
    origin: Annotated[
        Origin, typer.Option("--from", help="lake: its files alone. chains: every block again.")
    ] = Origin.LAKE,
    engine: table_engine.Engine = TableEngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Make every message and its receipts again, from the lake alone or from the chains alone, and compare them with what is served.

    The engine makes them from the lake. From the chains, a store of their own does. Changes nothing. Fails if anything differs; then delete the store, and `waybill index run` makes it from the lake.

    Example: waybill index rebuild --from chains
    """
    from indexer.jobs import rebuild as job
    from indexer.lake.history import History

    workspace = Workspace.of(network)
    with open_for_reading(workspace) as (store, lake):
        if origin is Origin.LAKE:
            with table_engine.opened(engine, master, workspace.lake, explain=explain) as by:
                found = job.from_lake(store, lake, by)
        else:
            with readers(workspace, store) as opened:
                found = job.from_chains(opened, History(store, lake), store, progress)
    value: dict[str, Any] = {
        "from": origin.value,
        "equal": found.is_equal,
        "events": found.events,
        "messages": found.messages,
        "receipts": found.receipts,
        "pruned": found.pruned,
        "too_new": found.too_new,
        "different": list(found.different),
        "different_events": found.different_events,
    }
    pairs = {
        "events read": str(found.events),
        "messages compared": str(found.messages),
        "receipts compared": str(found.receipts),
        "pruned by the store": str(found.pruned),
        f"behind the {origin.value}": str(found.too_new),
        "messages that differ": str(len(found.different)),
        "events that differ": str(found.different_events),
    }
    result(value, as_json=as_json, render=lambda console: console.print(facts(pairs)))
    if not found.is_equal:
        raise CliError(
            f"{len(found.different)} messages and {found.different_events} events differ from the {origin.value}",
            next_step="waybill index verify",
        )


def as_of(
    message: Annotated[str | None, typer.Argument(help="Only this message.", metavar="[ID]")] = None,
    *,
    time: Annotated[
        str | None, typer.Option("--time", help="Moment of block time, such as 2026-03-01T12:00, UTC; or Unix seconds.")
    ] = None,
    block: Annotated[
        list[str] | None, typer.Option("--block", help="CHAIN=NUMBER, the last block that counts; may be repeated.")
    ] = None,
    engine: table_engine.Engine = TableEngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Print the state of every message, or of one, as it was at a block or a moment.

    Example: waybill index as-of --block alpha=120
    """
    chosen = None if message is None else options.message_id(message)
    if time is None and not block:
        raise UsageError("as of when?", next_step="give --time or --block")
    from indexer.jobs.time_travel import messages_as_of
    from indexer.lake.history import History

    workspace = Workspace.of(network)
    blocks = _blocks(workspace.deployment(), block or [])
    moment = None if time is None else _seconds(time)
    with (
        open_for_reading(workspace) as (store, lake),
        table_engine.opened(engine, master, workspace.lake, explain=explain) as by,
    ):
        rows = messages_as_of(History(store, lake), blocks=blocks, time=moment, by=by).to_pylist()
    rows = [row for row in rows if chosen in (None, row["message_id"])]
    if chosen is not None and not rows:
        raise CliError(f"no event up to then tells of message 0x{chosen.hex()}")
    value = {
        "by_status": dict(sorted(Counter(row["status"] for row in rows).items())),
        "messages": [{"message_id": row["message_id"], "status": row["status"]} for row in rows],
    }
    result(value, as_json=as_json, render=lambda console: _draw(console, value, alone=chosen is not None))


def _draw(console: Console, value: dict[str, Any], *, alone: bool) -> None:
    if alone:
        console.print(value["messages"][0]["status"])
        return
    console.print(facts({status: str(count) for status, count in value["by_status"].items()} or {"messages": "0"}))


def _blocks(deployment: Deployment, told: Sequence[str]) -> dict[int, int]:
    found = {}
    for entry in told:
        name, _, number = entry.partition("=")
        if not number.isdecimal():
            raise UsageError(f"--block {entry!r} is not CHAIN=NUMBER, such as alpha=120")
        try:
            found[deployment.chain(name).chain_id] = int(number)
        except DeploymentError as error:
            raise UsageError(f"--block: {error}") from error
    return found


def _seconds(told: str) -> int:
    if told.isdecimal():
        return int(told)
    try:
        moment = datetime.fromisoformat(told)
    except ValueError as error:
        raise UsageError(f"--time {told!r} is neither a time such as 2026-03-01T12:00 nor Unix seconds") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
