"""Settings of dead letters: where they are kept, who vouches for them, and who is told."""

from __future__ import annotations

from pydantic import Field, SecretStr

from bridge.dlq import DeadLetterSettings
from bridge.settings.sections import Address, Addresses, Section

_DAY = 86_400  # seconds


class EmailSettings(Section):
    """A mail server, and whom to write to."""

    host: str
    port: int = Field(default=25, gt=0, lt=65_536)
    sender: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    recipients: tuple[str, ...] = Field(min_length=1)
    starttls: bool = False
    user: str | None = None
    password: SecretStr | None = None


class AlertSettings(Section):
    """Who is told of dead letters. Each channel that is named is told of each one."""

    enabled: bool = True
    webhook: str | None = Field(default=None, pattern=r"^https?://")  # gets the whole notice as JSON
    slack: str | None = Field(default=None, pattern=r"^https?://")  # an incoming webhook in Slack's format
    pagerduty: str = Field(default="https://events.pagerduty.com/v2/enqueue", pattern=r"^https?://")
    pagerduty_key: SecretStr | None = None  # the integration's routing key; none: PagerDuty is not told
    email: EmailSettings | None = None
    timeout: float = Field(default=10.0, gt=0)  # seconds


class OnChain(Section):
    """A contract on a chain of the network."""

    chain: str  # name or id
    address: Address


class DeadLetterTable(Section):
    """Everything about dead letters that can be set. Times are in seconds."""

    url: str | None = None  # where they are kept, as a SQLAlchemy URL; none: in the relayer's store
    key: SecretStr | None = None  # seals the records; none: the relayer's, or a signer's
    trusted_signers: Addresses = frozenset()  # accounts whose seals count, beside the present one's
    retention_days: float = Field(default=30, gt=0)
    tries: int = Field(default=3, gt=0)
    pause: float = Field(default=1.0, ge=0)
    poll: float = Field(default=5.0, gt=0)
    parameters: OnChain | None = None  # the contract with thresholds and operators; none: the deployments file's
    governance: OnChain | None = None  # who gets escalations, as a recipient of messages
    alerts: AlertSettings = AlertSettings()

    def office(self) -> DeadLetterSettings:
        """What the office needs of these."""
        return DeadLetterSettings(
            retention=self.retention_days * _DAY, tries=self.tries, pause=self.pause, poll=self.poll
        )
