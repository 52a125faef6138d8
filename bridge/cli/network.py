"""`waybill network`: public chains, the GMPs between them, and the file that `waybill deploy` reads."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import CliError, UsageError, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.addresses import address_table, create_plan, defaults
from bridge.deploy.plan import NetworkPlan
from bridge.protocol.environment import unset_placeholders
from bridge.protocol.gmps import Gmp

app = typer.Typer(no_args_is_help=True, help="Public chains, the GMPs between them, and network files.")

_ALL = ",".join(gmp.label for gmp in Gmp)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The network's name: the file is networks/NAME.json.", metavar="NAME")],
    *,
    chains: Annotated[str, typer.Option(help="Chains, comma-separated; `waybill network list` has them.")],
    gmps: Annotated[str, typer.Option(help="GMPs to use where a chain has them.")] = _ALL,
    as_json: options.Json = False,
) -> None:
    """Write a network file with the GMPs' addresses, from the GMPs' own registries.

    What no registry has is a `${PLACEHOLDER}`: set that variable, or write a value in its place.

    Example: waybill network create testnet --chains sepolia,base-sepolia
    """
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise UsageError(f"{name!r} is no name of a network: it has other signs than a-z, 0-9 and -")
    wanted = frozenset(options.gmps(gmps))
    names = [one.strip() for one in chains.split(",") if one.strip()]
    document = create_plan(name, names, wanted)
    path = Workspace.of(name).root / "networks" / f"{name}.json"
    if path.exists():
        raise CliError(
            f"{path} is there already, and stays as it is", next_step="edit it, delete it, or take another name"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    registry = address_table()
    missing = [
        f"{gmp.label} on {chain}: {registry.registries[gmp.label]} does not have it"
        for chain in names
        for gmp in sorted(wanted)
        if gmp.label in registry.chain(chain).missing
    ]
    value = {
        "file": str(path),
        "unset": list(unset_placeholders(document)),
        "missing": missing,
        "defaults": list(defaults(document)),
    }
    titles = {"unset": "to be set", "missing": "left out", "defaults": "left to the GMPs' defaults"}
    lines = [f"written: {path}"]
    lines += [f"{titles[key]}:\n  " + "\n  ".join(value[key]) for key in titles if value[key]]
    lines.append(f"next: give the variables their values, then waybill deploy --network {name} --dry-run")
    result(value, as_json=as_json, render=lambda console: console.print("\n".join(lines), markup=False))


@app.command(name="list")
def list_chains(*, as_json: options.Json = False) -> None:
    """List the public chains that the table has, and the GMPs on each.

    Example: waybill network list
    """
    registry = address_table()
    value = {
        name: {"chainId": chain.chain_id, "testnet": chain.testnet, "gmps": list(chain.gmps)}
        for name, chain in registry.chains.items()
    }
    rows = [
        [name, str(chain.chain_id), "testnet" if chain.testnet else "mainnet", ", ".join(chain.gmps)]
        for name, chain in registry.chains.items()
    ]
    result(
        {"registries": registry.registries, "chains": value},
        as_json=as_json,
        render=lambda console: console.print(table(None, ["chain", "id", "kind", "GMPs"], rows)),
    )


@app.command()
def gmps(
    one: Annotated[str, typer.Argument(help="A chain.", metavar="A")],
    other: Annotated[str, typer.Argument(help="Another chain.", metavar="B")],
    *,
    as_json: options.Json = False,
) -> None:
    """Say which GMPs are on both of two chains, and which registry lacks one of them.

    A lane of CCIP's must be open besides: ask its router with isChainSupported.

    Example: waybill network gmps sepolia base-sepolia
    """
    registry = address_table()
    if registry.chain(one) is registry.chain(other):
        raise UsageError(f"both chains are {one}: a GMP connects two", next_step="waybill network list")
    if registry.chain(one).testnet != registry.chain(other).testnet:
        raise UsageError(f"{one} and {other} are a testnet and a mainnet: no GMP connects them")
    found = registry.gmps_between(one, other)
    rows = [[gmp.label, "no" if missing else "yes", missing or ""] for gmp, missing in found.items()]
    result(
        {gmp.label: missing is None for gmp, missing in found.items()},
        as_json=as_json,
        render=lambda console: console.print(table(None, ["GMP", "on both", "why not"], rows)),
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of network files, by which an editor completes and checks them.

    Example: waybill network schema
    """
    print(json.dumps(NetworkPlan.model_json_schema(by_alias=True), indent=2))
