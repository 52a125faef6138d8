"""How often, and how seldom, an index starts a Spark that failed."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from structlog.testing import capture_logs

from indexer.model.errors import IndexerError
from indexer.spark.outage import SparkOutage

SLOW = RuntimeError("Python worker failed to connect back.\n\tat org.apache.spark.api.python")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pauses_grow_to_a_minute_and_never_end() -> None:
    clock = Clock()
    outage = SparkOutage(clock=clock)
    pauses = []
    with capture_logs() as logs:
        for _ in range(200):
            outage.failed(Py4JNetworkError("gone"))
            pauses.append(outage.wait)
            clock.now += outage.wait
        assert outage.wait == 0
        outage.over()
        outage.over()
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(pauses[6:]) == {60}
    assert [line["event"] for line in logs if line["log_level"] != "debug"] == [
        "stream failed, restarting",
        "stream recovered",
    ]
    outage.failed(SLOW)
    assert outage.wait == 1


def test_a_machine_too_busy_to_start_a_worker_is_no_failure() -> None:
    outage = SparkOutage(most=2)
    for _ in range(50):
        outage.failed(SLOW)
    outage.failed(RuntimeError("one"))
    outage.failed(RuntimeError("two"))
    with pytest.raises(IndexerError, match="53 times in a row; the last error: three"):
        outage.failed(RuntimeError("three\n\tat java"))
