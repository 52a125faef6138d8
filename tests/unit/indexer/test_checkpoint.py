"""Spark's checkpoint of an earlier run is deleted at each start: the store alone says where the index goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.jobs.stream import delete_checkpoint
from indexer.model.errors import IndexerError


def test_earlier_checkpoint_is_deleted(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    delete_checkpoint(checkpoint)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1")
    delete_checkpoint(checkpoint)
    assert not checkpoint.exists()


def test_undeletable_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.symlink_to(tmp_path)  # `rmtree` deletes neither a link nor the folder that it names
    with pytest.raises(IndexerError, match=r"checkpoint can't be deleted: delete it by hand"):
        delete_checkpoint(checkpoint)
