"""A JSON-RPC endpoint that answers from memory, so that what is measured is who asks: `python -m bench.index.endpoint BLOCKS`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bench.index.history import SOURCE, blocks_of_logs


@contextmanager
def endpoint(blocks: int) -> Iterator[str]:
    """The URL of a chain with so many blocks of logs, all final, served by a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "bench.index.endpoint", str(blocks)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


class Endpoint(BaseHTTPRequestHandler):
    """Serves `blocks`."""

    blocks: list[bytes]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answers one request, or a batch."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answers = [self._answer(one) for one in request] if isinstance(request, list) else [self._answer(request)]
        body = b"[" + b",".join(answers) + b"]" if isinstance(request, list) else answers[0]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, request: dict[str, Any]) -> bytes:
        method, params = request["method"], request.get("params") or [{}]
        head = len(self.blocks) - 1
        if method == "eth_getLogs":
            result = self._logs(params[0])
        elif method in ("eth_chainId", "eth_blockNumber"):
            result = json.dumps(hex(SOURCE if method == "eth_chainId" else head)).encode()
        elif method == "eth_getBlockByNumber":
            number = int(params[0], 16) if params[0].startswith("0x") else head
            header = {"number": hex(number), "hash": f"0x{number:064x}", "parentHash": f"0x{max(0, number - 1):064x}"}
            result = json.dumps(header | {"timestamp": hex(number)}).encode()
        else:
            return json.dumps(
                {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": method}}
            ).encode()
        return b'{"jsonrpc":"2.0","id":' + json.dumps(request["id"]).encode() + b',"result":' + result + b"}"

    def _logs(self, query: dict[str, Any]) -> bytes:
        """All logs of a range; asked for some topics, which only registrations of adapters are, there are none."""
        if any(query.get("topics") or []):
            return b"[]"
        first, last = (int(query[name], 16) for name in ("fromBlock", "toBlock"))
        return b"[" + b",".join(self.blocks[first : last + 1]) + b"]"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the base class's name
        """Says nothing."""


def main() -> None:
    """Prints its port once it serves."""
    Endpoint.blocks = list(blocks_of_logs(int(sys.argv[1])))
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
