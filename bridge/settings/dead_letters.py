"""Settings of dead letters: where they are kept, who vouches for them, and who is told."""

from __future__ import annotations

from pydantic import Field, SecretStr

from bridge.dlq import DeadLetterSettings
from bridge.settings.sections import Address, Addresses, Section

_DAY = 86_400  # seconds


class EmailSettings(Section):
    """A mail server, and whom to write to."""

    host: str = Field(description="the mail server")
    port: int = Field(default=25, gt=0, lt=65_536, description="of the mail server")
    sender: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", description="address that the mails come from")
    recipients: tuple[str, ...] = Field(min_length=1, description="addresses that they go to")
    starttls: bool = Field(default=False, description="whether to encrypt with STARTTLS")
    user: str | None = Field(default=None, description="to log in as")
    password: SecretStr | None = Field(default=None, description="of that user")


class AlertSettings(Section):
    """Who is told of dead letters. Each channel that is named is told of each one."""

    enabled: bool = Field(default=True, description="whether anybody is told")
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="URL that gets the whole notice as JSON"
    )
    slack: str | None = Field(default=None, pattern=r"^https?://", description="an incoming webhook in Slack's format")
    pagerduty: str = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        pattern=r"^https?://",
        description="where PagerDuty takes events",
    )
    pagerduty_key: SecretStr | None = Field(
        default=None, description="the integration's routing key; none: PagerDuty is not told"
    )
    email: EmailSettings | None = Field(default=None, description="see below; none: no mails")
    timeout: float = Field(default=10.0, gt=0, description="until a channel counts as silent")


class OnChain(Section):
    """A contract on a chain of the network."""

    chain: str  # name or id
    address: Address


class DeadLetterTable(Section):
    """Everything about dead letters that can be set. Times are in seconds."""

    url: str | None = Field(
        default=None, description="where they are kept, as a SQLAlchemy URL; none: in the relayer's store"
    )
    key: SecretStr | None = Field(default=None, description="seals the records; none: the relayer's, or a signer's")
    trusted_signers: Addresses = Field(
        default=frozenset(), description="accounts whose seals count, beside the present one's"
    )
    retention_days: float = Field(
        default=30, gt=0, description="days for which a letter's document is kept at least; its record stays"
    )
    tries: int = Field(default=3, gt=0, description="to write a letter, before its lane halts")
    pause: float = Field(default=1.0, ge=0, description="between two such tries")
    poll: float = Field(default=5.0, gt=0, description="between two looks at what became of open letters")
    parameters: OnChain | None = Field(
        default=None,
        description="chain and address of the contract with thresholds and operators; none: the deployments file's",
    )
    governance: OnChain | None = Field(
        default=None, description="chain and address of who gets escalations, as a recipient of messages"
    )
    alerts: AlertSettings = Field(default=AlertSettings(), description="who is told")

    def office(self) -> DeadLetterSettings:
        """What the office needs of these."""
        return DeadLetterSettings(
            retention=self.retention_days * _DAY, tries=self.tries, pause=self.pause, poll=self.poll
        )
