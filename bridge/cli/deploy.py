"""`waybill deploy`: Waybill's contracts on the chains of a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.decider import print_batches
from bridge.cli.output import UsageError, progress, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.deploy import deploy as deploy_network
from bridge.deploy.deploy import deploy_by_safe, preview
from bridge.deploy.plan import NetworkPlan
from bridge.deploy.preview import ChainPreview


def deploy(
    *,
    network: Annotated[str, typer.Option("--network", envvar="WAYBILL_NETWORK", help="Network to deploy.")],
    plan: Annotated[
        Path | None,
        typer.Option(help="Network file: chains, RPC URLs, GMP contracts, owner. networks/NETWORK.json if not given."),
    ] = None,
    key: options.Key = None,
    accept_single_verifier: Annotated[
        bool, typer.Option(help="Deploy although a GMP may believe a single verifier on some chain.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: print each transaction, its gas and what it would cost.")
    ] = False,
    safe: Annotated[
        str | None,
        typer.Option(
            help="The owner is the Safe at this address: write batches for its app instead of sending.",
            metavar="ADDRESS",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Bring every chain of a network to what its file says, and write the deployments file.

    What is there already stays: a second run changes nothing, and one after an interruption goes on. The key is that of the
    network's owner. The file of a public network must say who decides and who verifies; `waybill network create` writes one.

    Example: waybill deploy --network testnet --plan networks/testnet.json
    """
    workspace = Workspace.of(network)
    path = plan or workspace.root / "networks" / f"{network}.json"
    described = NetworkPlan.read(path)
    if described.network != network:
        raise UsageError(f"{path} describes network {described.network!r}, not {network!r}")
    target = workspace.deployments_file
    if dry_run:
        previewing = preview(described, target, progress, accept_single_verifier=accept_single_verifier)
        _print_preview(asyncio.run(previewing), as_json=as_json)
        return
    if safe is not None:
        by_safe = deploy_by_safe(described, safe, target, progress, accept_single_verifier=accept_single_verifier)
        done = asyncio.run(by_safe)
        if isinstance(done, list):
            print_batches(done, then="type the same command again", as_json=as_json)
            return
    else:
        if key is None:
            raise UsageError(
                "no key to deploy with: it must be the owner's", next_step="set WAYBILL_KEY, or give --key"
            )
        running = deploy_network(described, key, target, progress, accept_single_verifier=accept_single_verifier)
        done = asyncio.run(running)
    value = {
        "deployments": str(done.path),
        "changed": done.changed,
        "chains": {outcome.name: list(outcome.done) for outcome in done.outcomes},
    }
    lines = [f"{outcome.name}: {', '.join(outcome.done) or 'nothing to do'}" for outcome in done.outcomes]
    lines.append(f"{'written' if done.file_changed else 'unchanged'}: {done.path}")
    result(value, as_json=as_json, render=lambda console: console.print("\n".join(lines)))


def _print_preview(chains: list[ChainPreview], *, as_json: bool) -> None:
    value = {
        chain.name: {
            "gas": chain.gas,
            "weiPerGas": chain.price,
            "wei": str(chain.cost),
            "transactions": [
                {
                    "name": one.transaction.name,
                    "to": one.transaction.to,
                    "data": f"0x{one.transaction.data.hex()}",
                    "gas": one.gas,
                }
                for one in chain.estimates
            ],
        }
        for chain in chains
    }
    rows = [
        [chain.name, one.transaction.name, one.transaction.to, f"{one.gas:,}", _ether(one.gas * chain.price)]
        for chain in chains
        for one in chain.estimates
    ]
    rows += [[chain.name, "all", "", f"{chain.gas:,}", _ether(chain.cost)] for chain in chains]
    drawn = table("Nothing was sent", ["chain", "transaction", "to", "gas", "cost"], rows)
    result(value, as_json=as_json, render=lambda console: console.print(drawn))


def _ether(wei: int) -> str:
    return f"{wei / 10**18:.6f}"
