"""A JSON-RPC endpoint that answers from memory, so that what is measured is who asks: `python -m bench.index.endpoint BLOCKS`."""

from __future__ import annotations

import itertools
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

    logs: memoryview  # of all blocks, one after another, with a comma behind each
    ends: list[int]  # of each block's logs, comma included
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answers one request, or a batch."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        many = isinstance(request, list)
        parts: list[bytes | memoryview] = [b"[" if many else b""]
        for one in request if many else [request]:
            parts += [b"," if len(parts) > 1 else b"", *self._answer(one)]
        parts.append(b"]" if many else b"")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(sum(map(len, parts))))
        self.end_headers()
        # What is long goes from memory to the socket as it is: on two cores, whoever answers takes time from whoever asks.
        for part in parts:
            self.wfile.write(part)

    def _answer(self, request: dict[str, Any]) -> list[bytes | memoryview]:
        method, params, head = request["method"], request.get("params") or [{}], len(self.ends) - 1
        result: list[bytes | memoryview]
        if method == "eth_getLogs":
            result = [b"[", self._logs(params[0]), b"]"]
        elif method in ("eth_chainId", "eth_blockNumber"):
            result = [json.dumps(hex(SOURCE if method == "eth_chainId" else head)).encode()]
        elif method == "eth_getBlockByNumber":
            number = int(params[0], 16) if params[0].startswith("0x") else head
            header = {"number": hex(number), "hash": f"0x{number:064x}", "parentHash": f"0x{max(0, number - 1):064x}"}
            result = [json.dumps(header | {"timestamp": hex(number)}).encode()]
        else:
            error = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": method}}
            return [json.dumps(error).encode()]
        return [b'{"jsonrpc":"2.0","id":' + json.dumps(request["id"]).encode() + b',"result":', *result, b"}"]

    def _logs(self, query: dict[str, Any]) -> memoryview:
        """All logs of a range; asked for some topics, which only registrations of adapters are, there are none."""
        if any(query.get("topics") or []):
            return self.logs[:0]
        # A block's hash is its number.
        first, last = (int(query.get("blockHash") or query[name], 16) for name in ("fromBlock", "toBlock"))
        return self.logs[self.ends[first - 1] if first else 0 : self.ends[min(last, len(self.ends) - 1)] - 1]

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the base class's name
        """Says nothing."""


def main() -> None:
    """Prints its port once it serves."""
    blocks = [logs + b"," for logs in blocks_of_logs(int(sys.argv[1]))]
    Endpoint.ends = list(itertools.accumulate(map(len, blocks)))
    Endpoint.logs = memoryview(b"".join(blocks))
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
