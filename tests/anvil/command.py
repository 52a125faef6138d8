"""Runs the command as a user does: in a process of its own, in a folder with a deployed network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


@dataclass(frozen=True)
class Waybill:
    """The `waybill` command on one network's files."""

    home: Path

    def __call__(self, *arguments: str, **environment: str) -> Ended:
        """Runs it to its end."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
        done = subprocess.run(
            [sys.executable, "-m", "bridge.cli", *arguments],
            env=inherited | {"WAYBILL_HOME": str(self.home)} | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """What it prints with --json; it must succeed."""
        ended = self(*arguments, "--json")
        assert ended.code == 0, ended.err
        return ended.value
