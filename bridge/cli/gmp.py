"""`waybill gmp`: pause a GMP by hand, and end its pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from bridge.cli import options
from bridge.cli.decider import Chains, Decider, carry_out, named_chains, refuse_failed, with_decider
from bridge.cli.output import UsageError, result, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.deploy.transactions import Transaction
from bridge.domain.ports import read_view
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp

app = typer.Typer(help="Pause a GMP by hand, and end its pause.", no_args_is_help=True)

GmpName = Annotated[str, typer.Argument(help="The GMP, such as axelar.", metavar="GMP")]


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

    def call(number: Gmp, time: int) -> bytes:
        return ROUTER.encode("pauseGmp", int(number), time + int(hours * 3600))

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

    def call(number: Gmp, _time: int) -> bytes:
        return ROUTER.encode("endGmpPause", int(number))

    _act("resume", gmp, chains, decider, call, workspace=Workspace.of(network, config), as_json=as_json)


def _act(
    what: str,
    name: str,
    chains: str | None,
    decider: Decider,
    call: Callable[[Gmp, int], bytes],
    *,
    workspace: Workspace,
    as_json: bool,
) -> None:
    (gmp,) = options.gmps(name)
    named = named_chains(workspace.deployment(), chains)
    wanted = [one for one in named if gmp in one.gmp_numbers]
    if not wanted:
        raise UsageError(f"{gmp.label} has no adapter on {', '.join(one.name for one in named)}")

    async def steps(here: ChainDeployment, chain: EvmChain, _account: str) -> list[Transaction]:
        return [Transaction(f"{what} {gmp.label}", here.router, call(gmp, (await chain.head()).timestamp))]

    async def after(here: ChainDeployment, chain: EvmChain) -> dict[str, Any]:
        until = await read_view(chain, ROUTER, here.router, "gmpPausedUntil", int(gmp))
        return {"pausedUntil": until if until > (await chain.head()).timestamp else None}

    then = f"{gmp.label} is {'paused' if what == 'pause' else 'resumed'}"
    done = carry_out(workspace, decider, wanted, f"{what} {gmp.label}", steps, then=then, after=after, as_json=as_json)
    if done is None:
        return
    value = [
        {
            "chain": row["chain"],
            "pausedUntil": row.get("pausedUntil"),
            "transaction": row["transactions"].get(f"{what} {gmp.label}"),
            "error": row["error"],
        }
        for row in done
    ]
    rows = [[row["chain"], row["pausedUntil"] or "not paused", row["error"] or row["transaction"]] for row in value]
    columns = ["chain", "paused until (Unix seconds)", "transaction"]
    result(
        {"gmp": gmp.label, "chains": value},
        as_json=as_json,
        render=lambda console: console.print(table(None, columns, [[str(cell) for cell in row] for row in rows])),
    )
    refuse_failed(value)
