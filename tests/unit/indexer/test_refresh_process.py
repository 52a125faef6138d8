"""The process that refreshes the tables beside the running index."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from indexer.jobs.refresh_process import RefreshProcess


def test_refresh_runs_once_at_a_time_and_ends_with_the_index(tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = (sys.executable, "-c", f"import time; open({str(started)!r}, 'a').write('1'); time.sleep(600)")
    process = RefreshProcess(command)
    process.start()
    first = process._process
    process.start()
    assert first is not None
    assert process._process is first
    process.close()
    assert first.returncode is not None
    assert not process.is_running()


def test_failed_refresh_is_logged_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(RefreshProcess((sys.executable, "-c", "raise SystemExit('no space left')"))) as process:
        process.run()
    assert "no space left" in capsys.readouterr().out


def test_without_a_command_nothing_is_refreshed() -> None:
    with closing(RefreshProcess(())) as process:
        process.run()
        assert not process.is_running()
