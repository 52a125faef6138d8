"""Combines the settings of all components of a relayer, and defines the profiles."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, SecretStr

from bridge.atomic.follower import ActionSettings
from bridge.dead_letters.settings import DeadLetterSettings
from bridge.evm.settings import SIGNER_FORMS, EndpointSettings, SendingSettings, SignerSource
from bridge.gmps.settings import AttestationServices
from bridge.protocol.deployment import Deployment
from bridge.relayer.propagation import PropagationSettings
from bridge.relayer.retries import RecoverySettings
from bridge.relayer.settings import RELAY_CHECKS, RelaySettings
from bridge.settings import Check, Keys, LoadedSettings, OrderedNames, SettingsError
from bridge.streams.settings import KafkaSettings
from bridge.tripwire.settings import TripwireSettings

# `production`, `low-latency` and `high-throughput` are the three configurations that StreamForge recommends, value by value, with
# a matching pace of the relayer. They set the policy of plain messages only; OIP defines those of the other kinds.
_TRIES: Final = {"max_retries": 3, "base": 0.1, "cap": 30.0, "multiplier": 2.0, "jitter": 0.1, "dead_letter": True}
_DEAD_LETTERS: Final = {"tries": 3}

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "default": MappingProxyType({}),
        "production": MappingProxyType(
            {
                "commit": "batch",
                "commit_interval": 100,
                "commit_seconds": 5.0,
                "policies": {"plain": _TRIES},
                "dlq": _DEAD_LETTERS,
            }
        ),
        "low-latency": MappingProxyType(
            {
                "poll_interval": 0.2,
                "fee_bump_after": 24.0,
                "in_flight": 32,
                "commit": "message",
                "policies": {"plain": {**_TRIES, "max_retries": 5, "base": 0.01, "cap": 1.0}},
                "dlq": _DEAD_LETTERS,
            }
        ),
        "high-throughput": MappingProxyType(
            {
                "poll_interval": 2.0,
                "in_flight": 512,
                "lease": 30.0,
                "commit": "batch",
                "commit_interval": 1_000,
                "policies": {"plain": _TRIES},
                "dlq": _DEAD_LETTERS,
            }
        ),
    }
)


SELDOM: Final = 4
"""Number of chain polls per poll of open dead letters and of atomic actions."""


class KeySettings(LoadedSettings):
    """Settings for keys and stores."""

    profile: Literal["default", "production", "low-latency", "high-throughput"] = Field(
        default="default",
        description="name of a set of settings, which flags, environment variables and the file override",
    )
    relayer_key: SecretStr | None = Field(
        default=None,
        description="key that pays for deliveries, and for retries if a sender in `retry_for` appointed it",
    )
    retry_keys: Keys = Field(
        default=(), description="keys of message senders, or of retriers that the senders in `retry_for` appointed"
    )
    signers: OrderedNames = Field(
        default=(), description="names of further accounts in `accounts` that pay for deliveries"
    )
    accounts: Mapping[str, SignerSource] = Field(
        default={}, description=f"keys by name, for `signers`, the tripwire and `waybill --signer NAME`; {SIGNER_FORMS}"
    )
    store: str = Field(default="sqlite:///bridge.db", description="the relayer's own store, as a SQLAlchemy URL")
    index_store: str | None = Field(default=None, description="the index's store, as a SQLAlchemy URL")
    index_lake: str | None = Field(
        default=None, description="the index's lake: a folder, or s3://bucket/prefix?region=…&endpoint=…"
    )
    http: str | None = Field(
        default=None,
        pattern=r"^[^\s:]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$",
        description="HOST:PORT of the relayer's /metrics and /healthz",
    )
    api_token: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="bearer token of `waybill web`, for changes through its API and for dead letters; without a token both are rejected",
    )

    def account(self, name: str) -> SignerSource:
        """Returns the key source of an account.

        Raises:
            SettingsError: no account has that name.
        """
        if name not in self.accounts:
            raise SettingsError(f"account {name!r} is not in [accounts]: add the account there, or correct the name")
        return self.accounts[name]


class Settings(  # type: ignore[misc]  # the base classes' configurations agree: no unknown names, frozen
    RecoverySettings, SendingSettings, RelaySettings, EndpointSettings, KeySettings
):
    """All settings of a relayer. Times are in seconds, fees in wei."""

    PROFILES: ClassVar = PROFILES
    CHECKS: ClassVar[tuple[Check, ...]] = RELAY_CHECKS
    SECRET: ClassVar = frozenset(
        {
            "relayer_key",
            "retry_keys",
            "api_token",
            "accounts",
            "store",
            "index_store",
            "chains",
            "tripwire",
            "dlq",
            "kafka",
        }
    )

    sync: PropagationSettings = Field(default=PropagationSettings(), description="settings for following state changes")
    actions: ActionSettings = Field(
        default=ActionSettings(), description="which atomic actions are followed, and whether they are advanced"
    )
    tripwire: TripwireSettings = Field(
        default=TripwireSettings(),
        description="settings of the process that pauses a GMP that forges messages, see below",
    )
    dlq: DeadLetterSettings = Field(
        default=DeadLetterSettings(), description="location of the dead letters, and who is notified"
    )
    kafka: KafkaSettings = Field(default=KafkaSettings(), description="settings for publishing streams, see below")
    attestations: AttestationServices = Field(
        default=AttestationServices(), description="services that provide the GMPs' attestations on a public network"
    )

    def chain_names(self) -> dict[str, frozenset[str] | set[str]]:
        """Returns the chains that appear in the settings, by setting."""
        governance = self.dlq.governance
        return {
            "chains": set(self.chains),
            "allow_chains": self.allow_chains,
            "deny_chains": self.deny_chains,
            "accounts": {name for account in self.accounts.values() for name in account.chains},
            "spending": set(self.spending.data_fees),
            **self.attestations.chains(),
            "actions": set(self.actions.coordinators),
            "asset_classes": {name for one in self.asset_classes.values() for name in one.members},
            "dlq": {governance.chain} if governance is not None and not governance.chain.isdigit() else set(),
        }


def check_chains(settings: Settings, deployment: Deployment) -> None:
    """Checks that the settings mention only chains of the network, since misspelt names would be ignored.

    Raises:
        SettingsError: the settings mention other chains.
    """
    known = {chain.name for chain in deployment.chains}
    problems = [
        f"  {setting} ({settings.origin(setting.partition('.')[0])}): network {deployment.network!r} has no chain {name!r};"
        f" its chains are {', '.join(sorted(known))}"
        for setting, names in settings.chain_names().items()
        for name in sorted(names - known)
    ]
    if problems:
        raise SettingsError("invalid settings:\n" + "\n".join(problems))
