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
    monkeypatch.setattr(router_gas, "FLOOR", tmp_path / "floor.json")
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


def test_the_floor_is_beside_the_router(results: Path) -> None:
    floor = {"send_retriable": [900, 1800], "send": [450], "resend": [650], "batch_of_ten": [1000, 0, 0, 4000, 8000, 0]}
    (results / "floor.json").write_text(json.dumps(floor))
    measured, _ = router_gas.router_table().split("not in this run:\n")
    assert "0.9 / 1.8" in next(line for line in measured.splitlines() if line.startswith("floor, retriable"))


def test_each_message_of_a_batch_is_compared_with_a_single_send(results: Path) -> None:
    (results / "gas.json").write_text(json.dumps({"send_retriable": [1000, 2000, 4000], "send": [500, 1000, 2000]}))
    (results / "floor.json").write_text(json.dumps({"batch_of_ten": [1000, 2000, 3000, 4000, 10000, 20000]}))
    retriable, plain = router_gas.batch_table().splitlines()[1:]
    assert retriable.endswith("0.4 / 1.0 / 2.0, of a single send 0.40 / 0.50 / 0.50")
    assert plain.endswith("0.1 / 0.2 / 0.3, of a single send 0.20 / 0.20 / 0.15")


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
