"""`waybill network create`: writes the network file that `waybill deploy` reads."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import CliError, UsageError, result, table
from bridge.cli.workspace import Workspace
from bridge.deploy.addresses import address_table, create_plan, defaults
from bridge.protocol.environment import unset_placeholders
from bridge.protocol.gmps import Gmp

app = typer.Typer(no_args_is_help=True, help="Write the network file for public chains.")

_ALL = ",".join(gmp.label for gmp in Gmp)


@app.command()
def create(
    name: Annotated[
        str | None,
        typer.Argument(help="The network's name: the file is networks/NAME.json.", metavar="NAME", show_default=False),
    ] = None,
    *,
    chains: Annotated[str | None, typer.Option(help="Public chains, separated by commas.", show_default=False)] = None,
    gmps: Annotated[str, typer.Option(help="GMPs to use where a chain has them.")] = _ALL,
) -> None:
    """Write a network file with addresses from the GMPs' own registries.

    Without --chains, lists the public chains in the registries, with their GMPs. Values that no registry
    contains become `${PLACEHOLDER}`s in the file: set these environment variables, or replace the placeholders.

    Example: waybill network create testnet --chains sepolia,base-sepolia
    """
    if chains is None:
        _list_chains()
        return
    if name is None:
        raise UsageError("a network name is required", next_step=f"waybill network create NAME --chains {chains}")
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise UsageError(f"{name!r} is not a network name: use only a-z, 0-9 and -")
    wanted = frozenset(options.gmps(gmps))
    names = [one.strip() for one in chains.split(",") if one.strip()]
    document = create_plan(name, names, wanted)
    path = Workspace.current(name).root / "networks" / f"{name}.json"
    if path.exists():
        raise CliError(
            f"{path} already exists and was not changed", next_step="edit it, delete it, or choose another name"
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
    titles = {"unset": "variables to set", "missing": "left out", "defaults": "left to the GMPs' defaults"}
    lines = [f"written: {path}"]
    lines += [f"{titles[key]}:\n  " + "\n  ".join(value[key]) for key in titles if value[key]]
    lines.append(f"next: set the variables, then waybill --network {name} deploy --dry-run")
    result(value, *lines)


def _list_chains() -> None:
    registry = address_table()
    value = {
        name: {"chainId": chain.chain_id, "testnet": chain.testnet, "gmps": list(chain.gmps)}
        for name, chain in registry.chains.items()
    }
    rows = [
        [name, str(chain.chain_id), "testnet" if chain.testnet else "mainnet", ", ".join(chain.gmps)]
        for name, chain in registry.chains.items()
    ]
    shown = table(None, ["chain", "id", "kind", "GMPs"], rows)
    result({"registries": registry.registries, "chains": value}, shown)
