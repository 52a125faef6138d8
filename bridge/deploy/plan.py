"""The network file, which contains all decisions about a network that must be made before it is deployed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from bridge.deploy.addresses import wrong_axelar_name
from bridge.gmps.registry import adapter_class, section_problems, verification_problems
from bridge.gmps.verification import DEFAULT, Connection, Verification, VerificationSection
from bridge.protocol.deployment import Address, FileSection, FinalityTag, GmpSection, refuse_repeated_chains
from bridge.protocol.environment import expanded, unset_placeholders
from bridge.protocol.file_problems import file_problems
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Chain


class PlanError(ValueError):
    """A network file is invalid. The message lists every problem."""


Role = Literal["guardian", "revoker", "tripwire"]
"""A role that the router's owner assigns."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


class PlannedChain(FileSection):
    """A chain with its endpoints and GMPs."""

    chain_id: int = Field(gt=0, lt=2**64)
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    rpc_urls: tuple[str, ...] = Field(min_length=1)
    confirmations: int = Field(ge=0)  # blocks on top of an event before the relayer acts on it
    finality: FinalityTag | None = None  # block tag that an event's block must also have reached
    agreement: int | None = Field(default=None, ge=1)  # endpoints that must agree
    guardian: Address | None = None  # overrides the network's
    revoker: Address | None = None  # overrides the network's; the tripwire has one key for all chains
    gmps: dict[str, GmpSection]  # by the GMP's name
    verification: dict[str, VerificationSection] = Field(default={})  # by GMP; a GMP that is left out uses its default

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Returns the RPC URLs with placeholders replaced by environment variables."""
        return tuple(expanded(list(self.rpc_urls)))

    @property
    def origin(self) -> str:
        """Returns the place where the RPC URLs are configured, for error messages."""
        named = ", ".join(url for url in self.rpc_urls if "${" in url)
        return f"rpcUrls of chain {self.name!r} in the network file" + (f", or {named}" if named else "")

    def chosen(self, gmp: Gmp) -> Verification | None:
        """Returns the chain's verification of a GMP, or None for the GMP's default."""
        section, kind = self.verification.get(gmp.label, DEFAULT), adapter_class(gmp).CONTRACTS.VERIFICATION
        return kind.read(section) if kind and section != DEFAULT else None

    @model_validator(mode="after")
    def _gmps_are_known(self) -> Self:
        problems = [*section_problems(self.gmps), *verification_problems(self.verification, self.gmps)]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class NetworkPlan(FileSection):
    """The plan of a network: the chains whose routers are to be connected, and the routers' owner and roles."""

    version: Literal[1]
    network: str = Field(pattern=r"^[a-z0-9-]+$")
    owner: Address
    router_number: int = Field(default=1, ge=1)  # another number creates a second router of the same owner
    guardian: Address | None = None  # may pause; default for all chains
    revoker: Address | None = None  # may only revoke trust; default for all chains
    tripwire: Address | None = None  # may only pause a GMP for some hours
    floor: int = Field(default=2, ge=1, le=16)  # lowest quorum for recipients without a policy, on every lane
    examples: bool = True  # whether the example dApps are deployed too
    chains: tuple[PlannedChain, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _chains_are_unique(self) -> Self:
        refuse_repeated_chains(self.chains)
        return self

    @model_validator(mode="after")
    def _each_chain_has_a_gmp(self) -> Self:
        for chain in self.chains:
            if not chain.gmps:
                raise ValueError(f"chain {chain.name!r} has no GMPs, so no message could reach or leave the chain")
        return self

    @model_validator(mode="after")
    def _each_floor_can_be_reached(self) -> Self:
        for here, there in itertools.combinations(self.chains, 2):
            shared = here.gmps.keys() & there.gmps.keys()
            if shared and len(shared) < self.floor:
                raise ValueError(
                    f"chains {here.name!r} and {there.name!r} share {len(shared)} GMPs, but the floor requires "
                    f"{self.floor} ({', '.join(sorted(shared))}), so recipients without a policy would be "
                    "unreachable; add a GMP, or lower `floor`"
                )
        return self

    def appointed(self, role: Role, here: PlannedChain) -> str | None:
        """Returns the account with a role on a chain, or None if the file specifies none."""
        account: str | None = getattr(here, role, None) or getattr(self, role)
        return account

    def connections(
        self, here: PlannedChain, gmp: Gmp, owner: str | None = None
    ) -> Iterator[tuple[PlannedChain, Connection]]:
        """Yields every other chain to which a GMP connects this chain.

        Args:
            here: This chain.
            gmp: The GMP.
            owner: Owner of this chain's router, if it is no longer the plan's owner.
        """
        for there in self.chains:
            if there is not here and gmp.label in there.gmps:
                yield (
                    there,
                    Connection(
                        owner=owner or self.owner,
                        here=here.gmps[gmp.label],
                        there=there.gmps[gmp.label],
                        chosen_there=there.verification.get(gmp.label, DEFAULT),
                    ),
                )

    async def look_up(
        self, here: PlannedChain, chain: Chain, gmps: Mapping[str, GmpSection]
    ) -> tuple[dict[str, GmpSection], list[str]]:
        """Completes and checks the GMP sections against the contracts on a chain.

        Returns the sections and the problems, one line each.

        Raises:
            UnansweredError: no endpoint responded.
        """
        sections, problems = dict[str, GmpSection](), list[str]()
        for label, section in gmps.items():
            kind = adapter_class(Gmp.parse(label)).CONTRACTS
            others = {
                there.name: kind.read(there.gmps[label]).number
                for there in self.chains
                if there.chain_id != here.chain_id and label in there.gmps
            }
            values, wrong = await kind.read(section).look_up(chain, others)
            sections[label] = {**section, **values}
            problems += wrong
            if label == Gmp.AXELAR.label:
                problems += wrong_axelar_name(here.chain_id, section)
        return sections, problems

    @model_validator(mode="after")
    def _both_ends_verify_alike(self) -> Self:
        for here in self.chains:
            for gmp in map(Gmp.parse, here.gmps):
                chosen = here.chosen(gmp)
                if chosen is None:
                    continue
                for there, connection in self.connections(here, gmp):
                    if refusals := "; ".join(chosen.refusals(connection)):
                        raise ValueError(f"chains {here.name!r} and {there.name!r}: {refusals}")
        return self

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_none=True), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> NetworkPlan:
        """Reads a network file.

        Raises:
            PlanError: the file is missing or not valid JSON, or has missing, unknown or invalid values.
        """
        try:
            document: Any = json.loads(path.read_text())
        except FileNotFoundError:
            raise PlanError(
                f"network file {path} does not exist; `waybill network create {path.stem} --chains A,B` writes it"
            ) from None
        except json.JSONDecodeError as error:
            raise PlanError(f"{path} is not valid JSON (line {error.lineno}: {error.msg})") from error
        if missing := list(unset_placeholders(document)):
            raise PlanError(
                f"{path} has unset placeholders; set these environment variables, or replace the placeholders:\n  "
                + "\n  ".join(missing)
            )
        try:
            plan = cls.model_validate(expanded(document))
        except ValidationError as error:
            problems = "\n".join(file_problems(error, "  "))
            raise PlanError(f"{path} is not a valid network file:\n{problems}") from error
        # URLs keep their placeholders: they often contain an API key, and the deployments file is published.
        urls = [tuple(chain["rpcUrls"]) for chain in document["chains"]]
        chains = (chain.model_copy(update={"rpc_urls": raw}) for chain, raw in zip(plan.chains, urls, strict=True))
        return plan.model_copy(update={"chains": tuple(chains)})
