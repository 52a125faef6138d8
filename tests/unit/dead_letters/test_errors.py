"""The page of errors is the table, the table is what the bridge does."""

from __future__ import annotations

import pytest

from bridge.dead_letters.errors import ERRORS, PAGE, Disposition, MappedError, page
from bridge.domain.errors import StoreBusyError
from bridge.domain.failures import FailureKind
from bridge.domain.ports import CallRevertedError
from bridge.domain.retry_policy import classify

RAISED = [row for row in ERRORS if row.error is not None]
THEIRS = {
    "KafkaProducer", "KafkaConsumer", "OffsetCommit", "Redis", "Io", "MessageDeserialization", "FilterEvaluation",
    "TransformEvaluation", "JsonPathNotFound", "Compression", "RetryExhausted", "Config", "DslParse", "DeadLetterQueue",
}  # fmt: skip


@pytest.mark.requirement("SF-115")
def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m bridge.dead_letters.errors"


@pytest.mark.requirement("SF-53", "SF-79", "SF-80", "SF-81")
def test_every_error_of_the_document_has_a_row() -> None:
    found = {row.theirs.split("{")[0].split(",")[0] for row in ERRORS}
    assert found >= THEIRS
    halting = {row.theirs for row in ERRORS if row.disposition in (Disposition.HALT, Disposition.NOT_STARTED)}
    assert halting == {"Config", "DslParse", "DeadLetterQueue"}


@pytest.mark.requirement(
    "SF-44", "SF-45", "SF-46", "SF-47", "SF-48", "SF-49", "SF-50", "SF-73", "SF-74", "SF-75", "SF-76", "SF-77"
)
@pytest.mark.parametrize("row", RAISED, ids=[row.theirs for row in RAISED])
def test_each_error_is_treated_as_its_row_says(row: MappedError) -> None:
    assert row.error is not None
    error = row.error(b"") if row.error is CallRevertedError else row.error("x")
    bounded = Disposition.DEAD_LETTER if classify(error) is FailureKind.TERMINAL else Disposition.RETRY
    assert bounded is row.disposition
    assert row.error is not StoreBusyError or row.disposition is Disposition.RETRY
