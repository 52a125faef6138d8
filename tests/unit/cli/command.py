"""Runs the command in this process, as the console script would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.cli import main


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> dict[str, Any]:
        """The JSON error on stderr."""
        error: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return error


class Command:
    """The `waybill` command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ended:
        """Runs it."""
        self._monkeypatch.setattr("sys.argv", ["waybill", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)
