"""What bench-index's endpoint answers to whoever asks as Ponder does: consistent, as a node's answers are."""

from __future__ import annotations

import json

import pytest

from bench.index.endpoint import _logs_of_topics, _rest_of_block
from bench.index.history import LOGS_OF_A_BLOCK, MESSAGES_OF_A_BLOCK, blocks_of_logs

BLOCK = 3
LOGS = memoryview(list(blocks_of_logs(BLOCK + 1))[BLOCK])


def test_each_log_of_the_topics_asked_for_is_in_a_transaction_of_its_block() -> None:
    everything = json.loads(f"[{bytes(LOGS).decode()}]")
    topics = sorted({log["topics"][0] for log in everything})
    assert len(topics) == 4
    block = _rest_of_block(BLOCK)
    hashes = {transaction["transactionIndex"]: transaction["hash"] for transaction in block["transactions"]}
    assert len(hashes) == MESSAGES_OF_A_BLOCK
    found = [log for topic in topics for log in json.loads(b"[" + _logs_of_topics(LOGS, [topic]) + b"]")]
    assert {log["logIndex"] for log in found} == {log["logIndex"] for log in everything}
    assert len(found) == len(json.loads(b"[" + _logs_of_topics(LOGS, [topics]) + b"]")) == LOGS_OF_A_BLOCK
    assert all(hashes[log["transactionIndex"]] == log["transactionHash"] for log in found)


def test_no_other_topics_are_chosen_by() -> None:
    assert _logs_of_topics(LOGS, ["0x" + "00" * 32]) == b""
    with pytest.raises(ValueError, match="only first topics"):
        _logs_of_topics(LOGS, [None, "0x" + "00" * 32])
