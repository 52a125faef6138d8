"""`waybill trust`: whom a lane trusts, as its chains say, and whether that is as planned."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.output import CliError, ExitCode, UsageError, escaped, progress, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.domain.trust import NotReadableError
from bridge.protocol.addresses import AddressError, checksummed
from bridge.protocol.deployment import ChainDeployment, DeploymentError
from bridge.queries.trust import DirectionTrust, assess, lane_ends, lane_value, read_lane
from bridge.queries.trust_plan import Difference, TrustPlan, TrustPlanError, drift_of
from bridge.service.connections import connected

_T = TypeVar("_T")


class _LaneFirst(typer.core.TyperGroup):
    """`waybill trust alpha:beta` stands for `waybill trust show alpha:beta`: what is no command's name is a lane."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the usual command in front."""
        known = (*self.commands, "--help", "-h")
        return super().parse_args(ctx, ["show", *args] if args and args[0] not in known else args)


app = typer.Typer(help="Whom a lane trusts, and whether it is as planned.", no_args_is_help=True, cls=_LaneFirst)

LaneName = Annotated[str, typer.Argument(help="The lane, both directions of it, such as alpha:beta.", metavar="LANE")]
Recipient = Annotated[
    str | None,
    typer.Option("--recipient", help="Whose policy counts; by default a recipient without one.", show_default=False),
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", help="The network's plan file, by default networks/NETWORK.json.", show_default=False),
]


@app.command()
def show(
    lane: LaneName,
    *,
    recipient: Recipient = None,
    plan: PlanFile = None,
    write_plan: Annotated[
        Path | None,
        typer.Option("--write-plan", help="Note in this plan file what is set on chain now.", show_default=False),
    ] = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Show who could forge a message on a lane, who stops that, and what could change. `waybill trust LANE` is the same.

    Reads the chains alone. The rules of findings and grades: docs/trust.md.

    Example: waybill trust show alpha:beta
    """
    try:
        whose = checksummed(recipient) if recipient is not None else None
    except AddressError as error:
        raise UsageError(f"--recipient: {error}") from error
    workspace = Workspace.of(network, config)
    deployment = workspace.deployment()
    ends = _ends(workspace, lane)
    expected = _plan(plan, workspace)

    async def read() -> tuple[DirectionTrust, DirectionTrust]:
        async with connected(deployment, workspace.settings(), {end.chain_id for end in ends}) as chains:
            return await read_lane(chains, ends, whose)

    directions = _readable(read())
    value = lane_value(deployment, [assess(one, expected.named) for one in directions])
    if write_plan is not None:
        into = _plan(write_plan, workspace, must_exist=False)
        into.expecting(_name(ends), directions).write(write_plan)
        progress(f"{write_plan} expects {_name(ends)} to be as it is now")
    result(value, as_json=as_json, render=lambda console: _draw(console, value))


@app.command()
def check(
    lane: Annotated[str | None, typer.Argument(help="Only this lane.", metavar="[LANE]", show_default=False)] = None,
    *,
    plan: PlanFile = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Compare what is set on chain with the plan; ends with 1 if anything differs, and names it.

    Example: waybill trust check --plan networks/devnet.json
    """
    workspace = Workspace.of(network, config)
    file = plan or workspace.plan_file
    expected = _plan(file, workspace)
    lanes = [_name(_ends(workspace, lane))] if lane else sorted(expected.lanes)
    if missing := [name for name in lanes or [lane or ""] if name not in expected.lanes]:
        raise CliError(
            f"{file} does not say how {' and '.join(filter(None, missing)) or 'any lane'} is to be",
            next_step=f"waybill trust {lane or 'LANE'} --write-plan {file}",
        )
    wanted = {end.chain_id for name in lanes for end in _ends(workspace, name)}

    async def read() -> dict[str, list[Difference]]:
        async with connected(workspace.deployment(), workspace.settings(), wanted) as chains:
            return await drift_of(workspace.deployment(), chains, expected, lanes)

    found = _readable(read())
    value = {
        "plan": str(file),
        "lanes": {name: [one.to_value() for one in lane_found] for name, lane_found in found.items()},
    }
    result(value, as_json=as_json, render=lambda console: _draw_differences(console, found))
    if any(found.values()):
        raise SystemExit(ExitCode.FAILED)


def _ends(workspace: Workspace, lane: str) -> tuple[ChainDeployment, ChainDeployment]:
    try:
        return lane_ends(workspace.deployment(), lane)
    except DeploymentError as error:
        raise UsageError(str(error)) from error


def _name(ends: tuple[ChainDeployment, ChainDeployment]) -> str:
    return ":".join(end.name for end in ends)


def _plan(file: Path | None, workspace: Workspace, *, must_exist: bool = True) -> TrustPlan:
    """The plan in a file that is named, or in the usual one if it is there.

    Raises:
        CliError: it can't be used, or is named and not there.
    """
    chosen = file or workspace.plan_file
    if not chosen.exists() and (file is None or not must_exist):
        return TrustPlan()
    try:
        return TrustPlan.read(chosen, workspace.network)
    except TrustPlanError as error:
        raise CliError(str(error)) from error


def _readable(reading: Coroutine[Any, Any, _T]) -> _T:
    """What was read.

    Raises:
        CliError: a router is none.
    """
    try:
        return asyncio.run(reading)
    except NotReadableError as error:
        raise CliError(f"{error}; is the deployments file of this network?", next_step="waybill doctor") from error


def _draw(console: Console, value: dict[str, Any]) -> None:
    console.print(f"[bold]{escaped(value['lane'])}[/bold]  grade {value['grade']}")
    for direction in value["directions"]:
        _draw_direction(console, direction)


def _draw_direction(console: Console, direction: dict[str, Any]) -> None:
    whose = f"of {direction['recipient']}" if direction["recipient"] else "by the floor"
    console.print(f"\n[bold]{escaped(direction['direction'])}[/bold]  grade {direction['grade']}")
    console.print(f"{direction['quorum']} GMPs must deliver, {escaped(whose)}\n")
    rows = []
    for gmp in direction["gmps"]:
        if gmp["read"]:
            rows.append([gmp["gmp"], _smallest(gmp["verifiers"]), gmp["finality"]])
        else:
            rows.append([gmp["gmp"], "not read", gmp["reason"]])
    console.print(table(None, ["GMP", "verifiers needed", "waits for"], rows))
    console.print("\n[bold]A forged message executes if these are corrupted[/bold]")
    forgers = direction["forgers"]
    for one in forgers["sets"]:
        console.print(f"  {one['size']}  {escaped(one['text'])}")
    console.print("  nobody can" if not forgers["sets"] else "" if forgers["complete"] else "  and larger groups")
    for title, lines in (("Stopped by", direction["stops"]), ("Could change", direction["couldChange"])):
        console.print(f"[bold]{title}[/bold]")
        console.print("\n".join(f"  {escaped(line)}" for line in lines) + "\n")
    drawn = [[one["severity"], one["code"], one["gmp"] or "", one["text"]] for one in direction["findings"]]
    console.print(table("Findings", ["severity", "code", "GMP", "text"], drawn) if drawn else "no findings")


def _smallest(sets: dict[str, Any]) -> str:
    """The first group in short: its members are named below."""
    if not sets["sets"]:
        return "nobody can"
    groups = sets["sets"][0]["groups"]
    return " and ".join(f"{group['count']} of {len(group['among'])}" for group in groups) or "nobody is needed"


def _draw_differences(console: Console, found: dict[str, list[Difference]]) -> None:
    for lane, lane_found in found.items():
        console.print(f"{escaped(lane)} is {'not ' if lane_found else ''}as planned")
        for one in lane_found:
            console.print(f"  {escaped(str(one))}")
