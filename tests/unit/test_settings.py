"""Settings come from arguments, then the environment, then defaults; what is wrong with them is said at once, keys never."""

from __future__ import annotations

import pytest

from bridge.policies import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.settings import Settings, SettingsError

KEY = "0x" + "11" * 32


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAYBILL_{name.upper()}", raising=False)


def test_without_anything_the_defaults_hold() -> None:
    settings = Settings.load()
    assert settings.gmps == frozenset(Gmp)
    assert settings.paused_gmps == frozenset()
    assert settings.retry_policies() == DEFAULT_POLICIES
    assert settings.store == "sqlite:///bridge.db"


def test_the_environment_goes_over_the_defaults_and_arguments_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYBILL_POLL", "0.25")
    monkeypatch.setenv("WAYBILL_LEASE", "7")
    monkeypatch.setenv("WAYBILL_PAUSED_GMPS", "axelar, Wormhole")
    monkeypatch.setenv("WAYBILL_RETRY_KEYS", f"{KEY},{'0x' + '22' * 32}")
    settings = Settings.load(poll=0.5, lease=None)
    assert (settings.poll, settings.lease) == (0.5, 7)
    assert settings.relay().paused == {Gmp.AXELAR, Gmp.WORMHOLE}
    assert [key.get_secret_value() for key in settings.retry_keys] == [KEY, "0x" + "22" * 32]


def test_gmps_may_be_given_as_values() -> None:
    settings = Settings.load(gmps=frozenset({Gmp.HYPERLANE, Gmp.AXELAR}), paused_gmps=("axelar",))
    assert settings.relay().claimable == {Gmp.HYPERLANE}


def test_an_unknown_gmp_is_named_with_those_that_exist_and_the_variable() -> None:
    with pytest.raises(SettingsError, match=r"WAYBILL_GMPS.*unknown GMP 'carrier pigeon'; the GMPs are hyperlane"):
        Settings.load(gmps="hyperlane,carrier pigeon")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(poll=-1, lease=0, in_flight="many")
    text = str(caught.value)
    assert all(name in text for name in ("WAYBILL_POLL", "WAYBILL_LEASE", "WAYBILL_IN_FLIGHT"))


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match="speed"):
        Settings.load(speed=9)


def test_keys_are_shown_neither_in_errors_nor_in_the_settings_themselves() -> None:
    settings = Settings.load(relayer_key=KEY, retry_keys=KEY)
    assert KEY not in repr(settings)
    assert KEY not in str(settings.model_dump())
    with pytest.raises(SettingsError) as caught:
        Settings.load(relayer_key=[KEY], retry_keys={"key": KEY}, poll=0)
    assert KEY not in str(caught.value)


@pytest.mark.requirement("OBX-37", "OBX-38", "OBX-40")
def test_a_policy_can_be_changed_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYBILL_POLICIES", '{"plain": {"base": 0.5, "cap": 4}}')
    policies = Settings.load().retry_policies()
    plain, default = policies[Kind.PLAIN], DEFAULT_POLICIES[Kind.PLAIN]
    assert (plain.base, plain.cap, plain.max_retries) == (0.5, 4, default.max_retries)
    assert policies[Kind.QUERY] == DEFAULT_POLICIES[Kind.QUERY]


@pytest.mark.requirement("OIP-61", "OIP-5")
def test_a_critical_action_can_not_be_given_an_end() -> None:
    with pytest.raises(SettingsError, match="REGULATORY_ACTION_CRITICAL: is retried without end"):
        Settings.load(policies={"regulatory_action_critical": {"max_retries": 3}})


@pytest.mark.parametrize(
    ("policies", "complaint"),
    [
        ({"telegram": {"base": 1}}, "'telegram' is no kind of message"),
        ({"plain": {"base": 9, "cap": 1}}, "cap is 1.0 s, less than base 9.0 s"),
        ({"plain": {"speed": 1}}, "speed"),
    ],
)
def test_policies_that_can_not_be_meant_are_refused_when_they_are_read(
    policies: dict[str, dict[str, float]], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Settings.load(policies=policies)
