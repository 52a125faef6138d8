"""`waybill devnet`: a network on this machine."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bridge import devnet
from bridge.cli.output import CliError, progress, result, table
from bridge.cli.root import DEVNET
from bridge.cli.workspace import Workspace
from bridge.devnet import ChainState, ChainStatus

app = typer.Typer(
    help="Run a network on this machine: anvil chains with the GMPs' own contracts.", no_args_is_help=True
)

FIRST_PORT = 8545


@app.command()
def up(
    chains: Annotated[int, typer.Option(help="How many chains.", min=2, max=8)] = 2,
    block_time: Annotated[
        int, typer.Option(help="Seconds between blocks; 0 makes a block for each transaction.", min=0)
    ] = 1,
    port: Annotated[
        int,
        typer.Option(
            help="Port of the first chain; the others get the next.", envvar="WAYBILL_PORT", min=1, max=65_535
        ),
    ] = FIRST_PORT,
    keep_states: Annotated[
        int | None,
        typer.Option(
            help="Keep the states of that many blocks only, in memory; for reorgs after a thousand blocks, in which anvil "
            "loses contracts otherwise.",
            min=1,
        ),
    ] = None,
) -> None:
    """Start the chains, and put the GMPs and Waybill on them.

    Example: waybill devnet up --chains 2 --block-time 1
    """
    workspace = Workspace.of(DEVNET)
    found = asyncio.run(
        devnet.up(
            home=workspace.root,
            chains=chains,
            block_time=block_time,
            first_port=port,
            keep_states=keep_states,
            progress=progress,
        )
    )
    if found.started:
        # The stores of relayer and indexer describe chains that are gone.
        shutil.rmtree(workspace.state, ignore_errors=True)
    else:
        progress("the devnet is up already")
    progress(f"addresses are in {found.deployments_file}")
    _print(found.chains)
    progress("next: waybill relayer run, and in another terminal: waybill send --payload hello --wait")


@app.command()
def down() -> None:
    """End the chains; nothing of them runs afterwards.

    Example: waybill devnet down
    """
    ended = devnet.down(home=Workspace.of(DEVNET).root)
    text = f"ended {', '.join(ended)}" if ended else "the devnet was not up"
    result({"ended": list(ended)}, render=lambda console: console.print(text))


@app.command()
def status() -> None:
    """Say how each chain does; fails if one has crashed.

    Example: waybill devnet status
    """
    found = devnet.status(home=Workspace.of(DEVNET).root)
    if not found:
        raise CliError("the devnet is not up", next_step="waybill devnet up")
    _print(found)
    broken = [chain for chain in found if chain.state is not ChainState.RUNNING]
    if broken:
        text = ", ".join(f"{chain.name} {chain.state.value} (see {chain.log})" for chain in broken)
        raise CliError(f"the devnet is broken: {text}", next_step="waybill devnet down, then waybill devnet up")


def _print(chains: tuple[ChainStatus, ...]) -> None:
    rows = [
        [chain.name, str(chain.chain_id), chain.url, chain.state.value, "" if chain.block is None else str(chain.block)]
        for chain in chains
    ]
    value: list[dict[str, Any]] = [asdict(chain) for chain in chains]
    drawn = table(None, ["chain", "id", "rpc", "state", "block"], rows)
    result(value, render=lambda console: console.print(drawn))
