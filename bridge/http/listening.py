"""Where a server listens: HOST:PORT as an operator writes it, and the socket there. Needs no package of a server."""

from __future__ import annotations

import errno
import socket
from typing import Final

CONNECTIONS: Final = 512
"""Open at once; those beyond are closed."""


class ListeningError(ValueError):
    """An address that can't be listened at."""


class AddressTakenError(ListeningError):
    """Another process listens there."""


def listening_at(address: str) -> socket.socket:
    """A socket at HOST:PORT; port 0 takes a free one.

    Raises:
        ListeningError: the address can't be meant, or is not this machine's.
        AddressTakenError: it is taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ListeningError(f"{address!r} is no address to listen at: HOST:PORT is needed, such as 127.0.0.1:8080")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY: without it an answer in two parts takes 40 ms more.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, int(port)))
    except OSError as error:
        opened.close()
        kind = AddressTakenError if error.errno == errno.EADDRINUSE else ListeningError
        raise kind(f"can't listen at {address}: {error.strerror or error}; name another --http") from error
    return opened


def url_of(listener: socket.socket) -> str:
    """The base URL that a socket is reached at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
