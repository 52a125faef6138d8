"""Settings of the tripwire."""

from __future__ import annotations

from typing import ClassVar, Final, Self

from pydantic import Field, SecretStr, model_validator

from bridge.evm.settings import SendingSettings
from bridge.protocol.gmps import Gmp
from bridge.settings import Gmps, Section

PAUSE: Final = 6 * 3600
"""Seconds for which a GMP is paused: the longest pause that the router grants a tripwire."""


class TripwireSettings(Section):
    """Settings of the tripwire, which pauses GMPs that forge messages. Times are in seconds."""

    key: SecretStr | None = Field(
        default=None, description="key that pauses GMPs; its account must be the routers' tripwire"
    )
    account: str | None = Field(default=None, description="name of an account in `accounts`, instead of key")
    max_clock_skew: float = Field(default=15.0, ge=0, description="maximum difference between two chains' clocks")
    early_gmps: Gmps = Field(
        default=frozenset[Gmp](),
        description="GMPs that may deliver before the source is final; for a missing message they are reported, not paused",
    )

    POLL_INTERVAL: ClassVar[float] = 0.5  # seconds between polls of the index
    FEE_BUMP_AFTER: ClassVar[float] = 4.0  # a forgery costs more than the fees of the transaction that stops it

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.key is not None and self.account is not None:
            raise ValueError("set either key or account for the tripwire, not both")
        return self

    def sending(self) -> SendingSettings:
        """Returns the settings for sending a pause.

        They have no fee limit, and pauses do not count towards the relayer's spending bounds.
        """
        return SendingSettings(poll_interval=self.POLL_INTERVAL, fee_bump_after=self.FEE_BUMP_AFTER, max_calls_per_tx=1)
