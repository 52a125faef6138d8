"""`waybill message fund | cancel | report | expire | watch`: what is rarer than a retry, and looking on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.decider import signer
from bridge.cli.lookup import Found, look_up
from bridge.cli.output import CliError, ExitCode, escaped, progress, result
from bridge.cli.workspace import Workspace
from bridge.client import Client, RefusedError, Sent
from bridge.devnet.accounts import DAPP_KEY
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import TransientError
from bridge.protocol.status import Status
from bridge.protocol.times import iso_milliseconds, utc
from bridge.queries.explain import Explanation
from bridge.service.connections import connected


class Where(StrEnum):
    """The chain of a message on which something is done about it."""

    SOURCE = "source"
    DESTINATION = "destination"


_ENDED = frozenset({Status.EXECUTED, Status.EXPIRED, Status.CANCELLED})
_LOOK_SECONDS = 1.0


def fund(message: options.MessageId) -> None:
    """Pay for a message that was created without its fee, over the GMPs that its sender chose. Anyone may.

    Example: waybill message fund 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        return sent_value(await client.fund(found.message))

    act_on(message, act, "funded over", where=Where.SOURCE)


def cancel(
    message: options.MessageId,
    gmps: Annotated[
        str | None, typer.Option(help="GMPs for the cancellation. Those that took the message, if not given.")
    ] = None,
) -> None:
    """Ask the destination never to execute a message, as its sender. It may have been executed before this arrives.

    Example: waybill message cancel 0x…
    """
    cancelled = _sent_about(gmps, "cancellation", Client.cancel)

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        status, there = found.explanation.status, found.deployment.chain(found.message.destination_chain).name
        if status in _ENDED:
            raise RefusedError(
                f"the message is {status} on {there}: a cancellation would cost its fee and change nothing"
            )
        return await cancelled(client, found)

    act_on(message, act, "its cancellation is on its way over", where=Where.SOURCE)


def report(
    message: options.MessageId,
    gmps: Annotated[
        str | None, typer.Option(help="GMPs for the report. Those that took the message, if not given.")
    ] = None,
) -> None:
    """Have the destination report to the source how a message ended. Anyone may; a contract on the source learns it so.

    Example: waybill message report 0x…
    """
    act = _sent_about(gmps, "report", Client.report)
    act_on(message, act, "its report is on its way over", where=Where.DESTINATION)


def _sent_about(
    gmps: str | None, name: str, send: Callable[[Client, Message, Sequence[Gmp]], Awaitable[Sent]]
) -> Callable[[Client, Found], Awaitable[Mapping[str, Any]]]:
    """Has a router send a message about another one, over the GMPs that are named, else over those that took the other one."""
    named = None if gmps is None else options.gmps(gmps)

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        sent = await send(client, found.message, named or _those_that_took(found))
        return {name: sent.message.id, **sent_value(sent)}

    return act


def expire(message: options.MessageId) -> None:
    """Mark a message whose time has run out as expired on its destination, for good. Anyone may.

    Example: waybill message expire 0x…
    """

    async def act(client: Client, found: Found) -> Mapping[str, Any]:
        return {"transaction": (await client.expire(found.message))["transactionHash"]}

    act_on(message, act, "marked as expired", where=Where.DESTINATION)


def watch(
    message: options.MessageId,
    *,
    timeout: Annotated[float, typer.Option(help="Seconds to watch at most.", min=0)] = 3_600.0,
) -> None:
    """Print each change of a message until it ends or diverges. Exits with status 4 if that takes longer than --timeout.

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
    """Returns what was said last; None if nothing could be."""
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
            progress(f"can't look now, and goes on: {problem}")
        else:
            explanation, status = found.explanation, found.explanation.status
            seen = (status, *((one.gmp, one.stage, one.attempts) for one in explanation.gmps))
            if seen != shown:
                shown, line = seen, f"{status}  {explanation.reason}"
                now = time.time()
                value = {"at": iso_milliseconds(now), "status": status.value, "reason": explanation.reason}
                result(value, render=_printer(f"{utc(now)}  {line}"))
        if (explanation and _has_ended(explanation.status)) or time.monotonic() >= deadline:
            return explanation
        await asyncio.sleep(_LOOK_SECONDS)


def _has_ended(status: Status) -> bool:
    """Whether nothing more happens to a message by itself: a person has to look at one that is DIVERGED."""
    return status.is_final or status is Status.DIVERGED


def _printer(line: str) -> Callable[[Console], None]:
    return lambda console: console.print(escaped(line))


def _those_that_took(found: Found) -> tuple[Gmp, ...]:
    seen = {progress.gmp for progress in found.explanation.gmps}
    took = [gmp for gmp in Gmp if gmp in seen]
    if not took:
        raise CliError("neither relayer nor index knows which GMPs took it", next_step="name some with --gmps")
    return tuple(took)


def sent_value(sent: Sent) -> dict[str, Any]:
    """What a transaction that hands a message to GMPs came to, for JSON."""
    return {
        "gmps": sorted(gmp.label for gmp in sent.gmps),
        "failed": sorted(gmp.label for gmp in sent.failed),
        "fee": sent.fee,
        "transaction": sent.transaction,
    }


def act_on(
    message: str,
    act: Callable[[Client, Found], Awaitable[Mapping[str, Any]]],
    done: str,
    *,
    where: Where,
) -> None:
    """Finds a message, has something done about it, and prints what that came to.

    The message's other chain may be down: a line says so, and the client is given the chains that answer.

    Args:
        message: its id, as it was typed.
        act: does it; gives what is printed.
        done: what to say before the GMPs that it went over, if it did.
        where: the chain on which it acts.
    """
    workspace = Workspace.current()
    message_id = options.message_id(message)
    account = signer(workspace, DAPP_KEY)

    async def run() -> Mapping[str, Any]:
        async with connected(workspace.deployment(), workspace.settings(), eager=False) as chains:
            found = await look_up(workspace, message_id, chains)
            ends = {Where.SOURCE: found.message.source_chain, Where.DESTINATION: found.message.destination_chain}
            if ends[where] not in found.answering:
                name = found.deployment.chain(ends[where]).name
                raise CliError(f"{name} does not answer, and this is a transaction there", next_step="waybill status")
            for line in found.explanation.unknown:
                progress(line)
            answering = {chain: chains[chain] for chain in found.answering}
            try:
                return await act(Client(found.deployment, answering, account), found)
            except RefusedError as error:
                raise CliError(str(error), next_step=f"waybill message show 0x{message_id.hex()}") from error

    value = {"messageId": message_id, **asyncio.run(run())}
    over = ", ".join(value.get("gmps", ()))
    result(value, render=_printer(f"{done} {over}".strip()))
    progress(f"next: waybill message watch 0x{message_id.hex()}")
