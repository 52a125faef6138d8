"""`waybill message`: find messages, understand them, help them along."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import message_acts, options
from bridge.cli.freshness import freshness
from bridge.cli.lookup import Found, Unsent, look_up_any
from bridge.cli.open_stores import open_index
from bridge.cli.output import CliError, facts, progress, result, table, with_network
from bridge.cli.pending import reconcile
from bridge.cli.workspace import Workspace
from bridge.client import Client
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import MessagePolicy
from bridge.protocol.indexed import DivergenceRecord
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.protocol.text import quoted
from bridge.protocol.times import utc
from bridge.queries.explain import GmpProgress, Stage
from bridge.queries.lanes import chain_name, lane_name
from bridge.queries.messages import record_value
from bridge.records.jobs import SyncJob

_MOST_SHOWN = 1_000
"""Characters of a payload."""

app = typer.Typer(help="Find messages, understand them, help them along.", no_args_is_help=True)
for _command in (
    message_acts.watch,
    message_acts.fund,
    message_acts.cancel,
    message_acts.report,
    message_acts.expire,
):
    app.command()(_command)


@app.command("list")
def list_messages(
    status: Annotated[str | None, typer.Option(help="Only those in this state, such as STALLED.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 20,
    max_behind: options.MaxBehind = None,
) -> None:
    """List messages, the newest first, as the index knows them. Ends with 5 if the index is behind.

    Example: waybill message list --status STALLED
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()
    chosen = None if status is None else options.member(Status, status, "state")
    with open_index(workspace) as index:
        found = index.messages(status=chosen, limit=limit)
        fresh = freshness(workspace, index, max_behind)
    value = [record_value(record, deployment) for record in found]
    rows = [
        [row["messageId"], row["lane"], row["status"], f"{row['receipts']} of {row['quorum']}", row["sentAt"] or ""]
        for row in value
    ]
    drawn = table(None, ["message", "lane", "state", "received", "sent (UTC)"], rows)
    shown = drawn if rows else "no messages, as far as the index has read"
    fresh.answer({"messages": value}, render=lambda console: console.print(shown))


@app.command()
def show(message: options.MessageId) -> None:
    """Show a message: its state, the reason, what to do next, and what each GMP has done.

    With --json it has everything that `retryRoute` needs: all fields of the message, with both routers.

    Example: waybill message show 0x…
    """
    workspace = Workspace.current()
    found = asyncio.run(look_up_any(workspace, options.message_id(message)))
    result(found.value(), render=lambda console: _draw(console, found))


@app.command()
def retry(
    message: options.MessageId,
    *,
    gmps: Annotated[
        str | None,
        typer.Option(
            help="GMPs to retry over. If not given, those that have not tried yet, else those that have not delivered."
        ),
    ] = None,
    even_if_ended: Annotated[
        bool, typer.Option("--even-if-ended", help="Retry though the destination says that the message has ended.")
    ] = False,
) -> None:
    """Send a message again over other GMPs, as its sender or the retrier its sender appointed.

    A state change that the relayer follows and that is DIVERGED is reconciled with its primary record instead: the relayer's
    own store and keys are used, and the command exits with status 4 while the change is not applied.

    Example: waybill message retry 0x… --gmps wormhole
    """
    named = None if gmps is None else options.gmps(gmps)
    if named is None and reconcile(Workspace.current(), options.message_id(message)):
        return

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        sent = await client.retry(found.message, named or _choose(found), even_if_ended=even_if_ended)
        return {"attempt": sent.attempt, **message_acts.sent_value(sent)}

    message_acts.act_on(message, act, "another attempt is on its way over", where=message_acts.Where.SOURCE)


@app.command()
def execute(message: options.MessageId) -> None:
    """Execute a message whose quorum is reached, after its recipient had refused it or its gas was too little.

    Example: waybill message execute 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        if (await client.progress(found.message)).executed:
            progress("nothing to do: the message has been executed")
            return {"executed": True, "transaction": None}
        return {"executed": True, "transaction": (await client.execute(found.message))["transactionHash"]}

    message_acts.act_on(message, act, "executed", where=message_acts.Where.DESTINATION)


def _choose(found: Found) -> tuple[Gmp, ...]:
    """Those that were not tried, else those that are silent; all must be able to reach the destination."""
    ends = (found.message.source_chain, found.message.destination_chain)
    usable = found.deployment.gmps_between(*ends) - found.explanation.receipts
    chosen = found.explanation.untried or tuple(sorted(usable))
    if not chosen:
        raise CliError("every GMP of this lane has delivered; there is nothing to retry")
    return chosen


def _draw(console: Console, found: Found | Unsent) -> None:
    explanation = found.explanation
    console.print(
        facts(
            {
                **(_index_facts(found) if isinstance(found, Found) else {}),
                "message": f"0x{explanation.message_id.hex()}",
                "state": explanation.status.value,
                **_evidence(explanation.divergences),
                "reason": explanation.reason,
                "next": with_network(explanation.next_action),
                **({"promised": _promised(found.policy)} if isinstance(found, Found) else {}),
                **(_ttl_violation(found) if isinstance(found, Found) else {}),
            }
        )
    )
    if isinstance(found, Found):
        message = found.message
        console.print()
        console.print(
            facts(
                {
                    "lane": f"{lane_name(found.deployment, message.source_chain, message.destination_chain)},"
                    f" nonce {message.nonce}",
                    "sender": from_bytes32(message.sender),
                    "recipient": from_bytes32(message.recipient),
                    "sent": f"{utc(message.sent_at)} UTC",
                    "expires": _expires(message),
                    "kind": message.kind.name,
                    **({"replaces": f"0x{message.replaces.hex()}"} if any(message.replaces) else {}),
                    "payload": _payload(message.payload),
                    "id recomputed": "matches" if found.id_matches else "DIFFERS",
                }
            )
        )
        if explanation.changes:
            console.print()
            console.print(facts(_records(found.deployment, explanation.changes)))
    if explanation.gmps:
        console.print()
        rows = [_row(progress) for progress in explanation.gmps]
        console.print(table(None, ["GMP", "stage", "attempts", "failed tries", "last error"], rows))


def _records(deployment: Deployment, changes: Sequence[SyncJob]) -> dict[str, str]:
    """The primary record of each message that carries the state change, and whether its destination has applied it."""
    return {f"on {chain_name(deployment, one.lane.destination_chain)}": _record(one) for one in changes}


def _record(job: SyncJob) -> str:
    record = job.record
    lines = [
        job.state.value,
        f"message 0x{record.message_id.hex()}",
        f"final in block {record.block.number} 0x{record.block.hash.hex()}",
        f"transaction 0x{record.transaction_hash.hex()}",
    ]
    if record.signature:
        lines.append(f"signed by {record.signer}: 0x{record.signature.hex()}")
    return "\n".join(lines)


def _evidence(found: Sequence[DivergenceRecord]) -> dict[str, str]:
    """What contradicts, if anything does."""
    told = [f"{one.kind}: {one.evidence}; next: {with_network(one.next_action)}" for one in found]
    return {"contradicts": "\n".join(told)} if told else {}


def _expires(message: Message) -> str:
    """The time at which a message expires, in UTC."""
    return "never" if message.expires_at is None else f"{utc(message.expires_at)} UTC"


def _promised(policy: MessagePolicy) -> str:
    """The document's fields in one line."""
    given = policy.value()
    given["ttlSeconds"] = given["ttlSeconds"] or "none"
    given["maxRetries"] = "unlimited" if given["maxRetries"] is None else given["maxRetries"]
    fields = (f"{name} {str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items())
    return ", ".join(fields).removeprefix("semantics ")


def _ttl_violation(found: Found) -> dict[str, str]:
    """That it was routed to live shorter than its class of assets demands, if so: that can't be changed any more."""
    if found.ttl_violation is None:
        return {}
    demanded = f"{found.ttl_violation.min_ttl} s of asset class {found.ttl_violation.name}"
    return {
        "TTL": f"{found.message.ttl} s, less than the {demanded}: route through `waybill send` or a client with the classes"
    }


def _index_facts(found: Found) -> dict[str, str]:
    """That the index may know less than the chains, if so: then its answer may be incomplete."""
    names = {chain.chain_id: chain.name for chain in found.deployment.chains}
    told = [f"{lag.text} on {names.get(lag.chain_id, lag.chain_id)}" for lag in found.explanation.lags]
    return {"index": f"BEHIND: {'; '.join(told)}; its data may be old"} if told else {}


def _row(progress: GmpProgress) -> list[str]:
    attempts = ", ".join(map(str, progress.attempts)) or ("" if progress.stage is Stage.RECEIVED else "?")
    return [progress.name, progress.stage.value, attempts, str(progress.failed_tries), progress.last_error or ""]


def _payload(payload: bytes) -> str:
    try:
        return f"{quoted(payload.decode(), _MOST_SHOWN)} ({len(payload)} bytes)"
    except UnicodeDecodeError:
        shown = payload[:64].hex()
        return f"0x{shown}{'…' if len(payload) > 64 else ''} ({len(payload)} bytes)"
