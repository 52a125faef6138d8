"""Settings of the relayer: from arguments, else from the environment (``WAYBILL_…``), else the defaults here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bridge.policies import DEFAULT_POLICIES, PolicyError, RetryPolicy, validated
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.recovery import RecoverySettings
from bridge.relay import RelaySettings
from bridge.sending import SendingSettings

_PREFIX = "WAYBILL_"


class SettingsError(ValueError):
    """Settings that can't be used; the text lists everything that is wrong with them."""


def _listed(value: Any) -> Any:
    """A comma-separated list, as the environment has it, or a sequence."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _gmps(value: Any) -> Any:
    return [Gmp.parse(item) if isinstance(item, str) else item for item in _listed(value)]


Gmps = Annotated[frozenset[Gmp], NoDecode, BeforeValidator(_gmps)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_listed)]


class PolicyOverride(BaseModel):
    """What to change in one row of the policy table; times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_retries: int | None = Field(default=None, ge=0)
    base: float | None = Field(default=None, ge=0)
    cap: float | None = Field(default=None, ge=0)

    def applied_to(self, policy: RetryPolicy) -> RetryPolicy:
        """The row with the changes."""
        return replace(policy, **self.model_dump(exclude_none=True))


class Settings(BaseSettings):
    """Everything that can be set. Times are in seconds, fees in wei."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid", frozen=True)

    relayer_key: SecretStr | None = Field(default=None, description="pays for deliveries; appointed, also for retries")
    retry_keys: Keys = Field(default=(), description="message senders, or retriers that they appointed")
    store: str = Field(default="sqlite:///bridge.db", description="the relayer's own store, as a SQLAlchemy URL")
    index_store: str | None = Field(default=None, description="the indexer's store, for its retry requests")

    gmps: Gmps = Field(default=frozenset(Gmp), description="GMPs to deliver over")
    paused_gmps: Gmps = Field(default=frozenset(), description="GMPs not to deliver over for now")

    poll: float = Field(default=1.0, gt=0, description="between two looks at a chain")
    lease: float = Field(default=15.0, gt=0, description="how long a dead relayer keeps others from its entries")
    in_flight: int = Field(default=64, gt=0, description="deliveries under way at once, per destination")
    block_range: int = Field(default=2_000, gt=0, description="blocks asked for at once when catching up")
    rebroadcast: float = Field(default=20.0, gt=0, description="until a transaction is sent again")
    replace: float = Field(default=60.0, gt=0, description="until a transaction offers a higher fee")
    inclusion: float = Field(default=180.0, gt=0, description="until a delivery without a block counts as failed")
    max_fee: int | None = Field(default=None, gt=0, description="wei per gas that no replacement exceeds")
    max_retry_fee: int | None = Field(default=None, gt=0, description="wei that one retry pays its GMPs at most")
    policies: dict[str, PolicyOverride] = Field(default={}, description="changes to the retry policies, by kind")

    @classmethod
    def load(cls, **arguments: Any) -> Self:
        """Settings from the environment, with arguments over it; an argument of None counts as not given.

        Raises:
            SettingsError: a name or a value can't be used.
        """
        try:
            settings = cls(**{name: value for name, value in arguments.items() if value is not None})
        except (ValidationError, ValueError) as error:
            raise SettingsError(_explain(error)) from None
        settings.retry_policies()
        return settings

    def retry_policies(self) -> Mapping[Kind, RetryPolicy]:
        """The table of policies with the changes applied.

        Raises:
            SettingsError: an unknown kind, or a table that contradicts itself.
        """
        table = dict(DEFAULT_POLICIES)
        for name, override in self.policies.items():
            kind = Kind.__members__.get(name.upper())
            if kind is None:
                known = ", ".join(member.lower() for member in Kind.__members__)
                raise SettingsError(f"policies: {name!r} is no kind of message; the kinds are {known}")
            table[kind] = override.applied_to(table[kind])
        try:
            return MappingProxyType(dict(validated(table)))
        except PolicyError as error:
            raise SettingsError(str(error)) from error

    def relay(self) -> RelaySettings:
        """What the relay needs of these."""
        return RelaySettings(
            gmps=self.gmps,
            paused=self.paused_gmps,
            poll=self.poll,
            lease=self.lease,
            in_flight=self.in_flight,
            block_range=self.block_range,
        )

    def sending(self) -> SendingSettings:
        """What sending needs of these."""
        return SendingSettings(
            poll=self.poll,
            rebroadcast=self.rebroadcast,
            replace=self.replace,
            inclusion=self.inclusion,
            max_fee=self.max_fee,
        )

    def recovery(self) -> RecoverySettings:
        """What recovery needs of these."""
        return RecoverySettings(poll=self.poll)


def _explain(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"settings: {error}"
    lines = []
    for item in error.errors(include_input=False, include_url=False):  # an input may be a key
        name = ".".join(map(str, item["loc"]))
        lines.append(f"  {name} ({_PREFIX}{name.split('.')[0].upper()}): {item['msg'].removeprefix('Value error, ')}")
    return "settings can't be used:\n" + "\n".join(lines)
