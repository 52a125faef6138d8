"""The settings that have a structure of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Final, Self

from eth_utils.address import is_address, to_checksum_address
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from bridge.policies import RetryPolicy
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.records.lanes import Lane
from bridge.records.spending import SpendBounds

_ETHER = 10**18
_UNITS = {"wei": 1, "gwei": 10**9, "ether": _ETHER}


def _listed(value: Any) -> Any:
    """A comma-separated list, as the environment has it, or a sequence."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _gmps(value: Any) -> Any:
    return [Gmp.parse(item) if isinstance(item, str) else item for item in _listed(value)]


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError(f"{text!r} is not an address: 0x and 40 hex digits")
    return to_checksum_address(text)


def _wei(value: Any) -> Any:
    """An amount as a number of wei, or as text with its unit: ``"0.5 ether"``, ``"30 gwei"``."""
    if not isinstance(value, str) or value.strip().isdigit():
        return value
    number, _, unit = value.strip().partition(" ")
    if unit not in _UNITS:
        raise ValueError(f"{value!r} is no amount: a number of wei, or one with its unit, such as '0.5 ether'")
    whole, _, fraction = number.partition(".")
    decimals = len(str(_UNITS[unit])) - 1
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(fraction) > decimals:
        raise ValueError(f"{value!r} is no whole number of wei")
    return int(whole) * _UNITS[unit] + int(fraction.ljust(decimals, "0") or "0")


def _address_or_any(text: str) -> str:
    return text if text == ANY else _address(text)


ANY: Final = "any"
"""Stands for every sender."""

Address = Annotated[str, AfterValidator(_address)]
AddressesOrAny = Annotated[
    frozenset[Annotated[str, AfterValidator(_address_or_any)]], NoDecode, BeforeValidator(_listed)
]
Addresses = Annotated[frozenset[Address], NoDecode, BeforeValidator(_listed)]
Gmps = Annotated[frozenset[Gmp], NoDecode, BeforeValidator(_gmps)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_listed)]
Names = Annotated[frozenset[str], NoDecode, BeforeValidator(_listed)]
Wei = Annotated[int, BeforeValidator(_wei)]


class Section(BaseModel):
    """A table in the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PolicyOverride(Section):
    """What to change in one row of the policy table; times in seconds."""

    max_retries: int | None = Field(default=None, ge=0, description="tries after the first")
    base: float | None = Field(default=None, ge=0, description="the first wait; each one after it is twice as long")
    cap: float | None = Field(default=None, ge=0, description="the longest wait")
    jitter: float | None = Field(default=None, ge=0, lt=1, description="share by which a wait gets longer or shorter")
    dead_letter: bool | None = Field(default=None, description="whether running out of tries leaves a dead letter")

    def applied_to(self, policy: RetryPolicy) -> RetryPolicy:
        """The row with the changes."""
        return replace(policy, **self.model_dump(exclude_none=True))


class SignerSource(Section):
    """Where one key is: in a variable, in a keystore file, or with a remote signer. Exactly one of the three."""

    environment: str | None = Field(default=None, description="the variable that holds a private key")
    keystore: Path | None = Field(default=None, description="a version 3 keystore file")
    password_file: Path | None = Field(default=None, description="with the keystore's password")
    remote: str | None = Field(
        default=None, pattern=r"^https?://", description="a signer's JSON-RPC, such as Web3signer's"
    )
    address: Address | None = Field(default=None, description="the remote signer's account")
    chains: Names = Field(default=frozenset(), description="names of the chains it sends on; none is every chain")

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        named = [name for name in ("environment", "keystore", "remote") if getattr(self, name) is not None]
        if len(named) != 1:
            found = " and ".join(named) or "none"
            raise ValueError(f"a signer needs exactly one of environment, keystore and remote; found {found}")
        if self.keystore is not None and self.password_file is None:
            raise ValueError("a keystore needs password_file, the file that holds its password")
        if self.remote is not None and self.address is None:
            raise ValueError("a remote signer needs address, the account that it signs for")
        return self


class SpendLimit(Section):
    """What a lane, or its retries, may cost per day (UTC)."""

    source: str | None = Field(default=None, description="name of a chain; none is every one")
    destination: str | None = Field(default=None, description="the same")
    wei_per_day: Wei = Field(gt=0, description="what may be committed to")

    def fits(self, source: str, destination: str) -> bool:
        """Whether it is about that lane."""
        return self.source in (None, source) and self.destination in (None, destination)


def wei_by_lane(limits: Sequence[SpendLimit], deployment: Deployment) -> Mapping[tuple[int, int], int]:
    """Wei per day of each lane that has a limit, by its chains' ids; where several limits fit, the least counts."""
    found: dict[tuple[int, int], int] = {}
    for source, destination in permutations(deployment.chains, 2):
        fitting = [limit.wei_per_day for limit in limits if limit.fits(source.name, destination.name)]
        if fitting:
            found[source.chain_id, destination.chain_id] = min(fitting)
    return found


class SpendingTable(Section):
    """What transactions may cost on each chain, in its own currency, and how often executions may fail."""

    message: Wei = Field(default=_ETHER // 2, gt=0, description="wei that one message may cost on a chain, ever")
    sender_per_day: Wei = Field(
        default=2 * _ETHER, gt=0, description="wei that one sender's messages may cost on a chain per day (UTC)"
    )
    lane_per_day: Wei = Field(
        default=5 * _ETHER, gt=0, description="wei that a lane may cost on a chain per day; `spend_limits` names others"
    )
    chain_per_day: Wei = Field(default=10 * _ETHER, gt=0, description="wei that all may cost on a chain per day")
    message_failures: int = Field(
        default=5, gt=0, description="executions of one message that may fail in a transaction, ever"
    )
    sender_failures_per_day: int = Field(
        default=50, gt=0, description="executions of one sender's messages that may fail in a transaction per day"
    )

    def bounds(self, lanes: Mapping[tuple[int, int], int]) -> SpendBounds:
        """What the spending gate needs of these; `lanes` are the limits of some lanes, by source and destination."""
        return SpendBounds(
            message=self.message,
            sender=self.sender_per_day,
            lane=self.lane_per_day,
            lanes={Lane(*ends): wei for ends, wei in lanes.items()},
            chain=self.chain_per_day,
            message_failures=self.message_failures,
            sender_failures=self.sender_failures_per_day,
        )


class ChainSettings(Section):
    """One chain's endpoints, where they differ from the deployments file."""

    rpc_urls: tuple[str, ...] = Field(default=(), description="in place of the deployments file's")
    ws_url: str | None = Field(
        default=None, pattern=r"^wss?://", description="announces new blocks; polling goes on beside it"
    )
    agreement: int = Field(default=1, ge=1, description="endpoints that must say the same before anything counts")
    requests_per_second: float | None = Field(default=None, gt=0, description="to each endpoint; none is no limit")
    batch: int = Field(default=50, ge=1, description="requests that travel to an endpoint together at most")
    concurrency: int | None = Field(
        default=None, gt=0, description="requests that the index has under way at an endpoint; none is no limit"
    )
