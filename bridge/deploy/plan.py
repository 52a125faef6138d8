"""The network file: what somebody decides before anything of Waybill is on a chain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from bridge.gmps.registry import adapter_class, section_problems, verification_problems
from bridge.gmps.verification import DEFAULT, Connection, Verification, VerificationSection
from bridge.protocol.deployment import Address, FileSection, FinalityTag, GmpSection, refuse_repeated_chains
from bridge.protocol.environment import expanded, unset_placeholders
from bridge.protocol.file_problems import file_problems
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Chain


class PlanError(ValueError):
    """A network file that can't be used; the text lists everything that is wrong with it."""


Role = Literal["guardian", "revoker", "tripwire"]
"""Whom the owner appoints at a router."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


class PlannedChain(FileSection):
    """A chain, how to reach it, and the GMPs that are on it."""

    chain_id: int = Field(gt=0, lt=2**64)
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    rpc_urls: tuple[str, ...] = Field(min_length=1)
    confirmations: int = Field(ge=0)  # blocks that must lie on top of an event before the bridge acts on it
    finality: FinalityTag | None = None  # what the chain itself must call the event's block besides
    agreement: int | None = Field(default=None, ge=1)  # endpoints that must say the same before a relayer believes it
    guardian: Address | None = None  # here, in place of the network's
    revoker: Address | None = None  # the same; `waybill tripwire run` has one key for all chains
    gmps: dict[str, GmpSection]  # by the GMP's name
    verification: dict[str, VerificationSection] = Field(
        default={}
    )  # who vouches for each GMP's messages; left out: its default

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The RPC URLs, with the environment's values in their placeholders."""
        return tuple(expanded(list(self.rpc_urls)))

    @property
    def origin(self) -> str:
        """Where to correct an RPC URL, for errors."""
        named = ", ".join(url for url in self.rpc_urls if "${" in url)
        return f"rpcUrls of chain {self.name!r} in the network file" + (f", or {named}" if named else "")

    def chosen(self, gmp: Gmp) -> Verification | None:
        """What is chosen of a GMP's verification here; None: its default."""
        section, kind = self.verification.get(gmp.label, DEFAULT), adapter_class(gmp).CONTRACTS.VERIFICATION
        return kind.read(section) if kind and section != DEFAULT else None

    @model_validator(mode="after")
    def _gmps_are_known(self) -> Self:
        problems = [*section_problems(self.gmps), *verification_problems(self.verification, self.gmps)]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class NetworkPlan(FileSection):
    """Chains whose routers shall know each other, and who owns the routers."""

    version: Literal[1]
    network: str = Field(pattern=r"^[a-z0-9-]+$")
    owner: Address
    router_number: int = Field(default=1, ge=1)  # another one makes a second router of the same owner on each chain
    guardian: Address | None = None  # may begin pauses, on chains that name no other
    revoker: Address | None = None  # may take trust away, and nothing else, on chains that name no other
    tripwire: Address | None = None  # may pause a GMP for hours, and nothing else
    floor: int = Field(
        default=2, ge=1, le=16
    )  # least quorum, on every lane, for recipients without a policy of their own
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
                raise ValueError(f"chain {chain.name!r} has no GMP: nothing could reach or leave it")
        return self

    @model_validator(mode="after")
    def _each_floor_can_be_reached(self) -> Self:
        for here, there in itertools.combinations(self.chains, 2):
            shared = here.gmps.keys() & there.gmps.keys()
            if shared and len(shared) < self.floor:
                raise ValueError(
                    f"chains {here.name!r} and {there.name!r} share {len(shared)} of the {self.floor} GMPs that the floor"
                    f" asks for ({', '.join(sorted(shared))}): recipients without a policy could never be reached; add"
                    " a GMP, or lower `floor`"
                )
        return self

    def appointed(self, role: Role, here: PlannedChain) -> str | None:
        """Whose role it is on a chain; None: the file leaves that open."""
        account: str | None = getattr(here, role, None) or getattr(self, role)
        return account

    def connections(
        self, here: PlannedChain, gmp: Gmp, owner: str | None = None
    ) -> Iterator[tuple[PlannedChain, Connection]]:
        """Every other chain that a GMP connects a chain with; `owner` is that of the router there by now, if it is another."""
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
        """What the GMPs' contracts on a chain say of its sections: the whole sections, and what is wrong, one line each.

        Raises:
            UnansweredError: no endpoint answers.
        """
        found, problems = dict[str, GmpSection](), list[str]()
        for label, section in gmps.items():
            kind = adapter_class(Gmp.parse(label)).CONTRACTS
            others = {
                there.name: kind.read(there.gmps[label]).number
                for there in self.chains
                if there.chain_id != here.chain_id and label in there.gmps
            }
            values, wrong = await kind.read(section).look_up(chain, others)
            found[label] = {**section, **values}
            problems += wrong
        return found, problems

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
        """The file's text."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_none=True), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> NetworkPlan:
        """Reads a network file.

        Raises:
            PlanError: there is none, or it is not JSON, or has missing, unknown or wrong values.
        """
        try:
            document: Any = json.loads(path.read_text())
        except FileNotFoundError:
            raise PlanError(
                f"there is no network file {path}; `waybill network create {path.stem} --chains A,B` writes one"
            ) from None
        except json.JSONDecodeError as error:
            raise PlanError(f"{path} is not JSON (line {error.lineno}: {error.msg})") from error
        if unset := list(unset_placeholders(document)):
            raise PlanError(
                f"{path} has placeholders without a value; set the variables, or write values in their place:\n  "
                + "\n  ".join(unset)
            )
        try:
            plan = cls.model_validate(expanded(document))
        except ValidationError as error:
            problems = "\n".join(file_problems(error, "  "))
            raise PlanError(f"{path} can't be used as a network file:\n{problems}") from error
        # URLs keep their placeholders: they often hold a key, and what is deployed is published.
        urls = [tuple(chain["rpcUrls"]) for chain in document["chains"]]
        chains = (chain.model_copy(update={"rpc_urls": raw}) for chain, raw in zip(plan.chains, urls, strict=True))
        return plan.model_copy(update={"chains": tuple(chains)})


def adapter_numbers(path: Path) -> dict[tuple[str, Gmp], int]:
    """The number of each adapter in a network file, by its chain's name; none without the file. Placeholders may be without values.

    Raises:
        PlanError: it is no network file.
    """
    try:
        chains = json.loads(path.read_text()).get("chains", ())
        return {
            (str(chain["name"]), Gmp.parse(gmp)): int(section.get("adapterNumber", 1))
            for chain in chains
            for gmp, section in chain["gmps"].items()
        }
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PlanError(f"{path} can't be used as a network file: {error!r}") from error
