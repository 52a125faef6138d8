"""`waybill abi`: the contracts' interfaces."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.output import UsageError, result
from bridge.protocol.events import abi_names, load_abi


def abi(
    name: Annotated[str | None, typer.Argument(help="Which contract; without one, print their names.")] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Print the ABI of one of Waybill's contracts as JSON. `Errors` holds every error of Waybill and of the GMPs.

    Example: waybill abi Router
    """
    names = abi_names()
    if name is None:
        result(names, as_json=as_json, render=lambda console: console.print("\n".join(names)))
        return
    known = {known.lower(): known for known in names}
    if name.lower() not in known:
        raise UsageError(f"there is no ABI {name!r}; there are {', '.join(names)}")
    result(load_abi(known[name.lower()]), as_json=True, render=lambda _: None)
