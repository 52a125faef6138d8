"""Who reads dead letters in the explorer that `waybill web` serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bridge.web import ExplorerSettings
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

TOKEN = "an operator's long token"


@pytest.mark.parametrize(
    ("flags", "token", "opened"),
    [
        ((), None, True),
        ((), TOKEN, False),
        (("--http", "0.0.0.0:0"), None, False),
        (("--http", "0.0.0.0:0"), TOKEN, False),
        (("--trusted-proxy", "127.0.0.1"), None, False),
        (("--read-only",), None, False),
    ],
)
def test_the_command_serves_letters_to_those_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    flags: tuple[str, ...],
    token: str | None,
    *,
    opened: bool,
) -> None:
    served: list[ExplorerSettings] = []

    async def end(_: Callable[[], Awaitable[None]]) -> None:
        """Serves nobody."""

    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    if token is not None:
        monkeypatch.setenv("WAYBILL_API_TOKEN", token)
    monkeypatch.setattr("bridge.cli.web_server.create_app", lambda _, settings, __: served.append(settings))
    monkeypatch.setattr("bridge.cli.web_server.listening_at", lambda _: None)
    monkeypatch.setattr("bridge.cli.web_server.run_until_signalled", end)
    write_network(tmp_path)
    ended = Command(monkeypatch, capsys)("web", *flags)
    assert ended.code == 0, ended.err
    (settings,) = served
    assert settings.open_letters is opened
    assert (settings.token and settings.token.get_secret_value()) == token
