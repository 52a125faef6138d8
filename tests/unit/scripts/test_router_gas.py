"""The gas bench tells figures of this run from recorded ones, and says what a folder of peers lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import router_gas

FIGURES = {"send_retriable": [1000, 2000], "send": [500], "resend": [700], "receive_3of3": [100, 200]}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(router_gas, "RESULT", tmp_path / "gas.json")
    monkeypatch.setattr(router_gas, "PEER_RESULTS", tmp_path / "peers")
    (tmp_path / "peers").mkdir()
    (tmp_path / "gas.json").write_text(json.dumps(FIGURES))
    return tmp_path


@pytest.mark.usefixtures("results")
def test_peers_that_were_not_measured_are_not_in_this_run() -> None:
    measured, recorded = router_gas.router_table().split("not in this run:\n")
    assert "Waybill, retriable" in measured
    assert "Glacis" not in measured
    assert "Glacis, retriable" in recorded


def test_a_peer_that_was_measured_is_in_this_run_and_nowhere_else(results: Path) -> None:
    (results / "peers" / "glacis.json").write_text(json.dumps(FIGURES))
    measured, recorded = router_gas.router_table().split("not in this run:\n")
    assert "1.0 / 2.0" in next(line for line in measured.splitlines() if line.startswith("Glacis, retriable"))
    assert "Glacis" not in recorded


def test_a_folder_without_a_known_peer_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(router_gas.PeerError, match=r"holds no peer that a harness knows; .*glacis/foundry\.toml"):
        router_gas.compile_peers(tmp_path)


def test_a_peer_that_does_not_compile_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / "glacis"
    (project / "contracts").mkdir(parents=True)
    (project / "foundry.toml").write_text(
        "[profile.default]\nsrc = 'contracts'\nsolc = 'nothing-here'\noffline = true\n"
    )
    (project / "contracts" / "GlacisRouter.sol").write_text("contract GlacisRouter {}\n")
    with pytest.raises(router_gas.PeerError, match=r"Glacis does not compile in .*glacis"):
        router_gas.compile_peers(tmp_path)
    assert "nothing-here" in capfd.readouterr().err
