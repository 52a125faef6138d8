"""`waybill deploy`: deploys Waybill's contracts to the chains of a network."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bridge.cli.decider import print_batches, safe_address, signer
from bridge.cli.output import CliError, UsageError, progress, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.deploy import deploy as deploy_network
from bridge.deploy.deploy import deploy_by_safe, preview
from bridge.deploy.plan import NetworkPlan
from bridge.deploy.preview import ChainPreview
from bridge.evm.rpc_answers import RpcError
from bridge.protocol.ports import TransientError
from bridge.records.spending import ether
from bridge.service.connections import independent

T = TypeVar("T")


def deploy(
    *,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Network file with chains, RPC URLs, GMP contracts and owner. By default networks/NETWORK.json."
        ),
    ] = None,
    accept_single_verifier: Annotated[
        bool, typer.Option(help="Deploy although a GMP relies on a single verifier on some chain.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing, and print each transaction with its gas and cost.")
    ] = False,
) -> None:
    """Deploy the contracts of a network file to every chain, and write the deployments file.

    Idempotent: existing contracts are kept, and an interrupted run is resumed. The signer is the owner in the
    file, or an account that has since accepted ownership (`waybill role accept`). The file of a public network
    must specify owners and verifiers; `waybill network create` writes such a file.

    Example: waybill --network testnet deploy --dry-run
    """
    workspace = Workspace.current()
    network, safe = workspace.network, safe_address()
    path = plan or workspace.root / "networks" / f"{network}.json"
    described = NetworkPlan.read(path)
    if described.network != network:
        raise UsageError(f"{path} describes network {described.network!r}, not {network!r}")
    _warn_of_one_host(described)
    target = workspace.deployments_file
    if dry_run:
        previewing = preview(described, target, progress, accept_single_verifier=accept_single_verifier, safe=safe)
        _print_preview(_run(previewing, path))
        return
    if safe is not None:
        by_safe = deploy_by_safe(described, safe, target, progress, accept_single_verifier=accept_single_verifier)
        batches = _run(by_safe, path)
        if isinstance(batches, list):
            print_batches(batches, then="run the same command again")
            return
        done = batches
    else:
        account = signer(workspace)
        running = deploy_network(described, account, target, progress, accept_single_verifier=accept_single_verifier)
        done = _run(running, path)
    value = {
        "deployments": str(done.path),
        "changed": done.changed,
        "chains": {outcome.name: list(outcome.done) for outcome in done.outcomes},
    }
    lines = [f"{outcome.name}: {', '.join(outcome.done) or 'nothing to do'}" for outcome in done.outcomes]
    lines.append(f"{'written' if done.file_changed else 'unchanged'}: {done.path}")
    result(value, *lines)


def _warn_of_one_host(plan: NetworkPlan) -> None:
    for chain in plan.chains:
        count, agreement = independent(chain.endpoints), chain.agreement or 1
        is_whole = all("${" not in url for url in chain.endpoints)  # else the deployment is refused anyway
        if is_whole and count < agreement:
            progress(
                f"{agreement} independent endpoints of {chain.name} must agree, but the file names {count}: a lying endpoint"
                " would confirm itself"
            )


def _run(work: Coroutine[Any, Any, T], plan: Path) -> T:
    """Runs the work. Endpoint errors refer to the network file, since no deployments file exists yet."""
    try:
        return asyncio.run(work)
    except (TransientError, RpcError) as error:
        raise CliError(
            str(error),
            next_step=f"correct that chain's rpcUrls in {plan}, or the variables it names, and run the same command again",
        ) from error


def _print_preview(chains: Sequence[ChainPreview]) -> None:
    """Prints simulated transactions with their gas and cost."""
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
        [chain.name, one.transaction.name, one.transaction.to, f"{one.gas:,}", ether(chain.cost_of(one))]
        for chain in chains
        for one in chain.estimates
    ]
    rows += [[chain.name, "all", "", f"{chain.gas:,}", ether(chain.cost)] for chain in chains]
    result(value, table("Nothing was sent", ["chain", "transaction", "to", "gas", "cost"], rows))
