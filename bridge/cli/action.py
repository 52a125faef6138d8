"""`waybill action`: shows atomic actions, and resolves those that are stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import RenderableType

from bridge.atomic.answers import NEWEST, action_value, retriable, summary_value
from bridge.atomic.reader import ACTING_PATIENCE, SHOWN_PATIENCE, ActionReader, Answers
from bridge.atomic.records import Action, Branch, BranchState, Decision
from bridge.atomic.steps import Step, abort_step, due_steps, reconcile_step, retry_call
from bridge.cli import options
from bridge.cli.decider import signer
from bridge.cli.output import (
    CliError,
    ExitCode,
    UsageError,
    details,
    progress,
    result,
    rows_table,
    with_network,
)
from bridge.cli.workspace import Workspace
from bridge.client import Client, RefusedError, transact
from bridge.devnet.accounts import DAPP_KEY
from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Chain
from bridge.protocol.times import readable
from bridge.queries.lanes import chain_name
from bridge.service.connections import connected
from bridge.service.settings import check_chains

app = typer.Typer(help="Show atomic actions, and resolve stuck ones.", no_args_is_help=True)

ActionId = Annotated[str, typer.Argument(help="The action's id: 0x and 64 hex digits.", metavar="ID")]
BranchNumber = Annotated[int | None, typer.Option("--branch", help="The participant's number in `action show`.", min=0)]

_Answer = TypeVar("_Answer")

_LIST_COLUMNS: Final = {
    "actionId": "action",
    "chain": "on",
    "level": "level",
    "state": "state",
    "participants": "participants, as recorded by the coordinator",
}


@app.command("list")
def list_actions(
    limit: Annotated[int, typer.Option(help="Maximum number of actions.", min=1, max=1_000)] = NEWEST,
) -> None:
    """List the newest actions of the configured coordinators, with the state of each participant.

    Exits with status 1 if a coordinator's chain does not respond; the other coordinators' actions are still listed.

    Example: waybill action list
    """
    workspace = Workspace.current()
    deployment = workspace.deployment()

    async def read(reader: ActionReader, _: Mapping[int, EvmChain]) -> Answers:
        return await reader.newest(limit)

    read_now = asyncio.run(_ask(workspace, read))
    found = [summary_value(one, deployment) for one in read_now.actions]
    rows = [
        one | {"participants": [f"{part['chain']} {part['state']}" for part in one["participants"]]} for one in found
    ]
    none = "no actions on the chains that answer" if read_now.problems else "no actions yet"
    result(found, rows_table(rows, _LIST_COLUMNS) if rows else none)
    for coordinator, problem in read_now.problems.items():
        name = chain_name(deployment, coordinator.chain)
        progress(f"the actions of coordinator {coordinator.address} on {name} are missing: {problem}")
    if read_now.problems:
        raise SystemExit(ExitCode.FAILED)


@app.command()
def show(action: ActionId) -> None:
    """Show an action: its decision, each participant's state, locks and messages, and the next step.

    Reads only the chains. Exits with status 1 if a participant contradicts the decision.

    Example: waybill action show 0x…
    """
    workspace, action_id = Workspace.current(), _id(action)

    async def read(reader: ActionReader, _: Mapping[int, EvmChain]) -> Action:
        return _known(await reader.find(action_id, SHOWN_PATIENCE), action_id)

    found = asyncio.run(_ask(workspace, read))
    value = action_value(found, workspace.deployment())
    result(value, *_parts(value))
    if found.state.is_stalled or value["findings"]:
        raise SystemExit(ExitCode.FAILED)


@app.command()
def abort(action: ActionId) -> None:
    """Abort an undecided action, as its initiator or as the coordinator's owner.

    Example: waybill action abort 0x…
    """

    async def steps(found: Action, _chains: Mapping[int, Chain], _payer: str) -> list[Step]:
        if found.decision is not Decision.NONE:
            raise CliError(
                f"the decision {found.decision.name} is final, so the action can't be aborted: it is "
                f"{found.state.name}",
                next_step=f"waybill action show {found.name}",
            )
        return [abort_step(found)]

    _act(action, steps)


@app.command()
def reconcile(
    action: ActionId,
    branch: BranchNumber = None,
    gmps: Annotated[
        str | None,
        typer.Option(help="With --branch: GMPs to resend over. By default all that connect the chains."),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            help="With --branch: evidence that the participant's chain agrees with the decision; its hash is stored on chain."
        ),
    ] = None,
) -> None:
    """Advance an action, or correct a participant that contradicts the decision.

    Without --branch, executes every step that is currently due; anyone may execute them. A step sends a phase, requests
    participants' replies, or ends a phase that timed out. With --branch, resends the participant's pending message, as
    a retrier of the contract that sent it. If the participant has diverged, its owner applies the change; with
    --evidence, the coordinator's owner vouches for the participant instead. The coordinator's record is authoritative.

    Example: waybill action reconcile 0x… --branch 1
    """
    if branch is None:
        if gmps is not None or evidence is not None:
            raise UsageError(
                "--gmps and --evidence apply to one participant",
                next_step="choose the participant with --branch NUMBER",
            )
        _act(action, _due)
        return
    named = None if gmps is None else options.gmps(gmps)

    async def steps(found: Action, chains: Mapping[int, Chain], payer: str) -> list[Step]:
        chosen = _branch(found, branch)
        if found.state.is_stalled or chosen.says is BranchState.DIVERGED:
            return [reconcile_step(found, chosen, evidence)]
        waiting = retriable(found, chosen)
        if evidence is not None or not waiting:
            raise CliError(
                f"the action is {found.state.name}, participant {branch} has not diverged, and no message to or from it is"
                " pending",
                next_step=f"waybill action show {found.name}",
            )
        deployment = Workspace.current().deployment()
        message = await Client(deployment, chains).find(waiting[-1].message_id)
        over = named or sorted(deployment.gmps_between(message.source_chain, message.destination_chain))
        call = await retry_call(deployment, chains, message, over, payer)
        text = f"send {waiting[-1].phase.name} of participant {branch} again"
        return [Step(name=f"retry/{branch}", chain=message.source_chain, call=call, text=text)]

    _act(action, steps)


async def _due(found: Action, _chains: Mapping[int, Chain], _payer: str) -> list[Step]:
    """Returns every step that is currently due; anyone may execute them."""
    for branch in found.branches:
        if branch.problem:
            progress(f"participant {branch.number} can't be read, so its steps are unknown: {branch.problem}")
    return due_steps(found)


async def _ask(
    workspace: Workspace, asked: Callable[[ActionReader, dict[int, EvmChain]], Awaitable[_Answer]]
) -> _Answer:
    """Runs a query against the coordinators. A chain that is down does not affect the others.

    Raises:
        CliError: no coordinator is configured.
    """
    deployment, settings = workspace.deployment(), workspace.settings()
    check_chains(settings, deployment)
    coordinators = settings.actions.named(deployment)
    if not coordinators:
        raise CliError(
            f"no coordinator of network {deployment.network!r} is configured",
            next_step='add it to waybill.toml: [actions] coordinators = { CHAIN = ["0x…"] }',
        )
    async with connected(deployment, settings, eager=False) as chains:
        return await asked(ActionReader(deployment, chains, coordinators), chains)


def _known(found: _Answer | None, action_id: bytes) -> _Answer:
    """Returns the action that was found.

    Raises:
        CliError: no configured coordinator knows the action.
    """
    if found is None:
        raise CliError(
            f"no configured coordinator knows action 0x{action_id.hex()}",
            code=ExitCode.UNKNOWN_ID,
            next_step="waybill action list",
        )
    return found


def _branch(action: Action, number: int) -> Branch:
    if number >= len(action.branches):
        raise UsageError(f"the action has no participant {number}; they are numbered 0 to {len(action.branches) - 1}")
    return action.branches[number]


def _id(text: str) -> bytes:
    return options.hex_bytes(text, "an action's id", length=32, next_step="waybill action list")


def _act(action: str, steps: Callable[[Action, Mapping[int, Chain], str], Awaitable[list[Step]]]) -> None:
    """Finds an action, takes the steps that `steps` returns for it and the paying account, and prints them."""
    workspace, action_id = Workspace.current(), _id(action)
    account = signer(workspace, DAPP_KEY)

    async def work(reader: ActionReader, chains: dict[int, EvmChain]) -> list[dict[str, Any]]:
        found = _known(await reader.find(action_id, ACTING_PATIENCE), action_id)
        try:
            return [
                {
                    "step": step.text,
                    "transaction": (await transact(chains[step.chain], account, step.call)).transaction_hash,
                }
                for step in await steps(found, chains, account.address)
            ]
        except RefusedError as error:
            raise CliError(str(error), next_step=f"waybill action show {found.name}") from error

    taken = asyncio.run(_ask(workspace, work))
    lines = [f"{step['step']}: 0x{step['transaction'].hex()}" for step in taken] or ["nothing can be done now"]
    value = {"actionId": action_id, "steps": taken}
    result(value, *lines)
    progress(f"next: waybill action show 0x{action_id.hex()}")


_COLUMNS: Final = {
    "participants": {
        "branch": "",
        "chain": "chain",
        "participant": "participant",
        "change": "change",
        "state": "coordinator has",
        "says": "participant says",
        "reason": "reason",
        "lockedUntil": "locked until",
        "problem": "not read",
    },
    "messages": {"branch": "", "phase": "phase", "status": "state", "messageId": "message"},
}
_TITLES: Final = {
    "participants": "Participants",
    "messages": "Messages",
}
_FACTS: Final = (
    *("actionId", "state", "meaning", "level", "subject", "begunAt", "initiator", "coordinator", "chain"),
    *("decision", "cause", "phase", "phaseEndsAt"),
)


def _parts(value: dict[str, Any]) -> Iterator[RenderableType]:
    """Yields the tables and lines that describe an action."""
    yield details({name: _dated(name, value[name]) for name in _FACTS})
    sent = [{"branch": part["branch"], **message} for part in value["participants"] for message in part["messages"]]
    for key, rows in (value | {"messages": sent}).items():
        if key in _COLUMNS and rows:
            dated = [{name: _dated(name, one) for name, one in row.items()} for row in rows]
            yield rows_table(dated, _COLUMNS[key], f"\n{_TITLES[key]}")
    for part in value["participants"]:
        if part["obstacle"]:
            yield f"{value['phase']} can't reach participant {part['branch']} now: {part['obstacle']}"
    for finding in value["findings"]:
        yield f"DIVERGED {finding}"
    for act in value["next"]:
        yield f"next: {with_network(act['command'])}\n  {act['why']}"


def _dated(name: str, value: Any) -> Any:
    """Formats times for display. Returns other values unchanged."""
    return f"{readable(value)} UTC" if name.endswith(("At", "Until")) and value is not None else value
