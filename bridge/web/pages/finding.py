"""Where a search leads, and the network's file for visitors' browsers."""

from __future__ import annotations

import json

from fastapi import Response
from starlette.responses import RedirectResponse

from bridge.web.cells import Section, Table, copyable, hexadecimal, message_link
from bridge.web.explorer import Explorer
from bridge.web.pages.actions import ids
from bridge.web.search import search


def found(explorer: Explorer, typed: str) -> Response:
    """Where a search leads."""
    goal = search(explorer.sources, typed, lambda: ids(explorer))
    if goal.path:
        return RedirectResponse(goal.path, 303)
    if goal.several:
        rows = [[copyable(hexadecimal(one)), message_link(one)] for one in goal.several]
        table = Table(label="Messages", columns=("Id", "Message"), rows=rows)
        section = Section(title="Several messages in this transaction", table=table)
        return explorer.sections("Search", [section], typed=typed)
    return explorer.problem(404, goal.problem, typed=typed, title="Nothing found")


def network_file(explorer: Explorer) -> Response:
    """The deployments file as a visitor's browser may have it: with the public RPC URLs only."""
    document = json.loads(explorer.sources.deployment.to_json())
    for chain in document["chains"]:
        url = explorer.settings.public_rpc.get(chain["chainId"])
        # A file needs some URL; this one is reserved for names that never resolve.
        chain["rpcUrls"] = [url or "https://no-public-rpc.invalid"]
    return Response(json.dumps(document), media_type="application/json")
