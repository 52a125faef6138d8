"""`waybill gmp`: pauses, resumes and revokes a GMP on the routers, and sets floors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from eth_utils.address import to_checksum_address

from bridge.cli import options
from bridge.cli.decider import Chains, carry_out, named_chains
from bridge.cli.output import UsageError
from bridge.cli.workspace import Workspace
from bridge.deploy.transactions import Transaction
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import read_view
from bridge.protocol.times import iso

app = typer.Typer(help="Pause, resume and revoke a GMP on the routers, and set floors.", no_args_is_help=True)

GmpName = Annotated[str, typer.Argument(help="The GMP, such as axelar.", metavar="GMP")]


@app.command()
def pause(
    gmp: GmpName,
    *,
    chains: Chains = None,
    hours: Annotated[
        float, typer.Option("--for", help="Hours; the router allows up to 168, and 6 to a tripwire.", min=0.01)
    ] = 6,
) -> None:
    """Pause a GMP, as guardian, tripwire or owner.

    While the GMP is paused, the router neither sends nor receives over it, and ignores its receipts.

    The pause expires --for hours from now, however long a Safe's owners take to execute it. Exits with status 1
    if a chain rejects the call.

    Example: waybill gmp pause axelar --chains beta --for 6
    """

    def call(number: Gmp, time: int) -> bytes:
        return ROUTER.encode("pauseGmp", int(number), time + int(hours * 3600))

    _change_pause("pause", gmp, chains, call, then="is paused")


@app.command()
def resume(
    gmp: GmpName,
    *,
    chains: Chains = None,
) -> None:
    """End a GMP's pause now.

    The guardian can end a pause set by the guardian or the tripwire; the owner can end any pause.

    If the GMP delivered forged messages, first revoke its adapter or raise the floors.

    Example: waybill gmp resume axelar
    """

    def call(number: Gmp, _time: int) -> bytes:
        return ROUTER.encode("endGmpPause", int(number))

    _change_pause("resume", gmp, chains, call, then="is resumed")


@app.command()
def revoke(
    gmp: GmpName,
    *,
    chains: Chains = None,
) -> None:
    """Revoke the adapter of a GMP that is no longer trusted, as revoker or owner.

    The adapter's receipts become void, and the router accepts no more messages from it.

    Messages that it has delivered then need receipts from other GMPs. Exits with status 1 if a chain rejects the call.

    Example: waybill gmp revoke axelar --chains beta
    """
    workspace = Workspace.current()
    number, wanted = _gmp_on(workspace, gmp, chains)

    async def present(here: ChainDeployment, chain: EvmChain) -> str | None:
        adapter = str(await read_view(chain, ROUTER, here.router, "adapterOf", int(number)))
        return to_checksum_address(adapter) if int(adapter, 16) else None

    async def steps(here: ChainDeployment, chain: EvmChain, _account: str) -> list[Transaction]:
        if await present(here, chain) is None:
            return []
        call = ROUTER.encode("revokeAdapter", int(number))
        return [Transaction(f"adapter of {number.label} revoked", here.router, call)]

    async def after(here: ChainDeployment, chain: EvmChain) -> dict[str, Any]:
        return {"adapter": await present(here, chain)}

    then = f"receipts of {number.label} are void"
    carry_out(workspace, wanted, f"revoke {number.label}", steps, then=then, after=after)


@app.command()
def floor(
    source: Annotated[str, typer.Argument(help="The lane's source: its name or id.", metavar="SOURCE")],
    destination: Annotated[
        str, typer.Argument(help="The lane's destination, whose router sets the floor.", metavar="DESTINATION")
    ],
    gmps: Annotated[
        int, typer.Argument(help="Minimum number of GMPs that must deliver.", min=1, max=16, metavar="GMPS")
    ],
) -> None:
    """Set a lane's floor: the minimum quorum for recipients without a policy.

    The revoker can raise the floor; the owner can also lower it.

    Applies immediately, including to messages in flight. Exits with status 1 if the chain rejects the call.

    Example: waybill gmp floor alpha beta 2
    """
    workspace = Workspace.current()
    origin, target = options.lane(workspace.deployment(), source, destination)

    async def present(here: ChainDeployment, chain: EvmChain) -> int:
        return int(await read_view(chain, ROUTER, here.router, "floorOf", origin.chain_id))

    async def steps(here: ChainDeployment, chain: EvmChain, _account: str) -> list[Transaction]:
        if await present(here, chain) == gmps:
            return []
        return [Transaction(f"floor {gmps}", here.router, ROUTER.encode("setFloor", origin.chain_id, gmps))]

    async def after(here: ChainDeployment, chain: EvmChain) -> dict[str, Any]:
        return {"floor": await present(here, chain)}

    then = f"{target.name} requires {gmps} GMPs for messages from {origin.name}"
    name = f"floor {origin.name} {target.name}"
    carry_out(workspace, [target], name, steps, then=then, after=after)


def _gmp_on(workspace: Workspace, named: str, chains: str | None) -> tuple[Gmp, list[ChainDeployment]]:
    """Returns the GMP, and those of the given chains that support it.

    Raises:
        UsageError: none of the given chains has an adapter for the GMP.
    """
    (gmp,), all_named = options.gmps(named), named_chains(workspace.deployment(), chains)
    wanted = [one for one in all_named if gmp in one.gmp_numbers]
    if not wanted:
        raise UsageError(f"{gmp.label} has no adapter on {', '.join(one.name for one in all_named)}")
    return gmp, wanted


def _change_pause(what: str, named: str, chains: str | None, call: Callable[[Gmp, int], bytes], *, then: str) -> None:
    """Pauses or resumes a GMP on the routers. `call` takes the GMP and the chain's time in Unix seconds."""
    workspace = Workspace.current()
    gmp, wanted = _gmp_on(workspace, named, chains)

    async def steps(here: ChainDeployment, chain: EvmChain, _account: str) -> list[Transaction]:
        return [Transaction(f"{what} {gmp.label}", here.router, call(gmp, (await chain.head()).timestamp))]

    async def after(here: ChainDeployment, chain: EvmChain) -> dict[str, Any]:
        until = await read_view(chain, ROUTER, here.router, "gmpPausedUntil", int(gmp))
        return {"pausedUntil": iso(until) if until > (await chain.head()).timestamp else None}

    then = f"{gmp.label} {then}"
    carry_out(workspace, wanted, f"{what} {gmp.label}", steps, then=then, after=after)
