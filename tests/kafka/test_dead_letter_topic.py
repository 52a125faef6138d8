"""What a topic refuses, and messages whose deliveries died, arrive as they were; when even that fails, publishing halts."""

from __future__ import annotations

import random
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from bridge.dead_letters.dead_letter import entered_record
from bridge.dead_letters.signing import KeySealer
from bridge.devnet.accounts import RELAYER_KEY, account
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.store import Store, open_dead_letters
from bridge.streams.settings import Semantics
from tests.anvil.rpc import free_ports
from tests.builders import BETA, block, message, observed_range
from tests.kafka.broker import Broker
from tests.kafka.life import History, new_history, publish_all, publisher
from tests.support.settings import tuned

pytestmark = pytest.mark.long

BIG = random.Random(1).randbytes(4_000)  # which no compression makes smaller
ORIGINAL = frozenset({"content-type", "waybill-stream", "waybill-event", "waybill-version"})
BOTH = pytest.mark.parametrize("semantics", list(Semantics))


def with_queue(history: History, **changes: object) -> History:
    queue = tuned(history.settings.dead_letter_queue, **changes)
    return History(history.url, tuned(history.settings, dead_letter_queue=queue))


def observe(history: History, *payloads: bytes) -> None:
    sent = [message(place, payload=payload) for place, payload in enumerate(payloads, 1)]
    with closing(Store(history.url)) as store:
        store.observations.record(observed_range(*sent))


def die(history: History) -> None:
    """The delivery of a message dies, and leaves a letter."""
    with closing(Store(history.url)) as store, closing(open_dead_letters(history.url)) as log:
        store.observations.record(observed_range(message()))
        (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=30)
        last = Failure(at=201, kind=FailureKind.TRANSIENT, code="TransientError", message="no answer")
        letter = entered_record(
            entry, [], last, reason="MAX_RETRIES_EXCEEDED", siblings=[entry], now=202, retention=86_400
        )
        assert log.append(letter, KeySealer(account(RELAYER_KEY)))


@BOTH
@pytest.mark.parametrize("keeps_headers", [True, False])
def test_rejected_record_goes_to_the_dead_letter_topic(
    broker: Broker, tmp_path: Path, semantics: Semantics, *, keeps_headers: bool
) -> None:
    history = new_history(tmp_path, broker.servers, semantics)
    history = with_queue(
        history, compression="gzip", include_original_headers=keeps_headers, include_stack_trace=not keeps_headers
    )
    topic, queue = history.topics[0], history.settings.dead_letter_queue.topic
    broker.make_topic(topic, max_message_bytes="3000")
    observe(history, b"small", BIG, b"small too")
    with publisher(history) as (made, streams):
        publish_all(made, streams)
        assert (streams.status().sent["refused"], streams.status().halted) == (1, "")
    big, small = f"0x{message(2, payload=BIG).id.hex()}", f"0x{message(1, payload=b'small').id.hex()}"
    arrived = [(one.key, one.document["event"]) for one in broker.records(topic)]
    assert (big, "ROUTED") not in arrived
    assert {(small, "ROUTED"), (big, "ATTEMPTED"), (big, "DISPATCHED")} <= set(arrived)
    (refused,) = broker.records(queue)
    assert (refused.key, refused.document["key"], refused.document["event"]) == (big, big, "ROUTED")
    assert BIG.hex() in refused.document["data"]["envelope"]
    said = {name: value for name, value in refused.headers.items() if name not in ORIGINAL}
    stack, at = said.pop("waybill-stack-trace", ""), datetime.fromisoformat(said.pop("waybill-timestamp"))
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert "large" in said.pop("waybill-error")
    assert said == {
        "waybill-error-type": "MSG_SIZE_TOO_LARGE",
        "waybill-reason": "REFUSED",
        "waybill-source-topic": topic,
        "waybill-source-partition": big,
        "waybill-source-offset": str(refused.document["version"]),
        "waybill-pipeline": "store>kafka",
        "waybill-destination": broker.servers,
        "waybill-filter": "messages",
        "waybill-transform": "JSON",
    }
    assert (refused.headers.keys() >= ORIGINAL) is keeps_headers
    assert (refused.headers.get("waybill-event") == "ROUTED") is keeps_headers
    assert ("File" in stack) is not keeps_headers
    assert (broker.compressions(queue), broker.compressions(topic)) == ({"gzip"}, {"lz4"})


@pytest.mark.parametrize("keeps_headers", [True, False])
def test_dead_message_is_in_the_dead_letter_topic(broker: Broker, tmp_path: Path, *, keeps_headers: bool) -> None:
    history = new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE)
    history = with_queue(history, include_original_headers=keeps_headers, include_stack_trace=not keeps_headers)
    die(history)
    with publisher(history) as (made, streams):
        publish_all(made, streams)
    (letter,) = broker.records(history.topics[-1])
    (original,) = broker.records(history.settings.dead_letter_queue.topic)
    assert (letter.document["event"], letter.key) == ("ENTERED", f"0x{message().id.hex()}")
    assert (original.key, original.value) == (letter.key, message().encode())
    assert letter.document["data"]["document"]["headers"].items() <= original.headers.items()
    assert original.headers["waybill-error"] == "no answer"
    if keeps_headers:
        assert original.headers["waybill-original-gmp"] == "hyperlane"
        assert original.headers["waybill-original-block-hash"] == f"0x{block(10).hash.hex()}"
        assert "waybill-stack-trace" not in original.headers
    else:
        assert not [name for name in original.headers if name.startswith("waybill-original-")]
        assert "TransientError" in original.headers["waybill-stack-trace"]
    assert broker.compressions(history.settings.dead_letter_queue.topic) == {"none"}


def test_unavailable_dead_letter_topic_halts_publishing(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.streams.kafka._PATIENCE", 1.0)
    pauses: list[float] = []
    monkeypatch.setattr("bridge.streams.kafka.time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    (nobody,) = free_ports(1)
    history = new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE)
    away = with_queue(history, brokers=f"127.0.0.1:{nobody}")
    die(history)
    with publisher(away) as (made, streams), structlog.testing.capture_logs() as logs:
        publish_all(made, streams)
        waiting = streams.status().waiting
        assert "in all 3 attempts" in streams.status().halted
        assert pauses == [away.settings.dead_letter_queue.PAUSE] * 2
        assert [one["attempt"] for one in logs if one["event"] == "write to dead-letter topic failed"] == [1, 2, 3]
        (critical,) = [one for one in logs if one["log_level"] == "critical"]
        assert "no answer" in critical["original_error"]
        assert critical["record"].startswith('{"stream":"dead_letters"')
        assert not made.publish()
        assert (streams.status().waiting, broker.records(*history.topics)) == (waiting, [])
    with publisher(history) as (made, streams):
        assert streams.resume()
        publish_all(made, streams)
    assert len(broker.records(*history.topics)) == waiting
    assert len(broker.records(history.settings.dead_letter_queue.topic)) == 1


def test_rejected_record_without_a_dead_letter_topic_halts(broker: Broker, tmp_path: Path) -> None:
    history = new_history(tmp_path, broker.servers, Semantics.AT_LEAST_ONCE)
    history = with_queue(history, enabled=False)
    broker.make_topic(history.topics[0], max_message_bytes="3000")
    observe(history, BIG)
    with publisher(history) as (made, streams):
        publish_all(made, streams)
        assert "is disabled" in streams.status().halted
        assert streams.status().waiting == 3
