"""Runs the command as a user does: in a process of its own, in a folder with a deployed network."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.devnet import Devnet
from tests.anvil.running import start
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """What it printed with --json."""
        return json.loads(self.out)


TABLES_AND_STREAMS = {"rows", "sent"}
"""Parts of results that are keyed by names of tables and of streams."""


@dataclass(frozen=True)
class Waybill:
    """The `waybill` command on one network's files."""

    home: Path
    limit: float = PATIENCE

    def __call__(self, *arguments: str, **environment: str) -> Ended:
        """Runs it to its end."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            environment = environment_of(self.home) | environment
            process = start(*arguments, output=output, errors=errors, environment=environment)
            try:
                code = process.wait(self.limit)
            finally:
                process.kill()
            output.seek(0)
            errors.seek(0)
            return Ended(code, output.read().decode(), errors.read().decode())

    def json(self, *arguments: str, **environment: str) -> Any:
        """What it prints with --json; it must succeed."""
        ended = self(*arguments, "--json", **environment)
        assert ended.code == 0, ended.err
        expect_the_schema(ended.value)
        return ended.value


def expect_the_schema(value: Any) -> None:
    """Names are in camelCase, and moments are ISO 8601 in UTC, whatever command prints them."""
    if isinstance(value, list):
        for item in value:
            expect_the_schema(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            assert name.isupper() or "_" not in name, f"{name} is not in camelCase"
            if re.fullmatch(r"(\w+(At|Until|Time)|until)", name) and item is not None:
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", str(item)), f"{name} is {item}"
            if name not in TABLES_AND_STREAMS:
                expect_the_schema(item)


def environment_of(home: Path) -> dict[str, str]:
    """This process's environment, without settings of Waybill but for the folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    return inherited | {"WAYBILL_HOME": str(home)}


def new_home(devnet: Devnet, folder: Path) -> Path:
    """Makes a folder one from which the command finds the devnet, with no store in it yet."""
    (folder / "deployments").mkdir()
    (folder / "deployments" / "devnet.json").write_text(devnet.deployment.to_json())
    return folder
