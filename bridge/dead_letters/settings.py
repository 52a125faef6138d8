"""An operator's settings for dead letters."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field, SecretStr, field_validator

from bridge.dead_letters.channels import Mailbox
from bridge.settings import Address, Addresses, Section, Wei

_DAY: Final = 86_400  # seconds


class AlertSettings(Section):
    """The alert channels. Each configured channel is notified of each dead letter."""

    enabled: bool = Field(default=True, description="whether alerts are sent")
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="URL that receives the complete notice as JSON"
    )
    slack: str | None = Field(
        default=None, pattern=r"^https?://", description="URL of an incoming webhook in Slack's format"
    )
    pagerduty: str = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        pattern=r"^https?://",
        description="URL of PagerDuty's Events API",
    )
    pagerduty_key: SecretStr | None = Field(
        default=None, description="routing key of the integration; if empty, PagerDuty is not notified"
    )
    email: SecretStr | None = Field(
        default=None,
        description="mail server, sender and recipients: smtp://USER:PASSWORD@HOST:PORT/?from=A@B&to=C@D,E@F; smtp+starttls:// encrypts",
    )

    TIMEOUT: ClassVar[float] = 10.0  # seconds until a channel counts as silent

    @field_validator("email")
    @classmethod
    def _is_a_mailbox(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            Mailbox.parse(url.get_secret_value())
        return url


class GovernanceSettings(Section):
    """The governance contract, which decides matters that operators may not."""

    chain: str = Field(description="chain of the governance contract, by name or id")
    address: Address = Field(description="the contract")
    wei_per_day: Wei = Field(
        default=10**17,
        ge=0,
        description="maximum cost per day (UTC) of the relayer's own messages to governance, on their source chain",
    )


class DeadLetterSettings(Section):
    """All settings for dead letters."""

    url: str | None = Field(
        default=None, description="SQLAlchemy URL of the dead letters' database; by default the relayer's store"
    )
    key: SecretStr | None = Field(
        default=None, description="key that seals the records; by default the relayer's key, or a signer's"
    )
    trusted_signers: Addresses = Field(
        default=frozenset[str](), description="accounts whose seals are valid, in addition to the current one"
    )
    retention_days: float = Field(
        default=30,
        gt=0,
        description="minimum number of days for which a letter's document is kept; its record is kept permanently",
    )
    tries: int = Field(default=3, gt=0, description="number of tries to write a letter before its lane halts")
    governance: GovernanceSettings | None = Field(
        default=None,
        description="chain and address of the recipient of escalations; wei_per_day, see below",
    )
    alerts: AlertSettings = Field(default=AlertSettings(), description="the alert channels")

    PAUSE: ClassVar[float] = 1.0  # seconds between tries, as in StreamForge's document
    BATCH: ClassVar[int] = 200  # letters per batch

    @property
    def retention(self) -> float:
        """Returns the minimum time in seconds for which a letter's document is kept."""
        return self.retention_days * _DAY
