"""How often, and how seldom, an index starts a Spark that failed."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from structlog.testing import capture_logs

from indexer.model.errors import IndexerError
from indexer.spark.outage import SparkOutage, reason_of

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
    with pytest.raises(IndexerError, match="53 times in a row, at last with: three"):
        outage.failed(RuntimeError("three\n\tat java"))


def test_a_reason_is_one_line_of_a_stack() -> None:
    assert reason_of(SLOW) == "Python worker failed to connect back."
    assert reason_of(ConnectionRefusedError()) == "ConnectionRefusedError"
    assert len(reason_of(RuntimeError("x" * 9_000))) == 300


# As PySpark 4 words an error of the batch's function, and one of the source.
OF_THE_BATCH = """[STREAM_FAILED] Query [id = 48aef73c, runId = 16b77095] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An exception \
was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "stream.py", line 16, in apply
    store.apply()
    ^^^^^^^^^^^^^
ValueError: the first

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked
[SQL: SELECT 1
 FROM x]
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Current State: ACTIVE
"""
OF_THE_SOURCE = """[STREAM_FAILED] Query [id = 29638821] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most \
recent call last):
  File "datasource_internal.py", line 126, in latestOffset
    iter, end = self.simple_reader.read(start)
OSError: [Errno 28] No space left on device
 SQLSTATE: 38000 SQLSTATE: XXKST
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (OF_THE_BATCH, "OperationalError: (sqlite3.OperationalError) database is locked"),
        (OF_THE_SOURCE, "OSError: [Errno 28] No space left on device"),
    ],
)
def test_a_warning_says_what_failed_and_when_it_goes_on_and_keeps_the_stack_for_who_debugs(
    said: str, reason: str
) -> None:
    with capture_logs() as logs:
        SparkOutage().failed(RuntimeError(said))
    warning, detail = logs
    assert (warning["log_level"], warning["reason"], warning["seconds"]) == ("warning", reason, 1.0)
    assert (detail["log_level"], detail["error"]) == ("debug", said)
