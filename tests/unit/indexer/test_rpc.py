"""The index's HTTP connections, against a real server: an answer is had whole, or not at all."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.rpc_answers import NoAccessError, TransientRpcError
from indexer.sources.transport import ChainRpc

POLICY = EndpointPolicy(try_seconds=0.0)  # tried a second time, and no more
LONG = "0x" + "ab" * 1_000_000


class Node(BaseHTTPRequestHandler):
    """Answers `eth_chainId` as it should, and every other method as its name says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = request["method"]
        result = "0x1" if method == "eth_chainId" else LONG
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        if method == "silent":
            self.close_connection = True
            return
        self.send_response(403 if method == "forbidden" else 200)
        if method == "zipped":
            body = gzip.compress(body)
            self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if method == "cut" else body)
        # Without a word about it, as servers do with connections that have been idle.
        self.close_connection = method in ("cut", "last")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the base class's name
        """Says nothing."""


@pytest.fixture
def rpc() -> Iterator[ChainRpc]:
    """A chain behind such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Node) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with ChainRpc(1, [f"http://127.0.0.1:{server.server_port}"], POLICY) as rpc:
            yield rpc
        server.shutdown()


@pytest.mark.parametrize("method", ["whole", "zipped"])
def test_a_long_answer_is_had_whole(rpc: ChainRpc, method: str) -> None:
    assert rpc.call(method) == LONG


@pytest.mark.parametrize("method", ["cut", "silent"])
def test_an_answer_that_ends_early_is_none(rpc: ChainRpc, method: str) -> None:
    with pytest.raises(TransientRpcError):
        rpc.call(method)


def test_a_connection_that_the_server_has_closed_is_made_anew(rpc: ChainRpc) -> None:
    assert rpc.call("last") == rpc.call("whole") == LONG


def test_a_server_that_wants_a_key_is_asked_no_more(rpc: ChainRpc) -> None:
    with pytest.raises(NoAccessError, match="requires an API key"):
        rpc.call("forbidden")


def test_nobody_there_is_no_answer() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with ChainRpc(1, [url], POLICY) as rpc, pytest.raises(TransientRpcError, match=r"[Cc]onnect"):
            rpc.call("whole")
