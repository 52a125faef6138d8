"""The search, and the network's file for visitors' browsers."""

from __future__ import annotations

import json

from fastapi import Response
from starlette.responses import RedirectResponse

from bridge.web.cells import Section, Table, copyable, hexadecimal, message_link
from bridge.web.explorer import Explorer
from bridge.web.search import search


def found(explorer: Explorer, typed: str) -> Response:
    """Redirects to the search result, or lists the results if there are several."""
    goal = search(explorer.sources, typed)
    if goal.path:
        return RedirectResponse(goal.path, 303)
    if goal.several:
        rows = [[copyable(hexadecimal(one)), message_link(one)] for one in goal.several]
        table = Table(label="Messages", columns=("Id", "Message"), rows=rows)
        section = Section(title="Several messages in this transaction", table=table)
        return explorer.sections("Search", [section], typed=typed)
    return explorer.problem(404, goal.problem, typed=typed, title="Nothing found")


def network_file(explorer: Explorer) -> Response:
    """Returns the deployments file with the public RPC URLs only."""
    document = json.loads(explorer.sources.deployment.to_json())
    for chain in document["chains"]:
        url = explorer.settings.public_rpc.get(chain["chainId"])
        # The file requires a URL; the domain `.invalid` never resolves.
        chain["rpcUrls"] = [url or "https://no-public-rpc.invalid"]
    return Response(json.dumps(document), media_type="application/json")
