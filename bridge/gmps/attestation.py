"""What attesters on public networks are made of: the network, what an operator said, and documents over HTTP."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.request import getproxies

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Chain, Dispatch, TransientError, UnansweredError

_LONGEST: Final = 1 << 20  # bytes of an answer
_REMEMBERED: Final = 10_000  # transport ids


class AttestationError(Exception):
    """Nobody knows where a GMP's attestations are; the text says what to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSettings:
    """Where the GMPs' attestations are on a public network."""

    gmps: Mapping[Gmp, Any] = field(
        default_factory=dict
    )  # what an operator said, where the GMP's `SETTING` does not do
    is_testnet: bool = False  # whether the chains are public testnets, where some GMPs have other services


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSources:
    """What a GMP's `create_attester` is given."""

    deployment: Deployment
    chains: Mapping[int, Chain]  # by id, connected
    setting: Any  # what an operator said in ``[attestations]``, of the type in `SETTING`; None without one
    web: JsonDocuments


class JsonDocuments:
    """Asks public services, over connections that are kept. Close it in the event loop that used it."""

    def __init__(self, *, timeout: float) -> None:
        """Connects to nothing yet. `timeout` is in seconds."""
        self._timeout = ClientTimeout(total=timeout)
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def json(self, url: str) -> Any | None:
        """The document at a URL, or None if there is none yet.

        Raises:
            UnansweredError: no sensible answer.
        """
        if self._session is None:
            # With `trust_env`, aiohttp asks threads for each request's proxy and password: a quarter of a delivery's processor time.
            self._session = ClientSession(timeout=self._timeout, trust_env=bool(getproxies()))
        try:
            async with self._session.get(url, headers={"accept": "application/json"}, allow_redirects=False) as answer:
                # Public buckets that may not be listed say 403 of what is not there.
                if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                    return None
                return orjson.loads(await _content(answer))  # bounds how deep it goes, unlike the standard library's
        except (ClientError, TimeoutError, ValueError) as error:
            raise UnansweredError(
                f"{url} does not answer as it should: {str(error) or type(error).__name__}"
            ) from error


async def _content(answer: ClientResponse) -> bytes:
    if answer.status != HTTPStatus.OK:
        raise ValueError(f"status {answer.status}")
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes")
    return bytes(content)


class PublicHosts:
    """Services that each give the same attestation; asked in their order. One whose attestation did not do is asked last the next time.

    An attestation may be false in a way that only the destination's contracts see.
    """

    def __init__(self, hosts: Sequence[str], web: JsonDocuments) -> None:
        """`hosts` are URLs."""
        self._hosts = hosts
        self._web = web
        self._believed: OrderedDict[str, int] = OrderedDict()  # transport id: the host whose attestation was given out

    async def find(self, dispatch: Dispatch, path: str, read: Callable[[Any], bytes | None]) -> bytes | None:
        """The first attestation of a dispatch that a host gives, or None if no host has one yet.

        Args:
            dispatch: whose.
            path: where the hosts have it.
            read: the attestation in a document, or None of one that does not belong to the dispatch. It raises `AttestationPendingError` of
                a document that lacks signatures.

        Raises:
            UnansweredError: no host gives a sensible answer.
            TransientError: what hosts give does not belong to the dispatch.
            AttestationPendingError: hosts have documents that lack signatures.
        """
        problems, is_silent, pending = [], True, None
        first = self._believed.get(dispatch.transport_id, -1) + 1
        for number in (*range(first, len(self._hosts)), *range(min(first, len(self._hosts)))):
            url = f"{self._hosts[number].rstrip('/')}{path}"
            try:
                found = await self._web.json(url)
            except UnansweredError as error:
                problems.append(str(error))
                continue
            if found is None:
                continue
            try:
                attestation = read(found)
            except AttestationPendingError as error:
                pending = error
                continue
            if attestation is not None:
                self._believed[dispatch.transport_id] = number
                if len(self._believed) > _REMEMBERED:
                    self._believed.popitem(last=False)
                return attestation
            problems.append(f"{url} is no attestation of this message")
            is_silent = False
        if problems:
            raise UnansweredError("; ".join(problems)) if is_silent else TransientError("; ".join(problems))
        if pending is not None:
            raise pending
        return None
