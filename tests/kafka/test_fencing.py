"""One producer at a time: another relayer of the same store waits for its turn, one of another store halts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.protocol.ports import TransientError
from bridge.store import Store
from bridge.streams.publisher import Publisher
from bridge.streams.settings import Semantics
from tests.kafka.broker import Broker
from tests.kafka.life import new_history, publish_all, publisher
from tests.kafka.test_publishing import all_arrived, happen, recorded
from tests.support.settings import tuned
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long


def fails_then_sees_why(made: Publisher) -> None:
    """Kafka first refuses a fenced producer; what the topics say of it is seen in the next step."""
    with pytest.raises(TransientError, match=r"(?i)fenced|epoch"):
        made.publish()
    assert not made.publish()


def test_shared_transactional_id_fences_the_first_store(broker: Broker, tmp_path: Path) -> None:
    first = new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE)
    second = new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE)
    second = replace(second, settings=tuned(second.settings, transactional_id=first.settings.transactional_id))
    for history in (first, second):
        happen(history, 1, 2)
    with publisher(first) as (one, streams), publisher(second, "other") as (other, others):
        publish_all(one, streams)
        publish_all(other, others)
        happen(first, 3, 2)
        expected = recorded(first)
        fails_then_sees_why(one)
        status = streams.status()
        assert "fenced: worker other of store" in status.halted
        assert first.settings.transactional_id in status.halted
        assert status.waiting == sum(map(len, expected.values()))
        assert not others.status().halted
        assert streams.resume()  # the other relayer has been ended
        publish_all(one, streams)
        assert not streams.status().waiting
    with closing(Store(first.url)) as store:
        assert not store.streams.status().halted


def test_relayers_of_one_store_publish_in_turn(broker: Broker, tmp_path: Path) -> None:
    history = replace(new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE), lease=PATIENCE)
    happen(history, 1, 2)
    expected = recorded(history)
    slow = replace(history, lease=0.01)  # it does not come to claim again in time
    with publisher(slow, "first") as (first, streams), publisher(history, "second") as (second, _):
        publish_all(first, streams)
        happen(history, 3, 2)
        expected |= recorded(history)
        publish_all(second, streams)
        assert not first.publish()
        assert (streams.status().holder, streams.status().halted) == ("second", "")
    all_arrived(broker, history, expected)
