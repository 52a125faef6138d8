"""Settings come from arguments, then the environment, then defaults; what is wrong with them is said at once, keys never."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, GiveUpReason, becomes_dead_letter, next_try
from bridge.protocol.failures import FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.service.settings import PROFILES, Settings
from bridge.settings import SettingsError
from tests.cases import for_each_case

KEY = "0x" + "11" * 32


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAYBILL_{name.upper()}", raising=False)


def test_without_anything_the_defaults_hold() -> None:
    settings = Settings.load()
    assert settings.gmps == frozenset(Gmp)
    assert settings.paused_gmps == frozenset()
    assert settings.delivery_policies() == DEFAULT_POLICIES
    assert settings.store == "sqlite:///bridge.db"


def test_arguments_override_environment_and_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYBILL_POLL_INTERVAL", "0.25")
    monkeypatch.setenv("WAYBILL_LEASE", "7")
    monkeypatch.setenv("WAYBILL_PAUSED_GMPS", "axelar, Wormhole")
    monkeypatch.setenv("WAYBILL_RETRY_KEYS", f"{KEY},{'0x' + '22' * 32}")
    settings = Settings.load(poll_interval=0.5, lease=None)
    assert (settings.poll_interval, settings.lease) == (0.5, 7)
    assert settings.paused_gmps == {Gmp.AXELAR, Gmp.WORMHOLE}
    assert [key.get_secret_value() for key in settings.retry_keys] == [KEY, "0x" + "22" * 32]


def test_unknown_gmp_names_the_variable_and_the_known() -> None:
    with pytest.raises(SettingsError, match=r"WAYBILL_GMPS.*unknown GMP 'carrier pigeon'; the GMPs are hyperlane"):
        Settings.load(gmps="hyperlane,carrier pigeon")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(poll_interval=-1, lease=0, in_flight="many")
    text = str(caught.value)
    assert all(name in text for name in ("WAYBILL_POLL_INTERVAL", "WAYBILL_LEASE", "WAYBILL_IN_FLIGHT"))


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match="speed"):
        Settings.load(speed=9)


def test_keys_are_never_shown() -> None:
    settings = Settings.load(relayer_key=KEY, retry_keys=KEY)
    assert KEY not in repr(settings)
    assert KEY not in str(settings.model_dump())
    with pytest.raises(SettingsError) as caught:
        Settings.load(relayer_key=[KEY], retry_keys={"key": KEY}, poll_interval=0)
    assert KEY not in str(caught.value)


def test_a_policy_can_be_changed_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = '{"plain": {"max_retries": 7, "base": 0.5, "cap": 4, "multiplier": 3, "jitter": 0.25}}'
    monkeypatch.setenv("WAYBILL_POLICIES", changes)
    policies = Settings.load().delivery_policies()
    plain, default = policies[Kind.PLAIN], DEFAULT_POLICIES[Kind.PLAIN]
    assert (plain.max_retries, plain.base, plain.cap) == (7, 0.5, 4)
    assert (plain.dead_letter, default.max_retries) == (default.dead_letter, 10)
    assert (plain.multiplier, plain.jitter) == (3, 0.25)
    assert policies[Kind.QUERY] == DEFAULT_POLICIES[Kind.QUERY]


@pytest.mark.parametrize("changed", [{"max_retries": 3}, {"dead_letter": True}])
def test_a_critical_action_can_not_be_given_an_end(changed: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="REGULATORY_ACTION_CRITICAL: must be retried without limit"):
        Settings.load(policies={"regulatory_action_critical": changed})


@pytest.mark.parametrize(
    ("policies", "complaint"),
    [
        ({"telegram": {"base": 1}}, "'telegram' is not a message kind"),
        ({"plain": {"base": 9, "cap": 1}}, "cap is 1.0 s; it must be at least base"),
        ({"plain": {"speed": 1}}, "speed"),
    ],
)
def test_inconsistent_policies_are_rejected(policies: dict[str, dict[str, float]], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Settings.load(policies=policies)


def toml(folder: Path, text: str) -> Path:
    file = folder / "waybill.toml"
    file.write_text(text)
    return file


def test_file_overrides_profile_but_not_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        """
        profile = "high-throughput"
        poll_interval = 3
        fee_bump_after = 90
        [policies.plain]
        base = 1
        cap = 8
        """,
    )
    monkeypatch.setenv("WAYBILL_FEE_BUMP_AFTER", "70")
    monkeypatch.setenv("WAYBILL_POLICIES", '{"plain": {"cap": 4}}')
    settings = Settings.load(file, {"poll_interval": 0.25, "store": "sqlite:///other.db"}, gmps="axelar")
    assert (settings.poll_interval, settings.fee_bump_after, settings.in_flight, settings.store) == (
        3,
        70,
        512,
        "sqlite:///other.db",
    )
    plain = settings.delivery_policies()[Kind.PLAIN]
    assert (plain.base, plain.cap) == (1, 4)  # tables are merged, not replaced
    said = {
        name: settings.origin(name)
        for name in ("gmps", "fee_bump_after", "poll_interval", "in_flight", "store", "lease")
    }
    assert said == {
        "gmps": "argument, or WAYBILL_GMPS",
        "fee_bump_after": "WAYBILL_FEE_BUMP_AFTER",
        "poll_interval": str(file),
        "in_flight": "profile high-throughput",
        "store": "default of this network",
        "lease": "profile high-throughput",
    }


def test_all_errors_are_listed_with_their_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        """
        poll_interval = -1
        speed = 9
        deny_senders = ["0x12"]
        [policies.plain]
        base = 9
        cap = 1
        [accounts.local]
        keystore = "key.json"
        [chains.alpha]
        agreement = 0
        """,
    )
    monkeypatch.setenv("WAYBILL_IN_FLIGHT", "many")
    with pytest.raises(SettingsError) as caught:
        Settings.load(file)
    lines = str(caught.value).splitlines()
    for expected in (
        f"poll_interval is -1 ({file}): Input should be greater than 0",
        f"speed ({file}): unknown setting",
        "in_flight is 'many' (WAYBILL_IN_FLIGHT): ",
        "is not an EVM address (0x and 40 hex digits, EIP-55 checksum if mixed case)",
        "cap is 1.0 s; it must be at least base",
        "a keystore requires password_file",
        f"chains.alpha.agreement ({file}): ",
    ):
        assert any(expected in line for line in lines), expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("poll_interval = ", "is not valid TOML"), ('profile = "fast"', r"'fast'.*default, production, low-latency")],
)
def test_a_file_that_can_not_be_used_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Settings.load(toml(tmp_path, text))


def test_a_variable_that_can_not_be_parsed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYBILL_POLICIES", '{"plain": ')
    with pytest.raises(SettingsError, match=r'environment: .*"policies"'):
        Settings.load()


@for_each_case("profile", PROFILES)
def test_profiles_are_valid_and_keep_the_documents_rows(profile: str) -> None:
    policies = Settings.load(profile=profile).delivery_policies()
    assert {kind: policies[kind] for kind in Kind if kind is not Kind.PLAIN} == {
        kind: policy for kind, policy in DEFAULT_POLICIES.items() if kind is not Kind.PLAIN
    }


@for_each_case(
    "amount, wei", [("0.5 ether", 5 * 10**17), ("30 gwei", 30 * 10**9), ("12", 12), (7, 7), ("1.5 wei", None)]
)
def test_amounts_have_units(amount: object, wei: int | None) -> None:
    if wei is None:
        with pytest.raises(SettingsError, match="not a whole number of wei"):
            Settings.load(spending={"message": amount})
    else:
        assert Settings.load(spending={"message": amount}).spending.message == wei


def test_what_is_allowed_and_denied_at_once_is_refused() -> None:
    with pytest.raises(SettingsError, match="chains: beta is allowed and denied"):
        Settings.load(allow_chains="alpha,beta", deny_chains="beta")


@for_each_case(
    "signer",
    [
        {},
        {"environment": "KEY", "keystore": "key.json", "password_file": "word"},
        {"remote": "http://signer:9000"},
        {"remote": "signer:9000", "address": "0x" + "ab" * 20},
    ],
)
def test_a_signer_is_exactly_one_of_three(signer: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="accounts"):
        Settings.load(accounts={"one": signer})


def test_contradictions_are_listed_beside_invalid_values() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(
            in_flight="many",
            speed=9,
            lease=1,
            allow_chains="alpha",
            deny_chains="alpha",
            commit="auto",
            retention=60,
        )
    for expected in (
        "in_flight is 'many'",
        "speed (argument, or WAYBILL_SPEED): unknown setting",
        "lease is 1 s, less than two polls of 1 s",
        "chains: alpha is allowed and denied",
        "commit is 'auto'",
        "dedup window is 60 s",
    ):
        assert expected in str(caught.value), expected


def test_nothing_is_compared_with_a_value_that_can_not_be_used() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(poll_interval=-1, lease=0.1, policies={"plain": {"base": 9, "cap": 1}}, retention=60)
    text = str(caught.value)
    assert "two polls" not in text
    assert "dedup window" not in text
    assert "cap is 1.0 s; it must be at least base" in text


def test_jitter_and_dead_letters_are_settings_of_each_kind() -> None:
    policy = Settings.load(policies={"plain": {"jitter": 0, "dead_letter": False}}).delivery_policies()[Kind.PLAIN]
    waits = {next_try(policy, 2, FailureKind.TRANSIENT, random=draw) for draw in (lambda: 0.0, lambda: 0.9)}
    assert waits == {10}
    assert not becomes_dead_letter(policy, GiveUpReason.MAX_RETRIES_EXCEEDED)
    with pytest.raises(SettingsError, match="jitter"):
        Settings.load(policies={"plain": {"jitter": 1}})
    with pytest.raises(SettingsError, match=r"REGULATORY_ACTION_CRITICAL: .*must not become a dead letter"):
        Settings.load(policies={"regulatory_action_critical": {"dead_letter": True}})


def test_propagation_threshold_defaults_to_five_minutes() -> None:
    assert Settings.load().sync.threshold == 300
    assert Settings.load(sync={"threshold": 7}).sync.threshold == 7


def test_letter_retention_defaults_to_thirty_days() -> None:
    assert Settings.load().dlq.retention == 30 * 86_400
    assert Settings.load(dlq={"retention_days": 7}).dlq.retention == 7 * 86_400
