"""What attesters on public networks are made of: the network, what an operator said, and documents over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import orjson

from bridge.domain.ports import Chain, UnansweredError
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp

_LONGEST: Final = 1 << 20  # bytes of an answer


class AttestationError(Exception):
    """Nobody knows where a GMP's proofs are; the text says what to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSettings:
    """Where the GMPs' proofs are on a public network."""

    gmps: Mapping[Gmp, Any] = field(
        default_factory=dict
    )  # what an operator said, where the GMP's `SETTING` does not do
    timeout: float = 10.0  # seconds until a service that does not answer is given up


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSources:
    """What a GMP's `create_attester` is given."""

    deployment: Deployment
    chains: Mapping[int, Chain]  # by id, connected
    setting: Any  # what an operator said in ``[attestations]``, of the type in `SETTING`; None without one
    web: JsonDocuments


class JsonDocuments:
    """Asks public services."""

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
                return orjson.loads(await _limited(answer))  # bounds how deep it goes, unlike the standard library's
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
