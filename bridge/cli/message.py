"""`waybill message`: finds messages, explains their state, and resolves those that are stuck."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from bridge.cli import options
from bridge.cli.decider import signer
from bridge.cli.freshness import freshness
from bridge.cli.lookup import Found, Unsent, look_up, look_up_any
from bridge.cli.output import CliError, ExitCode, details, progress, result, rows_table, with_network
from bridge.cli.workspace import Workspace
from bridge.client import Client, RefusedError, Sent
from bridge.devnet.accounts import DAPP_KEY
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import TransientError
from bridge.protocol.status import Status
from bridge.protocol.text import quoted, shortened
from bridge.protocol.times import iso_milliseconds, utc
from bridge.queries.explain import Explanation
from bridge.queries.lanes import lane_name
from bridge.queries.messages import printable, record_value
from bridge.queries.overview import change_value
from bridge.records.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.service.connections import connected

_MOST_SHOWN = 1_000
"""Maximum number of characters shown of a payload."""

_COLUMNS = {
    "messageId": "message",
    "lane": "lane",
    "status": "state",
    "receipts": "received",
    "quorum": "of",
    "sentAt": "sent (UTC)",
}
_GMP_COLUMNS = {
    "gmp": "GMP",
    "stage": "stage",
    "attempts": "attempts",
    "failedTries": "failed tries",
    "lastError": "last error",
}

app = typer.Typer(help="Find messages, explain their state, and resolve stuck ones.", no_args_is_help=True)


_SOURCE = attrgetter("source_chain")
_DESTINATION = attrgetter("destination_chain")

_ENDED = frozenset({Status.EXECUTED, Status.EXPIRED, Status.CANCELLED})
_LOOK_SECONDS = 1.0


@app.command("list")
def list_messages(
    status: Annotated[str | None, typer.Option(help="Show only messages in this state, such as STALLED.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=10_000)] = 20,
    max_behind: options.MaxBehind = None,
) -> None:
    """List the messages in the index, newest first. Exits with status 5 if the index is behind.

    Example: waybill message list --status STALLED
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()
    chosen = None if status is None else options.member(Status, status, "state")
    with workspace.index() as index:
        found = index.messages(status=chosen, limit=limit)
        fresh = freshness(workspace, index, max_behind)
    value = [record_value(record, deployment) for record in found]
    fresh.answer({"messages": value}, rows_table(value, _COLUMNS) if value else "the index has no such messages")


@app.command()
def show(message: options.MessageId) -> None:
    """Show a message: its state, the reason, the next step, and the progress of each GMP.

    With --json, the answer includes everything that `retryRoute` needs, that is, all fields of the message and
    both routers.

    Example: waybill message show 0x…
    """
    workspace = Workspace.current()
    found = asyncio.run(look_up_any(workspace, options.message_id(message)))
    result(found.value(), *_parts(found))


@app.command()
def retry(
    message: options.MessageId,
    *,
    gmps: Annotated[
        str | None,
        typer.Option(help="GMPs to retry over. By default those not tried yet, else those that have not delivered."),
    ] = None,
    even_if_ended: Annotated[
        bool, typer.Option("--even-if-ended", help="Retry although the message has ended on its destination.")
    ] = False,
) -> None:
    """Retry a message over other GMPs, as its sender or the retrier that the sender appointed.

    A DIVERGED state change that the relayer follows is reconciled with its primary record instead, using the
    relayer's store and keys. The command then exits with status 4 until the change is applied.

    Example: waybill message retry 0x… --gmps wormhole
    """
    named = None if gmps is None else options.gmps(gmps)
    if named is None and _reconcile(options.message_id(message)):
        return

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        sent = await client.retry(found.message, named or _choose(found), even_if_ended=even_if_ended)
        return {"attempt": sent.attempt, **sent_value(sent)}

    _act_on(message, act, "retry sent over", where=_SOURCE)


def _reconcile(message_id: bytes) -> bool:
    """Reconciles a DIVERGED state change with its primary record, and prints the outcome.

    Returns:
        False if the message is not a DIVERGED state change.

    Raises:
        SystemExit: the change is still not applied.
    """
    workspace = Workspace.current()
    with workspace.relayer_store() as store:
        job = store.jobs.newest(SyncJob, message_id) if store else None
    if job is None or job.state is not SyncState.DIVERGED:
        return False

    async def work() -> Mapping[str, Any]:
        async with workspace.open_relayer(workspace.working_settings()) as bridge:
            return change_value(await bridge.reconcile(message_id))

    value = asyncio.run(work())
    problem = f": {value['problem']}" if value["problem"] else ""
    result(value, f"{value['messageId']} is {value['state']}{problem}")
    if value["state"] in UNRESOLVED:
        raise SystemExit(ExitCode.PENDING)
    return True


@app.command()
def execute(message: options.MessageId) -> None:
    """Execute a message that has its quorum, after the recipient rejected it or the execution ran out of gas.

    Example: waybill message execute 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        if (await client.progress(found.message)).executed:
            progress("nothing to do: the message was executed")
            return {"executed": True, "transaction": None}
        return {"executed": True, "transaction": (await client.execute(found.message)).transaction_hash}

    _act_on(message, act, "executed", where=_DESTINATION)


@app.command()
def fund(message: options.MessageId) -> None:
    """Pay the fee of a message that was created without one, for the GMPs that its sender chose. Open to anyone.

    Example: waybill message fund 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        return sent_value(await client.fund(found.message))

    _act_on(message, act, "funded over", where=_SOURCE)


@app.command()
def cancel(
    message: options.MessageId,
    gmps: Annotated[
        str | None, typer.Option(help="GMPs for the cancellation. By default those that carry the message.")
    ] = None,
) -> None:
    """Ask the destination never to execute a message, as its sender.

    The message may be executed before the cancellation arrives.

    Example: waybill message cancel 0x…
    """
    cancelled = _sent_about(gmps, "cancellation", Client.cancel)

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        status, there = found.explanation.status, found.deployment.chain(found.message.destination_chain).name
        if status in _ENDED:
            raise RefusedError(
                f"the message is {status} on {there}, so a cancellation would have no effect; nothing was sent"
            )
        return await cancelled(client, found)

    _act_on(message, act, "cancellation sent over", where=_SOURCE)


@app.command()
def report(
    message: options.MessageId,
    gmps: Annotated[
        str | None, typer.Option(help="GMPs for the report. By default those that carry the message.")
    ] = None,
) -> None:
    """Report a message's outcome to the source, so that contracts there can react. Open to anyone.

    Example: waybill message report 0x…
    """
    act = _sent_about(gmps, "report", Client.report)
    _act_on(message, act, "report sent over", where=_DESTINATION)


def _sent_about(
    gmps: str | None, name: str, send: Callable[[Client, Message, Sequence[Gmp]], Awaitable[Sent]]
) -> Callable[[Client, Found], Awaitable[Mapping[str, Any]]]:
    """Returns an operation that sends a message about another message.

    The operation uses the given GMPs, or those that carried the other message.
    """
    named = None if gmps is None else options.gmps(gmps)

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        sent = await send(client, found.message, named or _those_that_took(found))
        return {name: sent.message.id, **sent_value(sent)}

    return act


@app.command()
def expire(message: options.MessageId) -> None:
    """Mark a message as expired on its destination, once its time to live is over. This is final, and open to anyone.

    Example: waybill message expire 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        return {"transaction": (await client.expire(found.message)).transaction_hash}

    _act_on(message, act, "marked as expired", where=_DESTINATION)


@app.command()
def watch(
    message: options.MessageId,
    *,
    timeout: Annotated[float, typer.Option(help="Maximum number of seconds to watch.", min=0)] = 3_600.0,
) -> None:
    """Print each state change of a message until it ends or diverges. Exits with status 4 after --timeout seconds.

    Example: waybill message watch 0x… --timeout 600
    """
    workspace = Workspace.current()
    message_id = options.message_id(message)
    last = asyncio.run(_watch(workspace, message_id, timeout))
    status = last.status if last else Status.UNKNOWN
    if status is not Status.EXECUTED:
        code = ExitCode.FAILED if _has_ended(status) else ExitCode.PENDING
        raise CliError(f"the message is {status}", code=code, next_step=last.next_action if last else "waybill doctor")


async def _watch(workspace: Workspace, message_id: bytes, timeout: float) -> Explanation | None:  # noqa: ASYNC109  # the user's own limit
    """Prints changes until the message ends. Returns the last explanation, or None if there was none."""
    deadline = time.monotonic() + timeout
    shown: tuple[Any, ...] = ()
    explanation = None
    while True:
        try:
            found = await look_up(workspace, message_id)
            is_silent = found.message.destination_chain not in found.answering
            problem = "; ".join(found.explanation.unknown) if is_silent else ""
        except TransientError as error:
            problem = str(error)
        if problem:
            progress(f"the message can't be looked up now, will try again: {problem}")
        else:
            explanation, status = found.explanation, found.explanation.status
            seen = (status, *((one.gmp, one.stage, one.attempts) for one in explanation.gmps))
            if seen != shown:
                shown, line = seen, f"{status}  {explanation.reason}"
                now = time.time()
                value = {"at": iso_milliseconds(now), "status": status.value, "reason": explanation.reason}
                result(value, f"{utc(now)}  {line}")
        if (explanation and _has_ended(explanation.status)) or time.monotonic() >= deadline:
            return explanation
        await asyncio.sleep(_LOOK_SECONDS)


def _has_ended(status: Status) -> bool:
    """Whether the message's state is final, or DIVERGED, which needs an operator."""
    return status.is_final or status is Status.DIVERGED


def _those_that_took(found: Found) -> tuple[Gmp, ...]:
    seen = {progress.gmp for progress in found.explanation.gmps}
    took = [gmp for gmp in Gmp if gmp in seen]
    if not took:
        raise CliError(
            "neither the relayer nor the index knows which GMPs carry this message", next_step="choose GMPs with --gmps"
        )
    return tuple(took)


def sent_value(sent: Sent) -> dict[str, Any]:
    """Returns the result of sending a message, for JSON."""
    return {
        "gmps": sorted(gmp.label for gmp in sent.gmps),
        "failed": sorted(gmp.label for gmp in sent.failed),
        "fee": sent.fee,
        "transaction": sent.transaction,
    }


def _act_on(
    message: str,
    act: Callable[[Client, Found], Awaitable[Mapping[str, Any]]],
    done: str,
    *,
    where: Callable[[Message], int],
) -> None:
    """Looks up a message, performs an operation on it, and prints the result.

    If the message's other chain is down, prints that, and the client gets only the responding chains.

    Args:
        message: the id, as typed.
        act: the operation; returns the fields to print.
        done: text that precedes the names of the GMPs in the output.
        where: returns the chain on which the operation sends its transaction.
    """
    workspace = Workspace.current()
    message_id = options.message_id(message)
    account = signer(workspace, DAPP_KEY)

    async def run() -> Mapping[str, Any]:
        async with connected(workspace.deployment(), workspace.settings(), eager=False) as chains:
            found = await look_up(workspace, message_id, chains)
            if where(found.message) not in found.answering:
                name = found.deployment.chain(where(found.message)).name
                raise CliError(
                    f"{name} does not respond, but this operation sends a transaction there", next_step="waybill status"
                )
            for line in found.explanation.unknown:
                progress(line)
            answering = {chain: chains[chain] for chain in found.answering}
            try:
                return await act(Client(found.deployment, answering, account), found)
            except RefusedError as error:
                raise CliError(str(error), next_step=f"waybill message show 0x{message_id.hex()}") from error

    value = {"messageId": message_id, **asyncio.run(run())}
    over = ", ".join(value.get("gmps", ()))
    result(value, f"{done} {over}".strip())
    progress(f"next: waybill message watch 0x{message_id.hex()}")


def _choose(found: Found) -> tuple[Gmp, ...]:
    """Returns the GMPs for a retry: those not tried yet, otherwise those that have not delivered."""
    ends = (found.message.source_chain, found.message.destination_chain)
    usable = found.deployment.gmps_between(*ends) - found.explanation.receipts
    chosen = found.explanation.standing.untried or tuple(sorted(usable))
    if not chosen:
        raise CliError("every GMP of this lane has delivered; there is nothing to retry")
    return chosen


def _parts(found: Found | Unsent) -> Iterator[RenderableType]:
    """Yields the tables that describe a message."""
    value = found.value()
    summary = {name: value[name] for name in ("messageId", "status", "reason")}
    summary |= {"next": with_network(value["next"]), "guarantee": value["guarantee"]}
    if isinstance(found, Found):
        summary |= {"index": _lag(found), "ttl": _ttl_violation(found)}
    yield details(summary)
    if value["divergences"]:
        rows = [row | {"next": with_network(row["next"])} for row in value["divergences"]]
        yield rows_table(rows, {name: name for name in ("kind", "evidence", "next")}, "\nContradictions")
    if isinstance(found, Found):
        message = found.message
        shown = {
            "lane": lane_name(found.deployment, message.source_chain, message.destination_chain),
            **value["message"],
            "sentAt": f"{utc(message.sent_at)} UTC",
            "expiresAt": "never" if message.expires_at is None else f"{utc(message.expires_at)} UTC",
            "payload": _payload(message.payload),
            "idRecomputed": "matches" if found.id_matches else "DIFFERS",
        }
        yield ""
        yield details(shown)
    for record in value["primaryRecords"]:
        yield ""
        yield details(record)
    if value["gmps"]:
        yield rows_table(value["gmps"], _GMP_COLUMNS, "\nGMPs")


def _lag(found: Found) -> str:
    """Returns a warning if the index lags, since the answer may then be incomplete."""
    lags = "; ".join(lag.text for lag in found.explanation.lags)
    return f"BEHIND: {lags}; its data may be old" if lags else ""


def _ttl_violation(found: Found) -> str:
    """Returns a warning if the message's TTL is shorter than its asset class requires."""
    if found.ttl_violation is None:
        return ""
    demanded = f"{found.ttl_violation.min_ttl} s of asset class {found.ttl_violation.name}"
    return f"{found.message.ttl} s, less than the {demanded}: route through `waybill send` or a client with the classes"


def _payload(payload: bytes) -> str:
    text = printable(payload)
    shown = shortened(f"0x{payload.hex()}", _MOST_SHOWN) if text is None else quoted(text, _MOST_SHOWN)
    return f"{shown} ({len(payload)} bytes)"
