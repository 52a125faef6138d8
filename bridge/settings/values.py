"""The base class for tables of settings, and types of values.

The types are lists, amounts in wei, addresses, GMPs, kinds and lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

from bridge.protocol.addresses import checksummed
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane

_UNITS = {"wei": 1, "gwei": 10**9, "ether": 10**18}

ANY: Final = "any"
"""Stands for every sender."""

_TEXTS: Final = list[str] | str
"""Accepted forms of a list: a TOML list, or comma-separated text, as in an environment variable."""


class Section(BaseModel):
    """Base class for tables of settings, from which components derive their own tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _listed(value: Any) -> Any:
    """Parses a comma-separated list from the environment. Returns sequences unchanged."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _gmps(value: Any) -> Any:
    return [Gmp.parse(item) if isinstance(item, str) else item for item in _listed(value)]


def _wei(value: Any) -> Any:
    """Parses an amount: a number of wei, or text with a unit such as ``"0.5 ether"`` or ``"30 gwei"``."""
    if not isinstance(value, str) or value.strip().isdigit():
        return value
    number, _, unit = value.strip().partition(" ")
    if unit not in _UNITS:
        raise ValueError(
            f"{value!r} is not an amount: give a number of wei, or a number with a unit, such as '0.5 ether'"
        )
    whole, _, fraction = number.partition(".")
    decimals = len(str(_UNITS[unit])) - 1
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(fraction) > decimals:
        raise ValueError(f"{value!r} is not a whole number of wei")
    return int(whole) * _UNITS[unit] + int(fraction.ljust(decimals, "0") or "0")


def _address_or_any(text: str) -> str:
    return text if text == ANY else checksummed(text)


Address = Annotated[str, AfterValidator(checksummed)]
AddressesOrAny = Annotated[
    frozenset[Annotated[str, AfterValidator(_address_or_any)]],
    NoDecode,
    BeforeValidator(_listed, json_schema_input_type=_TEXTS),
]
Addresses = Annotated[frozenset[Address], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Gmps = Annotated[frozenset[Gmp], NoDecode, BeforeValidator(_gmps, json_schema_input_type=_TEXTS)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
OrderedNames = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Names = Annotated[frozenset[str], NoDecode, BeforeValidator(_listed, json_schema_input_type=_TEXTS)]
Wei = Annotated[int, BeforeValidator(_wei, json_schema_input_type=int | str)]


class LaneRule(Section):
    """A rule that applies to some lanes."""

    source: str | None = Field(default=None, description="name of a chain; every chain by default")
    destination: str | None = Field(default=None, description="name of a chain; every chain by default")

    @property
    def chain_names(self) -> frozenset[str]:
        """Returns the names of the chains in the rule."""
        return frozenset(name for name in (self.source, self.destination) if name is not None)

    def lanes(self, deployment: Deployment) -> Iterator[Lane]:
        """Yields the lanes of a network to which the rule applies."""
        for source, destination in permutations(deployment.chains, 2):
            if self.source in (None, source.name) and self.destination in (None, destination.name):
                yield Lane(source.chain_id, destination.chain_id)
