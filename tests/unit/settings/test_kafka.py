"""The settings of streams: off by default, checked together, secrets from a file, the environment or the settings file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.records.streams import Stream
from bridge.service.settings import Settings
from bridge.settings import SettingsError
from bridge.streams.settings import Semantics
from tests.builders import DOCUMENTED_DEAD_LETTER_TOPIC
from tests.cases import for_each_case

SERVERS = "kafka-1:9092,kafka-2:9092"
PASSWORD = {"client": {"sasl.password": "s3cret"}}


def loaded(**kafka: Any) -> Settings:
    return Settings.load(None, {}, kafka={"bootstrap_servers": SERVERS, **kafka})


def test_nothing_is_published_by_default() -> None:
    assert Settings.load().kafka.bootstrap_servers is None


def test_values_that_are_not_set_are_the_documents() -> None:
    streams = loaded().kafka
    assert streams.delivery is Semantics.AT_LEAST_ONCE
    assert [streams.topic(stream) for stream in Stream] == [
        "waybill.messages",
        "waybill.retries",
        "waybill.divergences",
        "waybill.dead-letters",
    ]
    assert streams.positions_topic == "waybill.positions"
    assert streams.dead_letter_queue == DOCUMENTED_DEAD_LETTER_TOPIC


def test_a_password_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "s3cret" not in repr(loaded(**PASSWORD))
    with pytest.raises(SettingsError) as caught:
        loaded(**PASSWORD, compression="bzip2")
    assert "s3cret" not in str(caught.value)
    file = tmp_path / "waybill.toml"
    file.write_text(f'[kafka]\nbootstrap_servers = "{SERVERS}"\nclient = {{ "sasl.username" = "waybill" }}\n')
    monkeypatch.setenv("WAYBILL_KAFKA", '{"client": {"sasl.password": "s3cret"}}')
    client = Settings.load(file).kafka.client
    assert {name: value.get_secret_value() for name, value in client.items()} == {
        "sasl.username": "waybill",
        "sasl.password": "s3cret",
    }


@for_each_case(
    "values, problem",
    [
        ({"bootstrap_servers": "kafka"}, "bootstrap_servers"),
        ({"delivery": "at-most-once"}, "at-least-once"),
        ({"dead_letter_queue": {"topic": "waybill.retries"}}, "waybill.retries is used more than once"),
        ({"compression": "bzip2"}, "compression"),
        ({"dead_letter_queue": {"max_dlq_retries": 0}}, "max_dlq_retries"),
    ],
)
def test_invalid_values_are_refused_by_name(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        loaded(**values)


def test_a_relayer_without_streams_loads_no_kafka_client() -> None:
    loads = "import sys, bridge.cli.relayer, bridge.service.relayer_service, bridge.store"
    asked = f"{loads}; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
