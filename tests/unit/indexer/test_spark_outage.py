"""How often, and how seldom, an index starts a Spark that failed."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from structlog.testing import capture_logs

from indexer.model.errors import IndexerError
from indexer.spark.outage import SparkOutage, first_line

SLOW = RuntimeError("Python worker failed to connect back.\n\tat org.apache.spark.api.python")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.finding("I3")
@pytest.mark.finding("R6")
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
    assert [line["event"].partition(";")[0] for line in logs] == ["Spark failed", "Spark works again"]
    outage.failed(SLOW)
    assert outage.wait == 1


@pytest.mark.finding("I3")
def test_a_machine_too_busy_to_start_a_worker_is_no_failure() -> None:
    outage = SparkOutage(most=2)
    for _ in range(50):
        outage.failed(SLOW)
    outage.failed(RuntimeError("one"))
    outage.failed(RuntimeError("two"))
    with pytest.raises(IndexerError, match="53 times in a row, at last with: three"):
        outage.failed(RuntimeError("three\n\tat java"))


@pytest.mark.finding("O1")
def test_a_reason_is_one_line_of_a_stack() -> None:
    assert first_line(SLOW) == "Python worker failed to connect back."
    assert first_line(ConnectionRefusedError()) == "ConnectionRefusedError"
    assert len(first_line(RuntimeError("x" * 9_000))) == 300
