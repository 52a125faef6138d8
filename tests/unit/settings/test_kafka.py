"""The settings of streams: off by default, checked together, secrets from a file, the environment or the settings file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.records.streams import Stream
from bridge.settings import Settings, SettingsError
from bridge.streams.settings import DeadLetterTopicSettings, Semantics
from tests.builders import DOCUMENTED_DEAD_LETTER_TOPIC
from tests.cases import for_each_case

SERVERS = "kafka-1:9092,kafka-2:9092"
SASL = {"security_protocol": "sasl_ssl", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "waybill"}


def loaded(**kafka: Any) -> Settings:
    return Settings.load(None, {}, kafka={"bootstrap_servers": SERVERS, **kafka})


def test_nothing_is_published_by_default() -> None:
    assert Settings.load().streams() is None


def test_what_is_set_reaches_the_publisher() -> None:
    queue: dict[str, Any] = {
        "enabled": False,
        "topic": "dead",
        "brokers": "other:9092",
        "include_original_headers": False,
        "include_stack_trace": True,
        "compression": "zstd",
        "pause": 2.5,
    }
    streams = loaded(
        delivery="exactly-once", topics={"messages": "m"}, dead_letter_queue={**queue, "max_dlq_retries": 5}
    ).streams()
    assert streams is not None
    assert (streams.semantics, streams.positions_topic) == (Semantics.EXACTLY_ONCE, "waybill.positions")
    assert (streams.topics[Stream.MESSAGES], streams.topics[Stream.RETRIES]) == ("m", "waybill.retries")
    assert streams.dead_letters == DeadLetterTopicSettings(**queue, tries=5)


def test_what_is_not_set_is_as_the_document_has_it() -> None:
    streams = loaded().streams()
    assert streams is not None
    assert streams.semantics is Semantics.AT_LEAST_ONCE
    assert streams.dead_letters == DOCUMENTED_DEAD_LETTER_TOPIC


def test_a_password_may_be_in_a_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    streams = loaded(**SASL, sasl_password_file=file).streams()
    assert streams is not None
    assert streams.security["sasl.password"] == "s3cret"
    assert "s3cret" not in repr(loaded(**SASL, sasl_password="s3cret"))
    file.unlink()
    with pytest.raises(SettingsError, match="sasl_password_file"):
        loaded(**SASL, sasl_password_file=file).streams()


def test_the_environment_adds_the_password_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "waybill.toml"
    lines = [f'{name} = "{value}"\n' for name, value in {"bootstrap_servers": SERVERS, **SASL}.items()]
    file.write_text("[kafka]\n" + "".join(lines))
    monkeypatch.setenv("WAYBILL_KAFKA", '{"sasl_password": "s3cret"}')
    streams = Settings.load(file).streams()
    assert streams is not None
    assert streams.security["sasl.password"] == "s3cret"


@for_each_case(
    "values, problem",
    [
        ({"bootstrap_servers": "kafka"}, "bootstrap_servers"),
        ({"delivery": "at-most-once"}, "at-least-once"),
        ({"security_protocol": "sasl_ssl"}, "needs sasl_mechanism and sasl_username"),
        (SASL, "exactly one of sasl_password and sasl_password_file"),
        ({"sasl_username": "waybill"}, "needs security_protocol sasl_ssl"),
        ({"topics": {"messages": "m", "retries": "m"}}, "m is named twice"),
        ({"compression": "bzip2"}, "compression"),
        ({"dead_letter_queue": {"max_dlq_retries": 0}}, "max_dlq_retries"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        loaded(**values)


def test_a_relayer_without_streams_loads_no_kafka_client() -> None:
    loads = "import sys, bridge.cli.relayer, bridge.service.relayer_service, bridge.store"
    asked = f"{loads}; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
