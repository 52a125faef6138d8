"""The client over Web3 objects of the user's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from web3 import AsyncWeb3, Web3
from web3.providers import AsyncHTTPProvider, BaseProvider, HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from bridge.client import BlockingClient
from bridge.domain.ports import TransientError
from bridge.evm.own_web3 import Web3Exchange, own_web3
from bridge.protocol.deployment import DeploymentError
from bridge.rpc.answers import TransientRpcError
from tests.unit.web.explorer import deployment

HEAD = {"number": "0x10", "hash": "0x" + "11" * 32, "parentHash": "0x" + "22" * 32, "timestamp": "0x64"}


class Scripted(BaseProvider):
    """A provider that a dApp wrote itself: it answers from memory, and notes what it was asked."""

    def __init__(self, chain_id: int, *, down: bool = False) -> None:
        super().__init__()
        self.chain = chain_id
        self.down = down
        self.asked: list[str] = []

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        self.asked.append(str(method))
        if self.down:
            raise ConnectionError("nobody is there")
        answers: dict[str, Any] = {"eth_chainId": hex(self.chain), "eth_getBlockByNumber": HEAD}
        return {"jsonrpc": "2.0", "id": 1, "result": answers[method]}


CHAINS = [chain.chain_id for chain in deployment().chains]


@contextmanager
def node(chain_id: int, seen: list[str]) -> Iterator[str]:
    """A node that only answers requests with the header of the test's own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append(request["method"])
            answers: dict[str, Any] = {"eth_chainId": hex(chain_id), "eth_getBlockByNumber": HEAD}
            said = self.headers.get("x-key") == "secret"
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answers[request["method"]]}).encode()
            self.send_response(200 if said else 401)
            self.end_headers()
            self.wfile.write(body if said else b"no")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.finding("N7")
async def test_every_request_of_a_chain_goes_through_the_users_web3() -> None:
    providers = [Scripted(chain_id) for chain_id in CHAINS]
    async with own_web3(*map(Web3, providers))(deployment()) as chains:
        assert sorted(chains) == sorted(CHAINS)
        assert (await chains[CHAINS[0]].head()).number == 16
    assert "eth_getBlockByNumber" in providers[0].asked


@pytest.mark.finding("N7")
@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_a_providers_own_headers_are_sent(kind: str) -> None:
    seen: list[str] = []
    headers = {"headers": {"x-key": "secret", "content-type": "application/json"}}
    with node(CHAINS[0], seen) as url:
        web3: Any = (
            Web3(HTTPProvider(url, request_kwargs=headers))
            if kind == "blocking"
            else AsyncWeb3(AsyncHTTPProvider(url, request_kwargs=headers))
        )
        others = [Web3(Scripted(chain_id)) for chain_id in CHAINS[1:]]
        async with own_web3(web3, *others)(deployment()) as chains:
            assert (await chains[CHAINS[0]].head()).timestamp == 100
        if kind == "async":
            await web3.provider.disconnect()
    assert set(seen) == {"eth_chainId", "eth_getBlockByNumber"}


@pytest.mark.finding("N7")
async def test_a_web3_of_another_network_is_refused_and_one_that_is_down_is_transient() -> None:
    with pytest.raises(DeploymentError, match=r"a Web3 is of chain 999, which network .* does not have"):
        async with own_web3(Web3(Scripted(999)))(deployment()):
            pass
    with pytest.raises(TransientError, match="does not say which chain it is of: ConnectionError: nobody is there"):
        async with own_web3(Web3(Scripted(CHAINS[0], down=True)))(deployment()):
            pass
    with pytest.raises(TransientRpcError, match="ConnectionError: nobody is there"):
        await Web3Exchange(Web3(Scripted(CHAINS[0], down=True))).ask("eth_blockNumber", [])


@pytest.mark.finding("N7")
def test_a_blocking_client_takes_it_in_place_of_open_chains() -> None:
    web3s = [Web3(Scripted(chain_id)) for chain_id in CHAINS]
    with BlockingClient(deployment(), own_web3(*web3s)) as client:
        assert client is not None
