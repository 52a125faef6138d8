"""HTTP connections that hand over long answers in one piece."""

from __future__ import annotations

import ssl
from functools import cache
from typing import Final

import httpx
import urllib3

_CONNECTIONS: Final = 4  # to one endpoint, kept open


class PooledTransport(httpx.BaseTransport):
    """httpx's requests over urllib3's connections.

    Those of httpx give an answer in pieces of 64 KB, each of which it parses and copies more than once: for the logs of a
    long range of blocks that takes longer than to decode them takes (docs/decisions/0023).
    """

    def __init__(self) -> None:
        """Connects lazily."""
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS, ssl_context=_whom_httpx_trusts())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request, and reads its answer whole.

        Raises:
            httpx.TransportError: no answer, or half of one.
        """
        timeout = request.extensions["timeout"]
        try:
            response = self._pool.request(
                request.method,
                str(request.url),
                headers=dict(request.headers),
                body=request.read(),
                timeout=urllib3.Timeout(connect=timeout["connect"], read=timeout["read"]),
                retries=False,
                redirect=False,
                decode_content=False,
            )
        except urllib3.exceptions.NewConnectionError as error:  # to urllib3 a kind of timeout
            raise httpx.ConnectError(str(error)) from error
        except urllib3.exceptions.TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise httpx.NetworkError(str(error)) from error
        return httpx.Response(response.status, headers=list(response.headers.items()), content=response.data)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()


@cache
def _whom_httpx_trusts() -> ssl.SSLContext:
    """Reading all certificates takes 30 ms of each task of a backfill, in processes that are used again."""
    return httpx.create_ssl_context()
