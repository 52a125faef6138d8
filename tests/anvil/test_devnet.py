"""A devnet comes up, stays, and goes, as a person would do it."""

from __future__ import annotations

import asyncio
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
from tests.anvil.rpc import free_ports
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


def test_a_deployment_that_fails_leaves_no_process(home: Path) -> None:
    (first_port, _) = free_ports(2)
    (home / "deployments").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="deployments"):
        up(home, first_port)
    assert anvils_below(home) == []
    assert devnet.status(home=home) == ()
