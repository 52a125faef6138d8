"""`waybill webhook`: deliveries to HTTP targets, again if need be, and a trial of a target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import orjson
import typer

from bridge.cli import options
from bridge.cli.open_stores import open_relayer_store
from bridge.cli.output import CliError, UsageError, escaped, facts, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.dead_letters.dead_letter import iso
from bridge.domain.webhooks import StillPendingError, WebhookDelivery, WebhookState
from bridge.store import Store
from bridge.streams.webhooks import TargetError, new_client, post

app = typer.Typer(help="Look at deliveries to webhooks, repeat them, and try a target.", no_args_is_help=True)

_WebhookDelivery = Annotated[
    str, typer.Argument(help="The delivery's id, as `waybill webhook list` shows it.", metavar="ID")
]


@app.command("list")
def list_deliveries(
    *,
    state: Annotated[WebhookState | None, typer.Option(help="Only those in this state.", case_sensitive=False)] = None,
    target: Annotated[str | None, typer.Option(help="Only those to this target.")] = None,
    key: Annotated[str | None, typer.Option(help="Only those about this message id or lane.")] = None,
    before: Annotated[int | None, typer.Option(help="Only those of a version below this one.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 50,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """List deliveries, the newest first.

    Example: waybill webhook list --state DEAD
    """
    with open_relayer_store(Workspace.of(network)) as store:
        listed = store.webhooks.listed if store else None
        found = listed(state=state, target=target, key=key, before=before, limit=limit) if listed else []
    value = [_value(one) for one in found]
    rows = [[row["id"], row["event"], row["state"], str(row["failedTries"]), row["error"] or ""] for row in value]
    drawn = table(None, ["id", "event", "state", "failed tries", "last error"], rows)
    result(value, as_json=as_json, render=lambda console: console.print(drawn if rows else "no deliveries"))


@app.command()
def show(delivery: _WebhookDelivery, *, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Show one delivery, with what is sent.

    Example: waybill webhook show ID
    """
    with _store(network) as store:
        found = store.webhooks.delivery(delivery)
    if found is None:
        raise _unknown(delivery)
    value = {**_value(found), "body": orjson.loads(found.body)}
    lines = {
        "state": found.state.value,
        "target": found.target,
        "event": f"{found.event} of {found.key}",
        "created": iso(found.created_at),
        "failed tries": str(found.tries),
        "last error": escaped(found.error) or "none",
        "body": escaped(found.body),
    }
    result(value, as_json=as_json, render=lambda console: console.print(facts(lines)))


@app.command()
def redeliver(delivery: _WebhookDelivery, *, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Deliver once more what was delivered or is dead, with the same id and body and all its tries.

    Example: waybill webhook redeliver ID
    """
    with _store(network) as store:
        try:
            value = _value(store.webhooks.redeliver(delivery, time.time()))
        except KeyError:
            raise _unknown(delivery) from None
        except StillPendingError as error:
            raise CliError(str(error), next_step=f"waybill webhook show {delivery}") from error
    text = "a relayer that runs delivers it again"
    result(value, as_json=as_json, render=lambda console: console.print(text))


@app.command("test")
def try_target(
    target: Annotated[str, typer.Argument(help="A target of the settings.")],
    *,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """POST a signed record of the event TEST to a target now. Nothing is stored, and nothing is tried again.

    Example: waybill webhook test TARGET
    """
    workspace = Workspace.of(network, config)
    found = workspace.settings().webhook_settings(workspace.deployment())
    named = {one.name: one for one in found.targets} if found else {}
    if found is None or target not in named:
        known = ", ".join(named) or "none"
        raise UsageError(f"the settings have no webhook target {target!r}; they have {known}")
    now = time.time()
    body = orjson.dumps({"stream": "test", "key": "", "version": 0, "event": "TEST", "at": now, "data": {}})
    limit, private, delivery_id = found.timeout, found.allow_private, f"{target}-test-{time.time_ns()}"

    async def send() -> int:
        async with new_client() as client:
            return await post(client, named[target], delivery_id, body, timeout=limit, allow_private=private)

    try:
        status = asyncio.run(send())
    except TargetError as error:
        raise CliError(f"target {target}: {error}", next_step="correct webhooks.targets, or the receiver") from error
    value = {"id": delivery_id, "status": status, "seconds": round(time.time() - now, 3)}
    text = f"target {target} answered {status} in {value['seconds']} s"
    result(value, as_json=as_json, render=lambda console: console.print(text))


@contextmanager
def _store(network: str) -> Iterator[Store]:
    with open_relayer_store(Workspace.of(network)) as store:
        if store is None:
            raise CliError("no relayer has run here yet, so there is no store", next_step="waybill relayer run")
        yield store


def _unknown(delivery: str) -> CliError:
    return CliError(f"there is no webhook delivery {delivery!r}; it may be pruned", next_step="waybill webhook list")


def _value(found: WebhookDelivery) -> dict[str, Any]:
    """A delivery as JSON, without its body; times in Unix seconds."""
    return {
        "id": found.id,
        "target": found.target,
        "state": found.state.value,
        "event": found.event,
        "key": found.key,
        "version": found.version,
        "failedTries": found.tries,
        "createdAt": found.created_at,
        "nextTryAt": found.next_at if found.ended_at is None else None,
        "endedAt": found.ended_at,
        "error": found.error or None,
    }
