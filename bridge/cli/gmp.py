"""`waybill gmp`: pause a GMP by hand, and end its pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.decider import Decider, print_batches, with_decider
from bridge.cli.output import CliError, ExitCode, UsageError, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.deploy.safe import Batch, make_batches, save
from bridge.deploy.transactions import DeployError, Transaction
from bridge.domain.ports import Call, CallRevertedError, Chain, TransientError, read_view
from bridge.evm.signing import Signer
from bridge.protocol.contracts import ROUTER, explain_revert
from bridge.protocol.deployment import ChainDeployment, DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.service.connections import connected
from bridge.tripwire.pauser import RefusedPauseError, send

app = typer.Typer(help="Pause a GMP by hand, and end its pause.", no_args_is_help=True)

_GAS = 600_000
_ROLES = "waybill trust LANE names the roles"

GmpName = Annotated[str, typer.Argument(help="The GMP, such as axelar.", metavar="GMP")]
Chains = Annotated[
    str | None,
    typer.Option(
        "--chains", help="Only on these chains, separated by commas; else on each that has it.", show_default=False
    ),
]


@app.command()
@with_decider
def pause(
    gmp: GmpName,
    *,
    chains: Chains = None,
    hours: Annotated[
        float, typer.Option("--for", help="Hours; the router allows 168 at most, and a tripwire 6.", min=0.01)
    ] = 6,
    decider: Decider,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Pause a GMP as guardian, tripwire or owner: nothing is sent or taken over it, and its receipts do not count.

    The GMP speaks again when the pause ends. Ends with 1 if a chain refused. The hours count from now, also for a Safe.

    Example: waybill gmp pause axelar --chains beta --for 6
    """

    def call(here: ChainDeployment, number: Gmp, time: int) -> Call:
        data = ROUTER.encode("pauseGmp", int(number), time + int(hours * 3600))
        return Call(to=here.router, data=data, gas=_GAS)

    _act("pause", gmp, chains, decider, call, workspace=Workspace.of(network, config), as_json=as_json)


@app.command()
@with_decider
def resume(
    gmp: GmpName,
    *,
    chains: Chains = None,
    decider: Decider,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """End a GMP's pause now, as guardian what guardian or tripwire began, or as owner.

    A GMP that lied lies again: revoke its adapter or raise the floors first.

    Example: waybill gmp resume axelar
    """

    def call(here: ChainDeployment, number: Gmp, _time: int) -> Call:
        return Call(to=here.router, data=ROUTER.encode("endGmpPause", int(number)), gas=_GAS)

    _act("resume", gmp, chains, decider, call, workspace=Workspace.of(network, config), as_json=as_json)


def _act(
    what: str,
    name: str,
    chains: str | None,
    decider: Decider,
    call: Callable[[ChainDeployment, Gmp, int], Call],
    *,
    workspace: Workspace,
    as_json: bool,
) -> None:
    """Makes the call on each chain, or writes it for a Safe. One that refuses does not keep the others waiting."""
    (gmp,) = options.gmps(name)
    deployment = workspace.deployment()
    try:
        named = [deployment.chain(one.strip()) for one in chains.split(",")] if chains else list(deployment.chains)
    except DeploymentError as error:
        raise UsageError(str(error)) from error
    wanted = [one for one in named if gmp in one.gmp_numbers]
    if not wanted:
        raise UsageError(f"{gmp.label} has no adapter on {', '.join(one.name for one in named)}")
    ids = {one.chain_id for one in wanted}
    if decider.safe is not None:
        safe, folder = decider.safe, workspace.deployments_file.with_suffix(f".{what}-{gmp.label}.safe")

        async def write() -> list[Batch]:
            batches = []
            async with connected(deployment, workspace.settings(), ids) as opened:
                for one in wanted:
                    chain = opened[one.chain_id]
                    made = call(one, gmp, (await chain.head()).timestamp)
                    transaction = Transaction(f"{what} {gmp.label}", made.to, made.data)
                    batches += await make_batches(one.name, [transaction], chain, safe, folder)
            save(batches, folder)
            return batches

        try:
            written = asyncio.run(write())
        except DeployError as error:
            raise CliError(str(error), code=ExitCode.FAILED, next_step=_ROLES) from error
        print_batches(written, then=f"{gmp.label} is {'paused' if what == 'pause' else 'resumed'}", as_json=as_json)
        return
    signer = decider.signer(workspace.network)

    async def work() -> list[dict[str, Any]]:
        async with connected(deployment, workspace.settings(), ids) as opened:
            return await asyncio.gather(*(_on(opened[one.chain_id], one, gmp, signer, call) for one in wanted))

    value = asyncio.run(work())
    rows = [[row["chain"], row["pausedUntil"] or "not paused", row["error"] or row["transaction"]] for row in value]
    columns = ["chain", "paused until (Unix seconds)", "transaction"]
    result(
        {"gmp": gmp.label, "chains": value},
        as_json=as_json,
        render=lambda console: console.print(table(None, columns, [[str(cell) for cell in row] for row in rows])),
    )
    if failed := [row["chain"] for row in value if row["error"]]:
        raise CliError(f"refused on {', '.join(failed)}", code=ExitCode.FAILED, next_step=_ROLES)


async def _on(
    chain: Chain, here: ChainDeployment, gmp: Gmp, signer: Signer, call: Callable[[ChainDeployment, Gmp, int], Call]
) -> dict[str, Any]:
    outcome: dict[str, Any] = {"chain": here.name, "pausedUntil": None, "transaction": None, "error": None}
    try:
        head = await chain.head()
        made = call(here, gmp, head.timestamp)
        await chain.call(made, sender=signer.address)
        _, transaction = await send(chain, signer, made, nonce=await chain.transaction_count(signer.address))
        until = await read_view(chain, ROUTER, here.router, "gmpPausedUntil", int(gmp))
        outcome |= {
            "transaction": f"0x{transaction.hex()}",
            "pausedUntil": until if until > (await chain.head()).timestamp else None,
        }
    except CallRevertedError as error:
        outcome["error"] = explain_revert(error.data)
    except (RefusedPauseError, TransientError) as error:
        outcome["error"] = str(error)
    return outcome
