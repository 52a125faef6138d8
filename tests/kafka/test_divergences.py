"""What the index finds contradicting is published when it begins and when it ends."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from bridge.protocol.indexed import DivergenceRecord
from bridge.records.streams import Stream
from bridge.store import Store, open_dead_letters
from bridge.streams.copying import Copier
from bridge.streams.settings import Semantics
from tests.builders import ALPHA, BETA, message
from tests.kafka.broker import Broker
from tests.kafka.life import CopyingPublisher, new_history, publish_all

pytestmark = pytest.mark.long


class Index:
    """What the relayer asks of the index's store."""

    def __init__(self) -> None:
        self.found: list[DivergenceRecord] = []

    def divergences(self) -> list[DivergenceRecord]:
        return self.found


def divergence(kind: str, message_id: bytes | None, evidence: str) -> DivergenceRecord:
    about = {"source_chain": ALPHA, "destination_chain": BETA, "severity": "critical", "next_action": "look"}
    return DivergenceRecord(kind=kind, message_id=message_id, evidence=evidence, **about)  # type: ignore[arg-type]  # both types


def test_divergence_is_published_at_its_begin_and_end(broker: Broker, tmp_path: Path) -> None:
    history = new_history(tmp_path, broker.servers, Semantics.EXACTLY_ONCE)
    index = Index()
    twice, gap = message().id, "nonce 7 is missing"
    with closing(Store(history.url)) as store, closing(open_dead_letters(history.url)) as log:
        copier = Copier(store.streams, dead_letters=log, index=lambda: nullcontext(index), divergence_interval=0)
        made = CopyingPublisher(store.streams, history.settings, copier)
        for evidence in ("executed 2 times", "executed 3 times"):
            index.found = [divergence("EXECUTED_TWICE", twice, evidence), divergence("NONCE_GAP", None, gap)]
            publish_all(made, store.streams)
        index.found = index.found[:1]
        publish_all(made, store.streams)
        made.close()
    records = [one.document for one in broker.records(history.settings.topic(Stream.DIVERGENCES))]
    of_message = [(one["event"], one["data"]["kind"]) for one in records if one["key"] == f"0x{twice.hex()}"]
    of_lane = [(one["event"], one["data"]["evidence"]) for one in records if one["key"] == f"{ALPHA}>{BETA}"]
    assert of_message == [("FOUND", "EXECUTED_TWICE")]
    assert of_lane == [("FOUND", gap), ("ENDED", gap)]
