"""A target of webhooks: a real HTTP server that notes what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from bridge.domain.webhooks import WebhookFilter
from bridge.streams.settings import WebhookTarget

SECRET = bytes(range(32))


@dataclass
class Receiver:
    """Notes each POST, and answers as it is told to."""

    port: int
    answer: Callable[[dict[str, Any]], int]
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def target(self, name: str = "first", **wanted: Any) -> WebhookTarget:
        return WebhookTarget(name=name, url=self.url, secrets=(SECRET,), wanted=WebhookFilter(**wanted))

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [orjson.loads(body) for _, body in self.requests]


@contextmanager
def receiver(answer: Callable[[dict[str, Any]], int] = lambda _: 204) -> Iterator[Receiver]:
    """Serves on a free port. A redirect that it answers leads to itself."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.answer(orjson.loads(body)))
            self.send_header("location", made.url)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Receiver(server.server_port, answer)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield made
        server.shutdown()
