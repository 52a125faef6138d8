"""The demonstration's own processes: none is left behind."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from bridge.devnet.demo.processes import Service


def test_service_ends_despite_ctrl_c_while_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(["--version"], tmp_path / "log")
    # in its place, one that does not listen
    service._process.wait()
    service._process = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], start_new_session=True, stdout=subprocess.PIPE
    )
    assert service._process.stdout is not None
    with service._process.stdout:
        service._process.stdout.readline()
        wait = service._process.wait

        def interrupted(timeout: float | None = None) -> int:
            if timeout is not None:
                raise KeyboardInterrupt
            return wait()

        monkeypatch.setattr(service._process, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            service.stop()
    assert service._process.returncode == -signal.SIGKILL
