"""Who reads dead letters in the explorer that `waybill web` serves."""

from __future__ import annotations

import pytest

from bridge.cli.web_server import is_open
from bridge.settings import Settings

TOKEN = "an operator's long token"


@pytest.mark.requirement("OIP-127")
@pytest.mark.parametrize(
    ("http", "token", "proxy", "opened"),
    [
        ("127.0.0.1:8080", None, None, True),
        ("[::1]:8080", None, None, True),
        ("localhost:0", None, None, True),
        ("0.0.0.0:8080", None, None, False),
        ("[::]:8080", None, None, False),
        ("10.0.0.7:8080", None, None, False),
        ("explorer.example:8080", None, None, False),
        ("127.0.0.1:8080", None, "127.0.0.1", False),
        ("127.0.0.1:8080", TOKEN, None, False),
    ],
)
def test_letters_are_open_on_this_machine_alone_unless_somebody_is_to_sign_in(
    http: str, token: str | None, proxy: str | None, opened: bool
) -> None:
    assert is_open(http, Settings.load(api_token=token), proxy) is opened
