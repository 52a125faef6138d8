"""`waybill quote`: the cheapest GMPs and quorum that a lane's history shows to be quick and reliable enough."""

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
from bridge.cli.send import lane_of
from bridge.cli.workspace import DEVNET, Workspace
from bridge.client import Client, RefusedError, RouteRequest
from bridge.domain.ports import read_view
from bridge.domain.reliability import CERTAINTY, Choice, Goal, choices, messages_needed
from bridge.domain.spending import ether
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.service.connections import connected

_MOST_MESSAGES: Final = 20_000  # the newest of a lane
_SHOWN: Final = 12
_TIME: Final = re.compile(r"(\d+)(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}
_WHOLE: Final = 100  # percent


def quote(
    *,
    source: Annotated[str, typer.Option("--from", help="Source chain: its name or id.")] = "alpha",
    destination: Annotated[str, typer.Option("--to", help="Destination chain: its name or id.")] = "beta",
    within: Annotated[str, typer.Option(help="Time from the source's block to the quorum: 90s, 5m or 1h.")] = "5m",
    confidence: Annotated[
        float, typer.Option(help="Percent of messages that must make it.", min=50, max=99.999)
    ] = 99.0,
    max_corrupt: Annotated[
        int, typer.Option(help="GMPs that may lie without a forged message executing.", min=0, max=4)
    ] = 0,
    payload_size: Annotated[int, typer.Option(help="Bytes of the payload to price.", min=0)] = 100,
    gas_limit: Annotated[int, typer.Option(help="Gas of the recipient's call to price.", min=1)] = 200_000,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Name the cheapest GMPs and quorum whose history on a lane meets a goal. Ends with 1 if none is shown to.

    Counts messages that the index has, and only those that were sent over all GMPs of a choice at once.

    Example: waybill quote --from alpha --to beta --within 5m --confidence 99.9 --max-corrupt 1
    """
    workspace = Workspace.of(network)
    deployment = workspace.deployment()
    lane = lane_of(deployment, source, destination)
    origin, target = lane
    goal = Goal(_seconds(within), confidence / _WHOLE, max_corrupt)
    with open_index(workspace) as index:
        seen = index.observations(origin.chain_id, target.chain_id, _MOST_MESSAGES)
    fees, floor = asyncio.run(_prices(workspace, lane, bytes(payload_size), gas_limit))
    compared = choices(seen, [int(gmp) for gmp in fees], goal, least_quorum=floor, now=time.time())
    if not compared:
        raise UsageError(
            f"{origin.name} → {target.name} has {len(fees)} GMPs, and the goal needs {max(floor, max_corrupt + 1)}",
            next_step="lower --max-corrupt, or connect another GMP: waybill network gmps",
        )
    compared.sort(key=lambda one: (not one.meets, _fee(one, fees), -one.kept))
    needed = messages_needed(goal, len(compared))
    cheapest = compared[0] if compared[0].meets else None
    value = {
        "lane": f"{origin.name} → {target.name}",
        "within": goal.within,
        "confidence": confidence,
        "maxCorrupt": max_corrupt,
        "certainty": CERTAINTY,
        "messages": len(seen),
        "messagesNeeded": needed,
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
    named = "" if network == DEVNET else f" --network {network}"
    progress(
        f"next: waybill send --from {origin.name} --to {target.name} --payload … --gmps {names} --quorum {cheapest.quorum}{named}"
    )


async def _prices(
    workspace: Workspace, lane: tuple[ChainDeployment, ChainDeployment], payload: bytes, gas_limit: int
) -> tuple[dict[Gmp, int], int]:
    """What each GMP of a lane asks for now, in wei, without those that give no quote; and the destination's floor."""
    (origin, target), deployment = lane, workspace.deployment()
    usable = sorted(deployment.gmps_between(origin.chain_id, target.chain_id))
    async with connected(deployment, workspace.settings(), [origin.chain_id, target.chain_id]) as chains:
        client = Client(deployment, chains, Account.create())  # nothing is signed: a quote needs some sender
        fees = dict[Gmp, int]()
        for gmp in usable:
            request = RouteRequest(
                destination=target.chain_id, recipient=target.router, payload=payload, gmps=(gmp,), gas_limit=gas_limit
            )
            try:
                fees |= await client.quote_route(origin.chain_id, request)
            except RefusedError as error:
                progress(f"{gmp.label} is left out: {error}")
        floor = await read_view(chains[target.chain_id], ROUTER, target.router, "floorOf", origin.chain_id)
    return fees, floor


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
        "lastHour": {"messages": choice.recent, "inTime": choice.recent_kept},
        "isWorseLately": choice.is_worse_lately,
        "meets": choice.meets,
    }


def _why_none(compared: list[Choice], needed: int, within: str, confidence: float) -> str:
    worse = [one for one in compared if one.is_shown]
    if worse:
        names = ", ".join(Gmp(gmp).label for gmp in worse[0].gmps)
        return f"{names} met the goal until an hour ago, and misses it now: no choice is shown to meet it"
    most = max(one.messages for one in compared)
    if most < needed:
        return (
            f"too little is known: at least {needed} messages sent over the same GMPs would have to arrive within {within}, and"
            f" the most that any choice has is {most}"
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
        f"{value['lane']}: {value['messages']} messages looked at; what is shown holds with"
        f" {value['certainty'] * _WHOLE:g} % certainty, as long as the lane stays as it was"
    )
