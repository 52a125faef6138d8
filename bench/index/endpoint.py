"""A JSON-RPC endpoint with in-memory answers, so that a benchmark measures its client: `python -m bench.index.endpoint BLOCKS`."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from bench.index.history import (
    MESSAGES_OF_A_BLOCK,
    POSITIONS_OF_A_MESSAGE,
    ROUTER,
    SOURCE,
    blocks_of_logs,
    id_of_message,
)

WHOLE: Final = "/whole"
"""Behind the URL, for whoever wants headers with blooms, transactions, and logs of some topics. The others' answers stay short."""
_TOPIC_BEGINS: Final = len(f'{{"address":"0x{ROUTER.hex()}","topics":["')
_TOPIC: Final = slice(_TOPIC_BEGINS, _TOPIC_BEGINS + len("0x") + 64)
_PLACE: Final = re.compile(rb'"transactionIndex":"0x0","logIndex":"0x([0-9a-f]+)"')


@contextmanager
def endpoint(blocks: int) -> Iterator[str]:
    """Yields the URL of a chain with `blocks` final blocks of logs, served by a separate process."""
    command = [sys.executable, "-m", "bench.index.endpoint", str(blocks)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
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
        """Answers a request or a batch."""
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
            more = _rest_of_block(number) if self.path == WHOLE else {}
            result = [json.dumps(header | {"timestamp": hex(number)} | more).encode()]
        else:
            error = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": method}}
            return [json.dumps(error).encode()]
        return [b'{"jsonrpc":"2.0","id":' + json.dumps(request["id"]).encode() + b',"result":', *result, b"}"]

    def _logs(self, query: dict[str, Any]) -> bytes | memoryview:
        """Returns all logs of a range, or none for requests by topic, which only ask for registrations of adapters."""
        topics = query.get("topics") or []
        if any(topics) and self.path != WHOLE:
            return self.logs[:0]
        # A block's hash is its number.
        first, last = (int(query.get("blockHash") or query[name], 16) for name in ("fromBlock", "toBlock"))
        found = self.logs[self.ends[first - 1] if first else 0 : max(0, self.ends[min(last, len(self.ends) - 1)] - 1)]
        return _logs_of_topics(found, topics) if any(topics) else found

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the base class's name
        """Suppresses the log."""


def _rest_of_block(number: int) -> dict[str, Any]:
    """Returns the header fields that Ponder needs: an empty bloom, and a transaction per message."""
    place = {"blockNumber": hex(number), "blockHash": f"0x{number:064x}", "from": "0x" + "44" * 20}
    first = number * MESSAGES_OF_A_BLOCK
    transactions = [
        {"hash": f"0x{id_of_message(first + index)}", "transactionIndex": hex(index)} | place
        for index in range(MESSAGES_OF_A_BLOCK)
    ]
    return {"logsBloom": "0x" + "0" * 512, "receiptsRoot": "0x" + "0" * 64, "transactions": transactions}


def _logs_of_topics(logs: memoryview, topics: list[str | list[str] | None]) -> bytes:
    """Returns logs by first topic; each message's logs have their own transaction in the block, as Ponder requires."""

    def in_own_transaction(place: re.Match[bytes]) -> bytes:
        index = int(place[1], 16) // POSITIONS_OF_A_MESSAGE
        return b'"transactionIndex":"%#x","logIndex":"0x%b"' % (index, place[1])

    first, *others = topics
    if any(others):
        raise ValueError(f"only first topics are chosen by, not {topics}")
    wanted = {topic.encode() for topic in ([first] if isinstance(first, str) else first or [])}
    chosen = b",".join(log for log in re.split(rb",(?=\{)", bytes(logs)) if log[_TOPIC] in wanted)
    return _PLACE.sub(in_own_transaction, chosen)


def main() -> None:
    """Serves, after printing the port."""
    found = blocks_of_logs(int(sys.argv[1]))
    blocks = [logs + b"," if logs else b"" for logs in found]
    Endpoint.ends = list(itertools.accumulate(map(len, blocks)))
    Endpoint.logs = memoryview(b"".join(blocks))
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
