"""The settings of webhooks: off by default, checked together, secrets from a file or the settings file."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from bridge.domain.lanes import Lane
from bridge.protocol.message import Kind
from bridge.settings import Settings, SettingsError
from bridge.settings.model import check_chains
from bridge.streams.settings import WebhookSettings
from tests.builders import ALPHA, BETA
from tests.unit.web.explorer import deployment

KEY = bytes(range(32))
SECRET = f"whsec_{b64encode(KEY).decode()}"
URL = "https://hooks.example.org/waybill"


def loaded(table: dict[str, Any] | None = None, **target: Any) -> Settings:
    named = {"url": URL, "secrets": [SECRET], **target}
    return Settings.load(None, {}, webhooks={"targets": {"first": named}, **(table or {})})


def found(settings: Settings) -> WebhookSettings:
    made = settings.webhook_settings(deployment())
    assert made is not None
    return made


def test_nothing_is_delivered_by_default() -> None:
    assert Settings.load().webhook_settings(deployment()) is None


def test_what_is_set_reaches_the_publisher_and_no_secret_is_shown() -> None:
    filters = {"lanes": ["alpha:beta"], "kinds": ["plain"], "events": "FINAL, DEAD"}
    settings = loaded({"tries": 3, "keep_days": 1}, **filters)
    made = found(settings)
    (target,) = made.targets
    assert (target.name, target.url, target.secrets) == ("first", URL, (KEY,))
    assert target.wanted.lanes == {Lane(ALPHA, BETA)}
    assert target.wanted.kinds == {Kind.PLAIN}
    assert target.wanted.events == {"FINAL", "DEAD"}
    assert (made.policy.max_tries, made.keep) == (3, 86_400)
    for shown in (repr(settings), repr(made), str(made)):
        assert SECRET not in shown
        assert repr(KEY) not in shown


def test_a_secret_may_be_in_a_file_also_two_while_one_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    other = b64encode(KEY[::-1]).decode()
    file.write_text(f"{SECRET}\nwhsec_{other}\n")
    (target,) = found(loaded(secrets=[], secret_file=file)).targets
    assert target.secrets == (KEY, KEY[::-1])
    file.write_text("hunter2")
    with pytest.raises(SettingsError, match=r"first\.secret_file .* a secret is whsec_"):
        found(loaded(secrets=[], secret_file=file))
    file.write_text("\n")
    with pytest.raises(SettingsError, match=r"first\.secret_file .* holds no secret"):
        found(loaded(secrets=[], secret_file=file))
    file.unlink()
    with pytest.raises(SettingsError, match=r"first\.secret_file .* can't be read"):
        found(loaded(secrets=[], secret_file=file))


def test_an_unknown_chain_of_a_lane_is_named() -> None:
    with pytest.raises(SettingsError, match=r"webhooks .* has no chain 'gamma'"):
        check_chains(loaded(lanes=["alpha:gamma"]), deployment())


@pytest.mark.parametrize(
    ("table", "target", "problem"),
    [
        ({}, {"url": "http://hooks.example.org"}, "first need an https:// URL, or allow_private"),
        ({}, {"url": "ftp://hooks.example.org"}, "url"),
        ({}, {"url": "https://user:password@hooks.example.org"}, "can't have a user"),
        ({}, {"secrets": ["hunter2"]}, "a secret is whsec_"),
        ({}, {"secrets": ["whsec_c2hvcnQ="]}, "at least 24 random bytes"),
        ({}, {"secrets": []}, "exactly one of secrets and secret_file"),
        ({}, {"lanes": ["alpha"]}, "alpha is no lane"),
        ({}, {"kinds": ["letter"]}, "letter is no kind of message"),
        ({}, {"streams": ["gossip"]}, "streams"),
        ({"base": 10, "cap": 5}, {}, "cap is 5 s, less than base 10 s"),
        ({"targets": {"No Name": {"url": URL, "secrets": [SECRET]}}}, {}, "No Name"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(table: dict[str, Any], target: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        loaded(table, **target)
