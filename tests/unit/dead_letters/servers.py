"""Servers that alerts go to: one for webhooks, one for mail, on this machine."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WebhookServer:
    """Keeps what is posted to it, and answers as it is told."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.answers: list[int] = []  # statuses of the next answers; 200 afterwards
        self.url = ""


@contextmanager
def webhook_server() -> Iterator[WebhookServer]:
    state = WebhookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = state.answers.pop(0) if state.answers else 200
            if status == 200:
                state.posted.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    with _serving(server):
        yield state


class MailServer:
    """Keeps the mails it is given."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.port = 0


@contextmanager
def mail_server() -> Iterator[MailServer]:
    state = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 here")
            for line in self.rfile:
                match line.decode().split()[:1]:
                    case ["DATA" | "data"]:
                        self.say("354 go on")
                        state.mails.append(self.mail())
                        self.say("250 kept")
                    case ["QUIT" | "quit"]:
                        self.say("221 bye")
                        return
                    case _:
                        self.say("250 well")

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def mail(self) -> str:
            lines = []
            for line in self.rfile:
                if line.rstrip() == b".":
                    break
                lines.append(line.decode())
            return "".join(lines)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    with _serving(server):
        yield state


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
