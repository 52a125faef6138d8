"""`waybill rehearse`: a network file tried out on forks of its chains."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.interrupts import NOTHING_SENT, if_interrupted
from bridge.cli.output import CliError, ExitCode, escaped, progress, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.plan import NetworkPlan
from bridge.deploy.security import require_security
from bridge.devnet.fetch import ArtifactError, bring_anvil
from bridge.devnet.rehearsal import Rehearsed, Source, Step, balance_of, find_sources, forks
from bridge.devnet.rehearsal import rehearse as rehearse_on
from bridge.domain.spending import ether

_NEVER: Final = "what the GMPs' own parties sign, how long they take, and relayers"


def rehearse(
    file: Annotated[Path, typer.Argument(help="The network file.", metavar="FILE")],
    *,
    accept_single_verifier: Annotated[
        bool, typer.Option(help="Go on although a GMP may believe a single verifier on some chain.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Try a network file on forks of its chains: deploy, send and deliver over each GMP, retry, pause, and see the cost.

    The chains' endpoints are only read. Ends with 1 if something could not be rehearsed, and names it.

    Example: waybill rehearse networks/testnet.json
    """
    # Ended by whatever asks for it: the forks must end with this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sources: list[Source] = []

    def left() -> str:
        names = " and ".join(source.planned.name for source in sources)
        return f"{f'the forks of {names} are stopped, and ' if names else ''}{NOTHING_SENT}"

    with if_interrupted(left):
        _rehearse(file, sources, accept_single_verifier=accept_single_verifier, as_json=as_json)


def _rehearse(file: Path, sources: list[Source], *, accept_single_verifier: bool, as_json: bool) -> None:
    """Puts into `sources` what it forks."""
    plan = NetworkPlan.read(file)
    require_security(plan, accept_single_verifier=accept_single_verifier)
    try:
        bring_anvil(progress)
    except ArtifactError as error:
        raise CliError(str(error), next_step=f"waybill rehearse {file}") from error
    sources += asyncio.run(find_sources(plan))
    known = Workspace.of(plan.network).deployments_file
    with tempfile.TemporaryDirectory(prefix="waybill-rehearsal-") as name:
        folder = Path(name)
        target = folder / "deployments" / known.name
        if known.exists():
            target.parent.mkdir()
            shutil.copyfile(known, target)
        with forks(sources, folder, progress) as processes:
            done = asyncio.run(rehearse_on(plan, processes, target, progress))
    asked = (balance_of(source, done.owners[source.planned.name]) for source in sources)
    holds = {source.planned.name: asyncio.run(one) for source, one in zip(sources, asked, strict=True)}
    value = _value(plan, sources, done, holds)
    result(value, as_json=as_json, render=lambda console: _draw(console, value))
    if done.gaps:
        raise SystemExit(ExitCode.FAILED)


def _value(plan: NetworkPlan, sources: list[Source], done: Rehearsed, holds: Mapping[str, int]) -> dict[str, Any]:
    prices = {source.planned.name: source.price for source in sources}

    def wei(step: Step) -> int:
        return step.gas * prices[step.chain] + step.length * plan.byte_price(step.chain)

    steps = [
        {
            "chain": step.chain,
            "step": step.name,
            "transactions": step.transactions,
            "gas": step.gas,
            "wei": str(wei(step)),
            "feeWei": str(step.fee),
        }
        for step in done.steps
    ]
    chains = {}
    for source in sources:
        needed = sum(wei(step) for step in done.steps if step.chain == source.planned.name and step.by_owner)
        chains[source.planned.name] = {
            "endpoint": source.endpoint,
            "block": source.block,
            "weiPerGas": source.price,
            "ownerHolds": str(holds[source.planned.name]),
            "ownerNeeds": str(needed),
        }
    return {
        "network": plan.network,
        "chains": chains,
        "steps": steps,
        "stoodInFor": dict(done.stood_in),
        "notRehearsed": [{"what": gap.what, "why": gap.why} for gap in done.gaps],
    }


def _draw(console: Console, value: dict[str, Any]) -> None:
    rows = [
        [
            one["chain"],
            one["step"],
            str(one["transactions"]),
            f"{one['gas']:,}",
            ether(int(one["wei"])),
            ether(int(one["feeWei"])),
        ]
        for one in value["steps"]
    ]
    columns = ["chain", "step", "transactions", "gas", "cost", "GMP's fee"]
    console.print(table("On forks; nothing was sent to the chains", columns, rows))
    console.print("\n[bold]Money[/bold]")
    for name, chain in value["chains"].items():
        short = "" if int(chain["ownerHolds"]) >= int(chain["ownerNeeds"]) else ": too little"
        console.print(
            f"  {escaped(name)}: to deploy costs {ether(int(chain['ownerNeeds']))} at block {chain['block']}, and the owner holds"
            f" {ether(int(chain['ownerHolds']))}{short}"
        )
    console.print("\n[bold]Put in place of the GMPs' own parties, so not rehearsed[/bold]")
    for gmp, how in value["stoodInFor"].items():
        console.print(f"  {escaped(gmp)}: {escaped(how)}")
    console.print("\n[bold]Not rehearsed[/bold]")
    for gap in value["notRehearsed"]:
        console.print(f"  {escaped(gap['what'])}: {escaped(gap['why'])}")
    console.print(f"  {_NEVER}")
