"""Asks public services over HTTP."""

from __future__ import annotations

from typing import Any, Final

import httpx

from bridge.domain.ports import UnansweredError

_LONGEST: Final = 1 << 20  # bytes of an answer


class Web:
    """Reads JSON documents."""

    def __init__(self, *, timeout: float) -> None:
        """`timeout` is in seconds."""
        self._timeout = timeout
        self._certificates = httpx.create_ssl_context()  # takes longer to read than an answer to come

    async def json(self, url: str) -> Any | None:
        """The document at a URL, or None if there is none yet.

        Raises:
            UnansweredError: no sensible answer.
        """
        try:
            async with (
                httpx.AsyncClient(timeout=self._timeout, verify=self._certificates) as client,
                client.stream("GET", url, headers={"accept": "application/json"}) as answer,
            ):
                # Public buckets that may not be listed say 403 of what is not there.
                if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.FORBIDDEN):
                    return None
                answer.raise_for_status()
                return httpx.Response(200, content=await _limited(answer)).json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise UnansweredError(
                f"{url} does not answer as it should: {str(error) or type(error).__name__}"
            ) from error


async def _limited(answer: httpx.Response) -> bytes:
    content = b""
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes")
    return content
