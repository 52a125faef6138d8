"""`waybill devnet`: starts and stops a network on this machine."""

from __future__ import annotations

import asyncio
import shutil
from typing import Annotated

import typer

from bridge import devnet
from bridge.cli.output import CliError, fields_of, progress, result, table
from bridge.cli.root import DEVNET
from bridge.cli.workspace import Workspace
from bridge.devnet import ChainState, ChainStatus
from bridge.devnet.attach import Attachment, attach
from bridge.devnet.network import Folder

app = typer.Typer(
    help="Run a network on this machine: anvil chains with the GMPs' own contracts.", no_args_is_help=True
)

FIRST_PORT = 8545


@app.command()
def up(
    chains: Annotated[int, typer.Option(help="Number of chains.", min=2, max=8)] = 2,
    block_time: Annotated[
        int, typer.Option(help="Seconds between blocks; 0 makes a block for each transaction.", min=0)
    ] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the first chain, by default 8545; the others get the next.",
            envvar="WAYBILL_PORT",
            min=1,
            max=65_535,
            show_default=False,
        ),
    ] = None,
    rpc: Annotated[
        list[str] | None,
        typer.Option(
            help="An anvil of your own, at this URL; several make lanes. With one, a second chain is started.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start anvil chains, or use your own with --rpc, and deploy the GMPs' contracts, routers and examples on them.

    Keeps contracts that are already deployed, and writes the addresses to deployments/devnet.json.

    Example: waybill devnet up --rpc http://127.0.0.1:8545
    """
    workspace = Workspace.current(DEVNET)
    if rpc:
        _attach(workspace, rpc)
        return
    found = asyncio.run(
        devnet.up(
            home=workspace.root,
            chains=chains,
            block_time=block_time,
            first_port=port,
            progress=progress,
        )
    )
    if found.started:
        # The stores of relayer and index describe the chains before.
        shutil.rmtree(workspace.state, ignore_errors=True)
    else:
        progress("the devnet is already up")
    progress(f"addresses are in {found.deployments_file}")
    _print(found.chains)
    progress("next: waybill relayer run, and in another terminal: waybill send --payload hello --wait")


def _attach(workspace: Workspace, urls: list[str]) -> None:
    """Deploys to anvils that the user started, and prints the contracts' addresses."""
    found = asyncio.run(attach(home=workspace.root, urls=urls, progress=progress))
    if found.started:
        shutil.rmtree(workspace.state, ignore_errors=True)
    else:
        progress("everything is already deployed")
    rows = [
        [chain.name, str(chain.chain_id), what, address]
        for chain in found.deployment.chains
        for what, address in {
            "router": chain.router,
            **{f"adapter of {gmp}": adapter for gmp, adapter in chain.adapters.items()},
            **chain.examples,
        }.items()
    ]
    value = {"file": str(found.deployments_file), "chains": [fields_of(chain) for chain in found.chains]}
    contracts = [dict(zip(("chain", "chainId", "contract", "address"), row, strict=True)) for row in rows]
    result(value | {"contracts": contracts}, table(None, ["chain", "id", "contract", "address"], rows))
    progress(f"written: {found.deployments_file}")
    names = [chain.name for chain in found.deployment.chains]
    progress(f"next: waybill relayer run, and in another terminal: waybill send --to {names[1]} --payload hello --wait")


@app.command()
def down() -> None:
    """Stop the chains that `devnet up` started.

    Example: waybill devnet down
    """
    ended = devnet.down(home=Workspace.current(DEVNET).root)
    text = f"stopped {', '.join(ended)}" if ended else "no chain is running"
    result({"ended": list(ended)}, text)


@app.command()
def status() -> None:
    """Show the state of each chain. Exits with status 1 if one has crashed.

    Example: waybill devnet status
    """
    home = Workspace.current(DEVNET).root
    attached = Attachment.read(Folder.below(home))
    found = (*(one.status for one in (attached.chains if attached else ())), *devnet.status(home=home))
    if not found:
        raise CliError("the devnet is not up", next_step="waybill devnet up")
    _print(found)
    broken = [chain for chain in found if chain.state is not ChainState.RUNNING]
    if broken:
        text = ", ".join(
            f"{chain.name} {chain.state.value} ({f'see {chain.log}' if chain.log else chain.url})" for chain in broken
        )
        raise CliError(f"the devnet is not working: {text}", next_step="waybill devnet down, then waybill devnet up")


def _print(chains: tuple[ChainStatus, ...]) -> None:
    rows = [
        [chain.name, str(chain.chain_id), chain.url, chain.state.value, "" if chain.block is None else str(chain.block)]
        for chain in chains
    ]
    result([fields_of(chain) for chain in chains], table(None, ["chain", "id", "rpc", "state", "block"], rows))
