"""Shared parts of the attesters for public networks: their arguments, and an HTTP client for JSON."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.request import getproxies

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import AttestationPendingError, Chain, Dispatch, TransientError, UnansweredError

_MAX_RESPONSE_SIZE: Final = 1 << 20  # bytes
_MAX_TRACKED_DISPATCHES: Final = 10_000


class AttestationError(Exception):
    """A GMP has no configured source of attestations. The message states the missing setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSources:
    """The arguments of a GMP's `create_attester`."""

    deployment: Deployment
    chains: Mapping[int, Chain]  # connected, by chain id
    setting: (
        Any  # the GMP's value in ``[attestations]``, of the type that `SETTING` declares; None if it has no setting
    )
    web: JsonDocuments


class JsonDocuments:
    """Fetches JSON documents from public services over pooled connections. Close it in the event loop that used it."""

    def __init__(self, *, timeout: float) -> None:
        """Creates a client. Each request times out after `timeout` seconds. The first request opens the session."""
        self._timeout = ClientTimeout(total=timeout)
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def json(self, url: str) -> Any | None:
        """Returns the document at a URL, or None if the service does not have it yet.

        Raises:
            UnansweredError: the request timed out, or the service returned an error or invalid JSON.
        """
        if self._session is None:
            # `trust_env` makes aiohttp look up proxy and credentials in a thread for each request, a quarter of a
            # delivery's CPU time.
            self._session = ClientSession(timeout=self._timeout, trust_env=bool(getproxies()))
        try:
            async with self._session.get(
                url, headers={"accept": "application/json"}, allow_redirects=False
            ) as response:
                # Public buckets without list permission return 403 for missing objects.
                if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                    return None
                return orjson.loads(await _content(response))  # limits nesting, unlike the standard library's parser
        except (ClientError, TimeoutError, ValueError) as error:
            raise UnansweredError(f"request to {url} failed: {str(error) or type(error).__name__}") from error


async def _content(response: ClientResponse) -> bytes:
    if response.status != HTTPStatus.OK:
        raise ValueError(f"HTTP status {response.status}")
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > _MAX_RESPONSE_SIZE:
            raise ValueError(f"response exceeds {_MAX_RESPONSE_SIZE} bytes")
    return bytes(content)


class PublicHosts:
    """Services that publish the same attestations, tried in order.

    An attestation may be invalid in a way that only the destination's contracts detect. So when a dispatch is
    attested again, the search starts after the host that supplied its last attestation.
    """

    def __init__(self, hosts: Sequence[str], web: JsonDocuments) -> None:
        """Creates the list of services from the base URLs in `hosts`."""
        self._hosts = hosts
        self._web = web
        self._last_host: OrderedDict[str, int] = (
            OrderedDict()
        )  # transport id: index of the host that supplied its attestation

    async def find(self, dispatch: Dispatch, path: str, read: Callable[[Any], bytes | None]) -> bytes | None:
        """Returns the first attestation of a dispatch that a host supplies, or None if no host has one yet.

        Args:
            dispatch: Dispatch to attest.
            path: Path of the document on each host.
            read: Extracts the attestation from a document. Returns None if the document belongs to a different
                message, and raises `AttestationPendingError` if signatures are missing.

        Raises:
            UnansweredError: a request failed, and no other host has an attestation.
            TransientError: a host's document belongs to a different message, and no other host has an attestation.
            AttestationPendingError: no request failed, but the documents lack signatures.
        """
        problems, is_silent, pending = [], True, None
        first = self._last_host.get(dispatch.transport_id, -1) + 1
        for index in (*range(first, len(self._hosts)), *range(min(first, len(self._hosts)))):
            url = f"{self._hosts[index].rstrip('/')}{path}"
            try:
                document = await self._web.json(url)
            except UnansweredError as error:
                problems.append(str(error))
                continue
            if document is None:
                continue
            try:
                attestation = read(document)
            except AttestationPendingError as error:
                pending = error
                continue
            if attestation is not None:
                self._last_host[dispatch.transport_id] = index
                if len(self._last_host) > _MAX_TRACKED_DISPATCHES:
                    self._last_host.popitem(last=False)
                return attestation
            problems.append(f"{url} does not attest this message")
            is_silent = False
        if problems:
            raise UnansweredError("; ".join(problems)) if is_silent else TransientError("; ".join(problems))
        if pending is not None:
            raise pending
        return None
