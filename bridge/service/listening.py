"""Binds server addresses. Imports no web framework, so that every command can report its errors."""

from __future__ import annotations

import socket


class ListeningError(ValueError):
    """An address is malformed or unavailable."""


def listening_at(address: str) -> socket.socket:
    """Binds a socket to HOST:PORT. Port 0 picks a free port.

    Raises:
        ListeningError: the address is malformed, in use, or not an address of this machine.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ListeningError(f"{address!r} must be HOST:PORT, such as 127.0.0.1:8080")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it, an answer in two parts takes 40 ms more.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, int(port)))
    except OSError as error:
        opened.close()
        raise ListeningError(f"can't listen at {address}: {error.strerror or error}; choose another --http") from error
    return opened


def url_of(listener: socket.socket) -> str:
    """Returns the base URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
