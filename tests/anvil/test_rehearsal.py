"""`waybill rehearse` on forks of chains that play the public ones, with the GMPs' own contracts."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge.deploy.addresses import address_table
from bridge.devnet import anvil, network
from bridge.devnet.accounts import signer
from bridge.gmps.ccip.v2 import MESSAGE_SENT_V2
from bridge.protocol.gmps import Gmp
from tests.anvil.command import Ended, Waybill, environment_of
from tests.anvil.rpc import free_ports, rpc
from tests.anvil.running import start
from tests.anvil.test_network_plan import GUARDIANS, NAMES, PAYMENTS, Played, move_to
from tests.unit.cli.command import Command

DATA_FEE = 10**6 + 3  # wei for a byte, as a rollup may ask for


OWNER = signer("owner of a rehearsal", 0).address  # has no key here, and no money anywhere
ROLES = GUARDIANS | {role.upper(): signer(role, 0).address for role in ("revoker", "tripwire")} | {"OWNER": OWNER}


@dataclass
class Public:
    """Chains that play public ones, and the folder from which their network is rehearsed."""

    played: Played
    home: Path
    unused: str  # a URL that nobody listens at
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = ROLES | PAYMENTS | {"HOME": str(self.home / "user"), "TMPDIR": str(self.home / "tmp")}
        for process in self.played.processes:
            prefix = process.name.upper().replace("-", "_")
            urls = (self.unused, process.url, f"{process.url}/3")
            self.environment |= {f"{prefix}_RPC_{number}": url for number, url in enumerate(urls, 1)}
        for folder in ("user", "tmp"):
            (self.home / folder).mkdir()

    @property
    def file(self) -> Path:
        return self.home / "networks" / "testnet.json"

    @property
    def forks(self) -> list[psutil.Process]:
        """The processes that fork these chains."""
        found = (
            one for one in psutil.process_iter(["cmdline"]) if str(self.home) in " ".join(one.info["cmdline"] or ())
        )
        return [one for one in found if "--fork-url" in one.info["cmdline"]]

    def blocks(self) -> list[int]:
        return [int(rpc(one.url, "eth_blockNumber"), 16) for one in self.played.processes]

    def transactions_since(self, blocks: list[int]) -> list[str]:
        """What was sent to the chains since those blocks."""
        found = []
        for process, first in zip(self.played.processes, blocks, strict=True):
            for number in range(first + 1, int(rpc(process.url, "eth_blockNumber"), 16) + 1):
                found += rpc(process.url, "eth_getBlockByNumber", hex(number), False)["transactions"]
        return found

    def rehearse(self, *arguments: str) -> Ended:
        return Waybill(self.home, limit=180)("rehearse", str(self.file), "--json", *arguments, **self.environment)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Public]:
    home = tmp_path_factory.mktemp("rehearsal")
    logs = tmp_path_factory.mktemp("logs")
    *ports, unused = free_ports(len(NAMES) + 1)
    processes = tuple(
        anvil.start(name=name, chain_id=address_table().chain(name).chain_id, port=port, log=logs / f"{name}.log")
        for name, port in zip(NAMES, ports, strict=True)
    )
    try:
        played = Played(processes, asyncio.run(network.deploy_gmps(list(processes))))
        yield Public(played, home, f"http://127.0.0.1:{unused}/secret-key")
    finally:
        anvil.stop(list(processes))


@pytest.fixture
def document(
    public: Public, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[dict[str, Any]]:
    """What the network file says that was created; `write` puts a changed one there."""
    monkeypatch.setenv("WAYBILL_HOME", str(public.home))
    assert Command(monkeypatch, capsys)("network", "create", "testnet", "--chains", ",".join(NAMES)).code == 0
    yield move_to(public.played, public.file)
    public.file.unlink()


def deliverable(public: Public, document: dict[str, Any]) -> None:
    """Names the one DVN that the chains have."""
    for planned in document["chains"]:
        planned["verification"]["layerzero"]["requiredDvns"].pop()
    public.file.write_text(json.dumps(document))


def test_all_of_a_plan_is_rehearsed_and_the_chains_are_only_read(public: Public, document: dict[str, Any]) -> None:
    for price in document["payments"]["prices"].values():
        price["dataFee"] = DATA_FEE
    deliverable(public, document)
    before = public.blocks()
    ended = public.rehearse("--accept-single-verifier")
    assert ended.code == 0, ended.err + ended.out
    assert public.transactions_since(before) == []
    assert public.forks == []
    assert [*(public.home / "tmp").iterdir(), *(public.home / "user").iterdir()] == []
    assert not (public.home / "deployments").exists()

    value = ended.value
    assert value["notRehearsed"] == []
    assert set(value["stoodInFor"]) == {gmp.label for gmp in Gmp}
    steps = {(one["chain"], one["step"]): one for one in value["steps"]}
    for here, there in (NAMES, NAMES[::-1]):
        for step in ("deploy", "wire", f"paused the lane to {there}", "resumed hyperlane"):
            assert steps[here, step]["gas"] > 40_000
        for gmp in Gmp:
            assert int(steps[here, f"sent over {gmp.label} to {there}"]["feeWei"]) > 0
            delivered = steps[there, f"delivered over {gmp.label} from {here}"]
            if gmp is Gmp.CCIP:  # its off-ramp brings the message
                assert (delivered["transactions"], delivered["gas"]) == (0, 0)
            else:
                assert delivered["gas"] > 50_000
        assert (here, f"retried over axelar, wormhole to {there}") in steps
        assert (there, f"rescued over wormhole from {here}") in steps
        assert value["chains"][here]["ownerHolds"] == "0"
        deployment = sum(int(steps[here, step]["wei"]) for step in ("deploy", "wire"))
        gas = sum(steps[here, step]["gas"] for step in ("deploy", "wire")) * value["chains"][here]["weiPerGas"]
        assert (deployment - gas) % DATA_FEE == 0
        assert deployment - gas > 50_000 * DATA_FEE, "the contracts' code is data, too"
        assert int(value["chains"][here]["ownerNeeds"]) == deployment


def test_what_can_not_be_delivered_is_named_and_never_shown_as_passed(public: Public, document: dict[str, Any]) -> None:
    for planned in document["chains"]:
        for gmp in ("axelar", "wormhole"):
            del planned["gmps"][gmp], planned["verification"][gmp]
    public.file.write_text(json.dumps(document))
    url, ramp = public.played.processes[1].url, public.played.gmps.chains[1].gmps["ccip"]["onRampV2"]
    code = str(rpc(url, "eth_getCode", ramp, "latest"))
    another = code.replace(MESSAGE_SENT_V2.hex(), "00" * 32)
    assert another != code
    rpc(url, "anvil_setCode", ramp, another)
    try:
        ended = public.rehearse()  # the second DVN is none, and one lane of CCIP's has an event that nobody knows
    finally:
        rpc(url, "anvil_setCode", ramp, code)
    assert ended.code == 1, ended.err
    gaps = {one["what"]: one["why"] for one in ended.value["notRehearsed"]}
    assert set(gaps) == {
        "layerzero from sepolia to base-sepolia",
        "layerzero from base-sepolia to sepolia",
        "ccip from base-sepolia to sepolia",
        "retry from base-sepolia to sepolia",
    }
    assert "layerzero gives no quote" in gaps["layerzero from sepolia to base-sepolia"]
    assert "compare their addresses" in gaps["ccip from base-sepolia to sepolia"]
    assert gaps["retry from base-sepolia to sepolia"].startswith("hyperlane delivers from base-sepolia to sepolia, and")
    assert set(ended.value["stoodInFor"]) == {"hyperlane", "ccip"}
    steps = {(one["chain"], one["step"]) for one in ended.value["steps"]}
    assert not any("layerzero" in step for _, step in steps)
    assert ("sepolia", "retried over ccip to base-sepolia") in steps


def test_ctrl_c_leaves_no_fork_and_no_file(public: Public, document: dict[str, Any]) -> None:
    deliverable(public, document)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        environment = environment_of(public.home) | public.environment
        arguments = ("rehearse", str(public.file), "--accept-single-verifier")
        process = start(*arguments, output=output, errors=errors, environment=environment)
        try:
            deadline = time.monotonic() + 60
            while len(public.forks) < len(NAMES):
                assert time.monotonic() < deadline
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
        finally:
            process.kill()
        errors.seek(0)
        *_, said, left = errors.read().decode().splitlines()
    assert said == "interrupted"
    assert left.startswith("the forks of sepolia and base-sepolia are stopped, and nothing was sent")
    assert public.forks == []
    assert list((public.home / "tmp").iterdir()) == []
