"""`waybill deploy`: Waybill's contracts on the chains of a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import UsageError, progress, result
from bridge.cli.workspace import Workspace
from bridge.deploy.deploy import deploy as deploy_network
from bridge.deploy.plan import NetworkPlan


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
    as_json: options.Json = False,
) -> None:
    """Bring every chain of a network to what its file says, and write the deployments file.

    What is there already stays: a second run changes nothing. The key is that of the network's owner. The file of a public
    network must say who decides and who verifies; `waybill network create` writes one.

    Example: waybill deploy --network testnet --plan networks/testnet.json
    """
    workspace = Workspace.of(network)
    path = plan or workspace.root / "networks" / f"{network}.json"
    described = NetworkPlan.read(path)
    if described.network != network:
        raise UsageError(f"{path} describes network {described.network!r}, not {network!r}")
    if key is None:
        raise UsageError("no key to deploy with: it must be the owner's", next_step="set WAYBILL_KEY, or give --key")
    running = deploy_network(
        described, key, workspace.deployments_file, progress, accept_single_verifier=accept_single_verifier
    )
    done = asyncio.run(running)
    value = {
        "deployments": str(done.path),
        "changed": done.changed,
        "chains": {outcome.name: list(outcome.done) for outcome in done.outcomes},
    }
    lines = [f"{outcome.name}: {', '.join(outcome.done) or 'nothing to do'}" for outcome in done.outcomes]
    lines.append(f"{'written' if done.file_changed else 'unchanged'}: {done.path}")
    result(value, as_json=as_json, render=lambda console: console.print("\n".join(lines)))
