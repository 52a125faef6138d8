"""A devnet comes up, stays, and goes, as a person would do it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge import devnet
from bridge.devnet import ChainState, DevnetError, PortTakenError
from bridge.devnet.anvil import start, stop
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from tests.anvil.devnets import silent
from tests.anvil.rpc import free_ports, rpc
from tests.waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    devnet.down(home=tmp_path)


def up(home: Path, first_port: int, **options: Any) -> devnet.Devnet:
    return asyncio.run(devnet.up(home=home, first_port=first_port, **options))


def anvils_below(home: Path) -> list[int]:
    """Processes that the devnet below a folder started, by their log files."""
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "anvil" and any(str(home) in file.path for file in process.open_files()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_up_again_changes_nothing_and_down_leaves_no_process(home: Path) -> None:
    (first_port, _) = free_ports(2)
    first = up(home, first_port)
    assert first.started
    assert [chain.name for chain in first.chains] == ["alpha", "beta"]
    assert [chain.chain_id for chain in first.chains] == [31337, 31338]
    assert sorted(anvils_below(home)) == sorted(chain.pid for chain in first.chains)

    second = up(home, first_port)
    assert not second.started
    assert second.deployment == first.deployment
    assert [chain.pid for chain in second.chains] == [chain.pid for chain in first.chains]

    assert devnet.down(home=home) == ("alpha", "beta")
    assert anvils_below(home) == []
    assert devnet.status(home=home) == ()
    assert devnet.down(home=home) == ()


def test_chains_outlive_their_starter_and_its_signals(home: Path) -> None:
    (first_port, _) = free_ports(2)
    program = (
        "import asyncio, pathlib, time\n"
        "from bridge import devnet\n"
        f"asyncio.run(devnet.up(home=pathlib.Path({str(home)!r}), first_port={first_port}))\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"up\n"
        os.killpg(caller.pid, signal.SIGINT)  # as Ctrl-C does
    assert [chain.state for chain in devnet.status(home=home)] == [ChainState.RUNNING] * 2


def test_chain_leaves_no_states_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users_home = tmp_path / "user"
    users_home.mkdir()
    monkeypatch.setenv("HOME", str(users_home))
    (port,) = free_ports(1)
    chain = start(name="alpha", chain_id=31337, port=port, log=tmp_path / "devnet" / "alpha.log")
    try:
        rpc(chain.url, "anvil_mine", hex(2_000))  # more than anvil keeps in memory
        assert any(chain.states.rglob("*.json"))
    finally:
        stop([chain])
    assert list(users_home.rglob("*")) == []
    assert [path.name for path in (tmp_path / "devnet").iterdir()] == ["alpha.log"]


def height(url: str) -> int:
    return int(rpc(url, "eth_blockNumber"), 16)


@pytest.mark.parametrize("taken", [0, 1], ids=["first", "second"])
def test_taken_port_is_named_and_nothing_is_left_running(home: Path, taken: int) -> None:
    ports = free_ports(2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[taken]))
        other.listen()
        with pytest.raises(PortTakenError) as refused:
            up(home, ports[0])
    text = str(refused.value)
    assert f"port {ports[taken]}" in text
    assert "--port" in text
    assert f"process {os.getpid()}" in text
    assert ["alpha", "beta"][taken] in text
    assert anvils_below(home) == []


def test_a_crashed_chain_is_noticed_and_up_says_what_to_do(home: Path) -> None:
    (first_port, _) = free_ports(2)
    started = up(home, first_port)
    os.kill(started.chains[1].pid, signal.SIGKILL)
    eventually(lambda: devnet.status(home=home)[1].state is ChainState.CRASHED, "the crash is noticed")
    assert devnet.status(home=home)[0].state is ChainState.RUNNING
    with pytest.raises(DevnetError, match=r"beta crashed.*waybill devnet down"):
        up(home, first_port)
    devnet.down(home=home)
    assert anvils_below(home) == []
    assert up(home, first_port).started


def test_a_stopped_chain_is_silent_and_down_ends_it_all_the_same(home: Path) -> None:
    (first_port, _) = free_ports(2)
    started = up(home, first_port)
    with silent(started.chains[0].pid):
        assert devnet.status(home=home)[0].state is ChainState.SILENT
        devnet.down(home=home)
    assert anvils_below(home) == []


def test_reused_process_id_is_not_taken_for_a_chain(home: Path) -> None:
    record = home / "build" / "devnet" / "devnet.json"
    record.parent.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        chain = {"name": "alpha", "chain_id": 31337, "port": 1, "pid": bystander.pid, "started_at": 1.0, "log": "x"}
        record.write_text(json.dumps({"blockTime": 1, "chains": [chain]}))
        assert devnet.status(home=home)[0].state is ChainState.CRASHED
        devnet.down(home=home)
        assert bystander.poll() is None, "it was spared"
        bystander.kill()


@pytest.mark.parametrize(("options", "text"), [({"chains": 3}, "not 3"), ({"block_time": 7}, "7 s")])
def test_a_devnet_of_another_shape_is_not_put_over_a_running_one(
    home: Path, options: dict[str, int], text: str
) -> None:
    (first_port, _) = free_ports(2)
    up(home, first_port)
    with pytest.raises(DevnetError, match=text):
        up(home, first_port, **options)


@pytest.mark.parametrize("chains", [0, 1, 9])
def test_a_number_of_chains_that_makes_no_network_is_refused(home: Path, chains: int) -> None:
    with pytest.raises(DevnetError, match="2 to 8 chains"):
        up(home, 30_000, chains=chains)


def test_a_deployment_that_fails_leaves_no_process(home: Path) -> None:
    (first_port, _) = free_ports(2)
    (home / "deployments").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="deployments"):
        up(home, first_port)
    assert anvils_below(home) == []
    assert devnet.status(home=home) == ()


def test_a_damaged_record_is_said_to_be_damaged(home: Path) -> None:
    record = home / "build" / "devnet" / "devnet.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"chains": [')
    with pytest.raises(DevnetError, match="can't be read"):
        devnet.status(home=home)
    record.unlink()


def test_four_chains_are_all_connected_with_each_other(home: Path) -> None:
    first_port = free_ports(4)[0]
    started = up(home, first_port, chains=4)
    assert [chain.name for chain in started.deployment.chains] == ["alpha", "beta", "gamma", "delta"]
    mailboxes = {HyperlaneContracts.of(chain).mailbox for chain in started.deployment.chains}
    assert len(mailboxes) == 4, "an address that is valid on two chains would hide mistakes"
