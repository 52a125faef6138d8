"""`waybill quote`: the cheapest GMPs and quorum that a lane's history shows to be in time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from eth_account import Account
from rich.console import Console

from bridge.cli import options
from bridge.cli.open_stores import open_index
from bridge.cli.output import CliError, UsageError, progress, result, table
from bridge.cli.send import inbox_of, lane_of
from bridge.cli.workspace import DEVNET, Workspace
from bridge.client import Client, RefusedError, RouteRequest
from bridge.domain.gmp_choices import Choice, Goal, choices, hours_needed
from bridge.domain.spending import ether
from bridge.evm.routers import Demand, RouterReader
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.times import utc
from bridge.service.connections import connected

_MOST_MESSAGES: Final = 20_000  # the newest of a lane
_SHOWN: Final = 12
_OLD: Final = 600  # seconds of an index behind, from which on it is said
_TIME: Final = re.compile(r"(\d{1,6})(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}
_WHOLE: Final = 100  # percent


def quote(
    *,
    source: Annotated[str, typer.Option("--from", help="Source chain: its name or id.")] = "alpha",
    destination: Annotated[str, typer.Option("--to", help="Destination chain: its name or id.")] = "beta",
    within: Annotated[str, typer.Option(help="Time from the source's block to the quorum: 90s, 5m or 1h.")] = "5m",
    confidence: Annotated[float, typer.Option(help="Percent of messages that must make it.", min=50, max=99.9)] = 99.0,
    max_corrupt: Annotated[
        int,
        typer.Option(
            help="GMPs that may lie without a forged message executing. The recipient's policy must demand more.",
            min=0,
            max=4,
        ),
    ] = 0,
    recipient: Annotated[
        str | None, typer.Option(help="Contract that receives. The example inbox, if not given and there is one.")
    ] = None,
    payload_size: Annotated[int, typer.Option(help="Bytes of the payload to price.", min=0, max=32_768)] = 100,
    gas_limit: Annotated[
        int, typer.Option(help="Gas of the recipient's call to price.", min=1, max=30_000_000)
    ] = 200_000,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Name the cheapest GMPs and quorum whose history on a lane meets a goal. Exits with status 1 if none is shown to.

    Counts messages that the index has, and only those that were sent over all GMPs of a choice at once.

    Example: waybill quote --from alpha --to beta --within 5m --confidence 95
    """
    workspace = Workspace.of(network)
    deployment = workspace.deployment()
    lane = lane_of(deployment, source, destination)
    origin, target = lane
    goal = Goal(_seconds(within), confidence / _WHOLE, max_corrupt)
    receiver = recipient or inbox_of(target)
    to_bytes32(receiver)  # refuses what is no address
    with open_index(workspace) as index:
        seen = index.observations(origin.chain_id, target.chain_id, _MOST_MESSAGES)
        times = [one.block_time for one in index.chains() if one.chain_id in (origin.chain_id, target.chain_id)]
    now = min(times) if len(times) == len(lane) else 0
    if time.time() - now > _OLD:
        progress(
            f"the index has read {' and '.join(one.name for one in lane)} up to {utc(now)}: what came later is unknown"
        )
    fees, demand = asyncio.run(_prices(workspace, lane, receiver, bytes(payload_size), gas_limit))
    if demand.quorum <= max_corrupt:
        raise CliError(
            f"{demand.quorum} of {origin.name}'s GMPs that lie can forge a message to {receiver}, which demands no more receipts"
            " than that; what an honest sender asks for changes nothing",
            next_step=f"have the recipient call setPolicy with a quorum of {max_corrupt + 1}, or lower --max-corrupt",
        )
    compared = choices(seen, [int(gmp) for gmp in fees], goal, least_quorum=demand.quorum, now=now)
    if not compared:
        raise UsageError(
            f"{len(fees)} GMPs of {origin.name} → {target.name} count for {receiver}, which demands {demand.quorum} of them",
            next_step="connect another GMP: waybill network gmps",
        )
    compared.sort(key=lambda one: (not one.meets, _fee(one, fees), -one.kept))
    needed = hours_needed(goal, len(compared))
    cheapest = compared[0] if compared[0].meets else None
    value = {
        "lane": f"{origin.name} → {target.name}",
        "within": goal.within,
        "confidence": confidence,
        "maxCorrupt": max_corrupt,
        "recipient": receiver,
        "demanded": demand.quorum,
        "messages": len(seen),
        "hoursNeeded": needed,
        "choices": [_choice_value(one, fees) for one in compared],
        "cheapest": _choice_value(cheapest, fees) if cheapest else None,
    }
    result(value, as_json=as_json, render=lambda console: _draw(console, value))
    if cheapest is None:
        raise CliError(
            _why_none(compared, needed, within, confidence),
            next_step="ask for less: a longer --within or a lower --confidence; or send more over several GMPs at once",
        )
    names = ",".join(gmp.label for gmp in map(Gmp, cheapest.gmps))
    progress(
        f"next: waybill send --from {origin.name} --to {target.name} --payload … --gmps {names} --quorum {cheapest.quorum}"
    )


async def _prices(
    workspace: Workspace,
    lane: tuple[ChainDeployment, ChainDeployment],
    recipient: str,
    payload: bytes,
    gas_limit: int,
) -> tuple[dict[Gmp, int], Demand]:
    """What each GMP that counts for the recipient asks for now, in wei, without those that give no quote; and the demand."""
    (origin, target), deployment = lane, workspace.deployment()
    async with connected(deployment, workspace.settings(), [origin.chain_id, target.chain_id]) as chains:
        demand = await RouterReader(chains[target.chain_id], target.router).demand(recipient, origin.chain_id)
        client = Client(deployment, chains, Account.create())  # nothing is signed: a quote needs some sender
        fees = dict[Gmp, int]()
        for gmp in sorted(deployment.gmps_between(origin.chain_id, target.chain_id)):
            if demand.gmps is not None and gmp not in demand.gmps:
                continue
            request = RouteRequest(
                destination=target.chain_id, recipient=recipient, payload=payload, gmps=(gmp,), gas_limit=gas_limit
            )
            try:
                fees |= await client.quote_route(origin.chain_id, request)
            except RefusedError as error:
                progress(f"{gmp.label} is left out: {error}")
    return fees, demand


def _seconds(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise UsageError(f"--within {text!r} is no time: a number and s, m or h, such as 90s, 5m or 1h")
    return int(found[1]) * _SECONDS[found[2]]


def _fee(choice: Choice, fees: Mapping[Gmp, int]) -> int:
    return sum(fees[Gmp(gmp)] for gmp in choice.gmps)


def _choice_value(choice: Choice, fees: Mapping[Gmp, int]) -> dict[str, Any]:
    return {
        "gmps": [Gmp(gmp).label for gmp in choice.gmps],
        "quorum": choice.quorum,
        "fee": _fee(choice, fees),
        "messages": choice.messages,
        "inTime": choice.kept,
        "worthMessages": choice.sample,
        "isWorseLately": choice.is_worse_lately,
        "meets": choice.meets,
    }


def _why_none(compared: list[Choice], needed: int, within: str, confidence: float) -> str:
    if any(one.is_shown for one in compared):
        return "what met the goal until lately is worse within the last hour: no choice is shown to meet it now"
    most = max(one.sample for one in compared)
    if most < needed:
        return (
            f"too little is known: messages of {needed} hours over the same GMPs would have to arrive within {within}, and the most"
            f" that any choice has is worth {most} of them"
        )
    return f"no choice is shown to bring {confidence:g} % of messages to their quorum within {within}"


def _draw(console: Console, value: dict[str, Any]) -> None:
    rows = [
        [
            ", ".join(one["gmps"]),
            f"{one['quorum']} of {len(one['gmps'])}",
            ether(one["fee"]),
            f"{one['inTime']} of {one['messages']}",
            "yes" if one["meets"] else "no: worse within the last hour" if one["isWorseLately"] else "not shown",
        ]
        for one in value["choices"][:_SHOWN]
    ]
    console.print(table(None, ["over", "quorum", "fee", "in time", f"{value['confidence']:g} % in time"], rows))
    more = len(value["choices"]) - len(rows)
    if more > 0:
        console.print(f"and {more} more, with --json")
    console.print(
        f"{value['lane']}: {value['messages']} messages looked at; {value['recipient']} demands {value['demanded']}"
    )
