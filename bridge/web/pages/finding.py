"""Where a search leads, and the network's file for visitors' browsers."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from fastapi import Response
from starlette.responses import RedirectResponse

from bridge.web.cells import Section, Table, copyable, hexadecimal, message_link
from bridge.web.explorer import Explorer
from bridge.web.search import search


class FindingPages:
    """See the module."""

    def __init__(self, explorer: Explorer, action_ids: Callable[[], Collection[str]]) -> None:
        """Pages of an explorer; `action_ids` are the ids of the newest atomic actions."""
        self.explorer = explorer
        self.sources = explorer.sources
        self._action_ids = action_ids

    def found(self, typed: str) -> Response:
        """Where a search leads."""
        goal = search(self.sources, typed, self._action_ids)
        if goal.path:
            return RedirectResponse(goal.path, 303)
        if goal.several:
            rows = [[copyable(hexadecimal(one)), message_link(one)] for one in goal.several]
            table = Table(label="Messages", columns=("Id", "Message"), rows=rows)
            section = Section(title="Several messages in this transaction", table=table)
            return self.explorer.sections("Search", [section], typed=typed)
        return self.explorer.problem(404, goal.problem, typed=typed, title="Nothing found")

    def network_file(self) -> Response:
        """The deployments file as a visitor's browser may have it: with the public RPC URLs only."""
        document = json.loads(self.sources.deployment.to_json())
        for chain in document["chains"]:
            url = self.explorer.settings.public_rpc.get(chain["chainId"])
            # A file needs some URL; this one is reserved for names that never resolve.
            chain["rpcUrls"] = [url or "https://no-public-rpc.invalid"]
        return Response(json.dumps(document), media_type="application/json")
