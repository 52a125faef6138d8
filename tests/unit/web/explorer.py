"""An explorer over a small simulated network, for tests that need no browser."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import Index
from bridge.protocol.message import Message
from bridge.store import Store as BridgeStore
from bridge.store import open_store
from bridge.web import ExplorerSettings, Sources, create_app
from indexer.model.settings import StallPolicy
from indexer.store.browser import IndexBrowser
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import START, SimulatedChain, apply, new_world

RPC = {ALPHA: "https://rpc.example/alpha", BETA: "https://rpc.example/beta"}
"""What visitors' browsers may use."""

_CONTRACT = "0x00000000000000000000000000000000000000A1"


def patient(**given: Any) -> ExplorerSettings:
    """Settings of an explorer that waits for every figure, so that no page depends on how fast the machine is."""
    return ExplorerSettings(**{"patience": 60.0, "open_letters": True} | given)


def deployment(network: str = "devnet") -> Deployment:
    """Two chains with all GMPs whose contracts are easily described."""
    chains = [
        {
            "chainId": chain_id,
            "name": name,
            "rpcUrls": [f"https://secret:key@rpc.{name}.example/{name}-key"],
            "startBlock": 0,
            "confirmations": 1,
            "router": _CONTRACT,
            "adapters": {"wormhole": _CONTRACT, "hyperlane": _CONTRACT},
            "gmps": {
                "wormhole": {"chainId": 10_000 + chain_id % 10, "core": _CONTRACT},
                "hyperlane": {"domain": chain_id, "mailbox": _CONTRACT, "merkleTreeHook": _CONTRACT},
            },
            "examples": {},
        }
        for name, chain_id in (("alpha", ALPHA), ("beta", BETA))
    ]
    return Deployment.model_validate({"version": 1, "network": network, "chains": chains})


def page(message: Message) -> str:
    """The path of a message's page."""
    return f"/message/0x{message.id.hex()}"


@dataclass(frozen=True)
class Client:
    """Asks an application without a server between."""

    app: FastAPI

    def get(self, path: str, params: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Response:
        """What it answers; redirects are not followed."""
        return asyncio.run(self.ask("GET", path, params=params, headers=headers))

    def post(
        self, path: str, headers: dict[str, str] | None = None, json: Any = None, content: bytes | None = None
    ) -> Response:
        """What it answers."""
        return asyncio.run(self.ask("POST", path, headers=headers, json=json, content=content))

    async def ask(self, method: str, path: str, **arguments: Any) -> Response:
        transport = ASGITransport(self.app, raise_app_exceptions=False)
        headers = {"accept": "text/html"}
        async with AsyncClient(transport=transport, base_url="http://explorer", headers=headers) as client:
            return await client.request(method, path, **arguments)


@dataclass
class World:
    """Two chains, an index of them, and a relayer's store."""

    home: Path
    now: float = START
    chains: tuple[SimulatedChain, SimulatedChain] = field(default_factory=new_world)

    def __post_init__(self) -> None:
        self.url = f"sqlite:///{self.home / 'index.db'}"
        self.store = Store(self.url)
        self.relayer: BridgeStore = open_store(f"sqlite:///{self.home / 'bridge.db'}")
        self._index: Index | None = None

    @property
    def alpha(self) -> SimulatedChain:
        return self.chains[0]

    @property
    def beta(self) -> SimulatedChain:
        return self.chains[1]

    def index(self) -> None:
        """Reads what the chains have."""
        for chain in self.chains:
            apply(self.store, chain)

    def _opened(self) -> Index:
        if self._index is None:
            self._index = IndexBrowser(self.url, StallPolicy(stall_after=100, max_lag=30), clock=lambda: self.now)
        return self._index

    def explorer(self, settings: ExplorerSettings | None = None, **sources: Any) -> Client:
        """A client of an explorer of this world; see `sources`."""
        return Client(create_app(self.sources(**sources), settings or patient()))

    def sources(self, *, network: str = "devnet", has_stores: bool = True, **given: Any) -> Sources:
        """What an explorer of this world reads; `given` are further fields of `Sources`."""
        return Sources(
            deployment=deployment(network),
            index=lambda: self._opened() if has_stores else None,
            store=lambda: self.relayer if has_stores else None,
            clock=lambda: self.now,
            **given,
        )


def text_of(body: str) -> str:
    """What a page says, without its tags."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))
