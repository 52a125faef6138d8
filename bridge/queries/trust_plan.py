"""What a lane's trust is expected to be: the section ``trust`` of a network's plan file, and how reality differs from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from bridge.domain.trust import ChainState
from bridge.protocol.deployment import Address, Deployment
from bridge.protocol.file_problems import file_problems
from bridge.queries.trust import DirectionTrust, Operators, lane_ends, read_lane


class TrustPlanError(ValueError):
    """A plan file that can't be used; the text says why."""


class TrustPlan(BaseModel):
    """Who runs which address, and by lane what was set on chain when the operator wrote the plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: dict[Address, str] = {}  # names by address
    lanes: dict[str, dict[str, Any]] = {}  # by lane, such as alpha:beta, the configuration of each direction

    @classmethod
    def read(cls, path: Path, network: str) -> TrustPlan:
        """The section of a network's file; one without it expects nothing.

        Raises:
            TrustPlanError: there is no such file, it can't be used, or it is another network's.
        """
        document = _document(path)
        if (named := document.get("network", network)) != network:
            raise TrustPlanError(
                f"{path} is the file of network {named!r}, and this is network {network!r}: give --network {named}, or another"
                " file"
            )
        try:
            return cls.model_validate(document.get("trust", {}))
        except ValidationError as error:
            problems = "; ".join(file_problems(error))
            raise TrustPlanError(f"{path}: its section trust can't be used: {problems}") from error

    @property
    def named(self) -> Operators:
        """This repository's table of operators, with the plan's names."""
        return Operators(self.operators)

    def expecting(self, lane: str, directions: Iterable[DirectionTrust]) -> TrustPlan:
        """The plan that expects a lane to be as it is now."""
        return self.model_copy(update={"lanes": {**self.lanes, lane: config_of(directions)}})

    def write(self, path: Path) -> None:
        """Puts the section into the file, and leaves all else in it as it is.

        Raises:
            TrustPlanError: the file there is not JSON.
        """
        document = {**(_document(path) if path.exists() else {}), "trust": self.model_dump(mode="json")}
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(document, indent=2) + "\n")
        fresh.replace(path)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise TrustPlanError(
            f"there is no plan file {path}; write it with `waybill trust LANE --write-plan {path}`"
        ) from None
    except json.JSONDecodeError as error:
        raise TrustPlanError(f"{path} is not JSON (line {error.lineno}: {error.msg})") from error
    if not isinstance(document, dict):
        raise TrustPlanError(f"{path} is not a plan file: it is no JSON object")
    return document


def config_of(directions: Iterable[DirectionTrust]) -> dict[str, Any]:
    """The configuration of a lane, by direction, as JSON has it."""
    config: dict[str, Any] = json.loads(json.dumps({one.name: one.config() for one in directions}))
    return config


async def drift_of(
    deployment: Deployment, chains: Mapping[int, ChainState], plan: TrustPlan, lanes: Iterable[str]
) -> dict[str, list[Difference]]:
    """By lane, what is not as the plan notes it.

    Args:
        deployment: the network.
        chains: its chains by id, connected.
        plan: which has all those lanes.
        lanes: such as alpha:beta.

    Raises:
        DeploymentError: one is no lane of the network.
        NotReadableError: a router is none.
        UnansweredError: a chain gives no answer.
    """
    return {
        lane: differences(plan.lanes[lane], config_of(await read_lane(chains, lane_ends(deployment, lane))))
        for lane in lanes
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the plan says."""

    path: str
    expected: Any  # None: the plan has no such thing
    found: Any  # None: there is no such thing

    def __str__(self) -> str:
        return f"{self.path}: expected {_short(self.expected)}, found {_short(self.found)}"

    def to_value(self) -> dict[str, Any]:
        """For JSON."""
        return {"path": self.path, "expected": self.expected, "found": self.found}


def differences(expected: Any, found: Any, path: str = "") -> list[Difference]:
    """Where two configurations differ, each place by its path."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        names = [*expected, *(name for name in found if name not in expected)]
        return [
            one
            for name in names
            for one in differences(expected.get(name), found.get(name), f"{path} / {name}" if path else str(name))
        ]
    return [] if expected == found else [Difference(path, expected, found)]


def _short(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
