"""Alert channels: generic webhook, Slack, PagerDuty and e-mail. Each raises an error if a notice is not accepted."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from enum import StrEnum
from html import escape
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import orjson

from bridge.protocol.ports import TransientError

INTEGRITY: Final = "dlq-integrity"
"""Prefix of the keys of notices about a changed log."""

_LONGEST_SUMMARY: Final = 1024  # characters; PagerDuty's limit


class Severity(StrEnum):
    """The severity of a notice, in PagerDuty's terms."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An alert to send."""

    key: str  # the same for a repeated notice, so that the channel can deduplicate it
    severity: Severity
    summary: str  # one line
    details: Mapping[str, Any]  # JSON


class Channel(Protocol):
    """A way to alert people."""

    @property
    def name(self) -> str:
        """Returns the channel's name, which also identifies its cursor."""

    async def tell(self, notice: Notice) -> None:
        """Sends a notice.

        Raises:
            TransientError: The notice was not accepted.
        """


class Webhook:
    """POSTs the notice as JSON."""

    name = "webhook"

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url
        self._timeout = timeout

    async def tell(self, notice: Notice) -> None:
        """See `Channel.tell`."""
        await _post(self._url, self._document(notice), self._timeout)

    def _document(self, notice: Notice) -> dict[str, Any]:
        return {
            "key": notice.key,
            "severity": notice.severity.value,
            "summary": notice.summary,
            "details": dict(notice.details),
        }


class Slack(Webhook):
    """POSTs to a Slack incoming webhook.

    Untrusted text is shown as code, so that it can't be markup or a mention.
    """

    name = "slack"

    def _document(self, notice: Notice) -> dict[str, Any]:
        history = notice.details.get("failureHistory") or [{}]
        error = str(history[-1].get("errorMessage", ""))
        text = escape(f"{notice.severity.upper()}: {notice.summary}", quote=False)
        block = {"type": "section", "text": {"type": "plain_text", "text": text[:3000]}}
        quoted = {
            "type": "section",
            "text": {"type": "mrkdwn", "text": f"```{escape(error, quote=False).replace('`', chr(39))[:2900]}```"},
        }
        return {"text": text, "blocks": [block, quoted] if error else [block]}


class PagerDuty(Webhook):
    """Triggers an incident through PagerDuty's Events API, version 2. The notice's key deduplicates incidents."""

    name = "pagerduty"

    def __init__(self, url: str, routing_key: str, *, timeout: float) -> None:
        super().__init__(url, timeout=timeout)
        self._routing_key = routing_key

    def _document(self, notice: Notice) -> dict[str, Any]:
        return {
            "routing_key": self._routing_key,
            "event_action": "trigger",
            "dedup_key": notice.key[:255],
            "payload": {
                "summary": notice.summary[:_LONGEST_SUMMARY],
                "source": "waybill",
                "severity": notice.severity.value,
                "custom_details": dict(notice.details),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """A mail server with sender and recipients."""

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    starttls: bool = False
    user: str | None = None
    password: str | None = None

    @classmethod
    def parse(cls, url: str) -> Mailbox:
        """Parses a URL such as ``smtp+starttls://USER:PASSWORD@HOST:587/?from=A@B&to=C@D,E@F``.

        Raises:
            ValueError: the URL is invalid. The message does not quote the URL, since it may contain a password.
        """
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        senders, recipients = query.get("from", []), ",".join(query.get("to", [])).split(",")
        if parts.scheme not in ("smtp", "smtp+starttls") or not parts.hostname:
            raise ValueError(
                "the mail server URL must be smtp://HOST or smtp+starttls://HOST, followed by ?from=ADDRESS&to=ADDRESS"
            )
        if len(senders) != 1 or not all("@" in address for address in (*senders, *recipients)):
            raise ValueError("the mail server URL must end with ?from=ADDRESS&to=ADDRESS[,ADDRESS]")
        return cls(
            host=parts.hostname,
            port=parts.port or 25,
            sender=senders[0],
            recipients=tuple(recipients),
            starttls=parts.scheme == "smtp+starttls",
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
        )


class Email:
    """Sends notices by e-mail."""

    name = "email"

    def __init__(self, mailbox: Mailbox, *, timeout: float) -> None:
        self._mailbox = mailbox
        self._timeout = timeout

    async def tell(self, notice: Notice) -> None:
        """See `Channel.tell`."""
        try:
            await asyncio.to_thread(self._send, self._message(notice))
        except (OSError, smtplib.SMTPException) as error:
            raise TransientError(f"mail server {self._mailbox.host}:{self._mailbox.port}: {error}") from error

    def _message(self, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._mailbox.sender
        message["To"] = ", ".join(self._mailbox.recipients)
        message["Subject"] = " ".join(f"[waybill {notice.severity}] {notice.summary}".split())[:200]
        details = orjson.dumps(dict(notice.details), option=orjson.OPT_INDENT_2).decode()
        message.set_content(f"{notice.summary}\n\n{details}\n")
        return message

    def _send(self, message: EmailMessage) -> None:
        box = self._mailbox
        with smtplib.SMTP(box.host, box.port, timeout=self._timeout) as server:
            if box.starttls:
                server.starttls()
            if box.user is not None:
                server.login(box.user, box.password or "")
            server.send_message(message)


async def _post(url: str, document: dict[str, Any], timeout: float) -> None:  # noqa: ASYNC109  # httpx' own
    try:
        async with httpx.AsyncClient(timeout=timeout) as client:
            answer = await client.post(
                url, content=orjson.dumps(document), headers={"content-type": "application/json"}
            )
            answer.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise TransientError(
            f"the server returned HTTP status {error.response.status_code}"
        ) from error  # its URL may hold a secret
    except httpx.HTTPError as error:
        raise TransientError(f"the request failed: {type(error).__name__}") from error
