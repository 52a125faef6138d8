"""The deployments file: the addresses of all contracts on each chain of a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from bridge.protocol.addresses import ADAPTER_NUMBERS, checksummed, created_adapter, to_bytes32
from bridge.protocol.environment import expanded, unset_placeholders
from bridge.protocol.file_problems import file_problems
from bridge.protocol.gmps import Gmp, UnknownGmpError


class DeploymentError(ValueError):
    """The deployments file is invalid. The message lists every problem."""


class NoSuchChainError(DeploymentError):
    """The network has no chain with the given name or id."""


FinalityTag = Literal["safe", "finalized"]
"""Block tags of the execution API that promise finality."""


COORDINATOR_EXAMPLE: Final = "coordinator"
"""The name of the example coordinator of atomic actions in `examples`."""

PARTICIPANT_EXAMPLE: Final = "assets"
"""The name of the example participant in `examples`."""


def _checksummed(address: str) -> str:
    found = checksummed(address)
    if int(found, 16) == 0:
        raise ValueError(f"{address!r} is the zero address")
    return found


Address = Annotated[str, AfterValidator(_checksummed)]


def refuse_repeated_chains(chains: Sequence[BaseModel]) -> None:
    """Checks that the chains of a file have distinct ids and names.

    Raises:
        ValueError: two chains share an id or a name.
    """
    for attribute in ("chain_id", "name"):
        values = [getattr(chain, attribute) for chain in chains]
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"{attribute} {', '.join(twice)} is used by more than one chain")


def known_gmps(names: Iterable[str]) -> None:
    """Checks that each name is a GMP's name, spelled as in files.

    Raises:
        UnknownGmpError: no GMP has that name.
    """
    for name in names:
        if Gmp.parse(name).label != name:
            raise UnknownGmpError(f"GMP {name!r} must be written {Gmp.parse(name).label!r}")


class FileSection(BaseModel):
    """A section of a file with keys in camel case. Unknown keys are rejected."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


GmpSection = dict[str, int | str]
"""The settings of one GMP on one chain; the GMP's own package validates them."""


class ChainDeployment(FileSection):
    """One chain: its endpoints, and Waybill's contracts on it."""

    chain_id: int = Field(gt=0)
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    rpc_urls: tuple[str, ...] = Field(min_length=1)
    start_block: int = Field(ge=0)
    confirmations: int = Field(ge=0)  # blocks on top of an event before the relayer acts on it
    finality: FinalityTag | None = None  # the finality tag that must cover the event's block as well
    agreement: int | None = Field(default=None, ge=1)  # endpoints that must agree, unless the settings say otherwise
    router: Address
    adapters: dict[str, Address]
    gmps: dict[str, GmpSection]  # by the GMP's name
    parameters: Address | None = None  # the contract in which governance keeps thresholds and operators
    multicall: Address | None = None  # the contract through which deliveries share a transaction
    examples: dict[str, Address] = {}

    @model_validator(mode="after")
    def _adapters_are_known(self) -> Self:
        known_gmps(self.gmps)
        known_gmps(self.adapters)
        for name in self.adapters:
            if name not in self.gmps:
                raise ValueError(f"chain {self.name!r} has an adapter for {name} but no contracts under gmps.{name}")
        return self

    @property
    def gmp_numbers(self) -> frozenset[Gmp]:
        """Returns the GMPs that have an adapter on the chain."""
        return frozenset(Gmp.parse(name) for name in self.adapters)

    def adapter(self, gmp: Gmp) -> str:
        """Returns the address of a GMP's adapter.

        Raises:
            DeploymentError: the chain has no adapter for the GMP.
        """
        try:
            return self.adapters[gmp.label]
        except KeyError:
            raise DeploymentError(f"chain {self.name!r} has no adapter for {gmp.label}") from None

    def senders(self, gmp: Gmp) -> frozenset[bytes]:
        """Returns every adapter that may have sent over a GMP, as 32 bytes each.

        These are the current adapter, and all adapters that the router can create. So messages sent before or
        after the replacement of an adapter are recognised as well.

        Raises:
            DeploymentError: the chain has no adapter for that GMP.
        """
        return _created_adapters(self.router, gmp) | {to_bytes32(self.adapter(gmp))}


@cache
def _created_adapters(router: str, gmp: Gmp) -> frozenset[bytes]:
    return frozenset(to_bytes32(created_adapter(router, int(gmp), number)) for number in ADAPTER_NUMBERS)


class Deployment(FileSection):
    """A network, which consists of chains whose routers know each other."""

    version: Literal[1]
    network: str
    chains: tuple[ChainDeployment, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _chains_are_unique(self) -> Self:
        refuse_repeated_chains(self.chains)
        return self

    def chain(self, key: int | str) -> ChainDeployment:
        """Returns the chain with the given id or name.

        Raises:
            NoSuchChainError: the network has no such chain.
        """
        for chain in self.chains:
            if key in (chain.chain_id, chain.name, str(chain.chain_id)):
                return chain
        known = ", ".join(f"{chain.name} ({chain.chain_id})" for chain in self.chains)
        raise NoSuchChainError(f"network {self.network!r} has no chain {key!r}; its chains are {known}")

    def gmps_between(self, *chain_ids: int) -> frozenset[Gmp]:
        """Returns the GMPs that have an adapter on each of the given chains.

        Empty if a chain is not part of the network.
        """
        by_chain = {chain.chain_id: chain.gmp_numbers for chain in self.chains}
        return frozenset(Gmp).intersection(*(by_chain.get(chain_id, frozenset()) for chain_id in chain_ids))

    def to_json(self) -> str:
        """Returns the file's text."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def load(cls, path: Path | str) -> Deployment:
        """Reads a deployments file.

        Raises:
            OSError: the file can't be read.
            DeploymentError: see `from_json`.
        """
        return cls.from_json(Path(path).read_text(), str(path))

    @classmethod
    def from_json(cls, text: str, source: str) -> Deployment:
        """Parses a deployments file. `source` is the file's name in errors.

        Raises:
            DeploymentError: a placeholder's variable is not set, the text is not JSON, its version is unknown,
                or values are missing, unknown or invalid.
        """
        try:
            document: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise DeploymentError(
                f"{source} is not valid JSON (line {error.lineno}: {error.msg}); recreate it with `waybill deploy`"
            ) from error
        if unset := list(unset_placeholders(document)):
            raise DeploymentError(
                f"{source} refers to environment variables that are not set:\n  " + "\n  ".join(unset)
            )
        try:
            return cls.model_validate(expanded(document))
        except ValidationError as error:
            problems = "\n".join(file_problems(error, "  "))
            raise DeploymentError(
                f"{source} is not a deployments file that this version can read:\n{problems}\nrecreate it with "
                "`waybill deploy`"
            ) from error
