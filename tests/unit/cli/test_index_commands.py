"""`waybill index verify`, `divergence`, `repair`, `maintain` and `report`, typed over a real store, lake and HTTP endpoints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from deltalake import DeltaTable
from psycopg import sql
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bridge.cli.workspace import Workspace
from bridge.domain.outbox import event_id_of
from bridge.domain.ports import Call, Fees
from bridge.domain.spending import GWEI
from bridge.domain.transactions import Inclusion, SignedVersion, SlotRequest
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.store import open_store
from indexer.lake.lake import Lake
from indexer.lake.promotion import promote
from indexer.store.engine import reading_engine
from indexer.store.store import Store
from tests.builders import block, observed_range
from tests.postgresql import Server
from tests.s3 import S3
from tests.unit.cli.command import Command
from tests.unit.indexer.endpoint import WithRouter
from tests.unit.indexer.logs import ALPHA, BETA, ROUTERS
from tests.unit.indexer.world import START, SimulatedChain, created, executed, new_world, received, routed, sent_message

SENT = sent_message(quorum=1)


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


class Network:
    """Two simulated chains that answer over HTTP, and their index."""

    def __init__(self, home: Path) -> None:
        self.alpha, self.beta = new_world()
        self.workspace = Workspace("devnet", home)
        self.servers = [_serve(WithRouter(chain)) for chain in (self.alpha, self.beta)]
        self.alpha.mine(created(SENT), routed(SENT))
        self.beta.mine(received(SENT, 1), executed(SENT))
        file = self.workspace.deployments_file
        file.parent.mkdir(parents=True)
        file.write_text(Deployment(version=1, network="devnet", chains=tuple(self._chains())).to_json())

    def _chains(self) -> Iterator[ChainDeployment]:
        for name, chain, server in zip(("alpha", "beta"), (self.alpha, self.beta), self.servers, strict=True):
            yield ChainDeployment(
                chain_id=chain.chain_id,
                name=name,
                rpc_urls=(f"http://127.0.0.1:{server.server_port}",),
                start_block=0,
                confirmations=1,
                router="0x" + ROUTERS[chain.chain_id].hex(),
                adapters={},
                gmps={},
            )

    def index(self, *left_out: SimulatedChain) -> None:
        store, lake = Store(self.workspace.index_url), Lake(self.workspace.lake)
        for chain in (self.alpha, self.beta):
            range_ = chain.range(0, final=chain.head)
            events = chain.events(0, chain.head)
            store.apply(events.slice(0, 0) if chain in left_out else events, {chain.chain_id: range_})
        promote(store, lake, {ALPHA: 0, BETA: 0})
        store.close()

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


def _serve(endpoint: WithRouter) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            answer = endpoint.handle(httpx.Request("POST", "http://simulated", content=content))
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    return server


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    made = Network(tmp_path)
    yield made
    made.close()


def test_verify_prints_what_it_compared_and_succeeds_only_if_all_lanes_are_equal(
    network: Network, waybill: Command
) -> None:
    network.index(network.beta)
    ended = waybill("index", "verify", "--json")
    assert ended.code == 1
    value = json.loads(ended.out)
    assert value["verdicts"] == {"equal": 3, "different": 1}
    (wrong,) = [found for lane in value["lanes"] for found in lane["wrong"]]
    assert (wrong["missing"], wrong["surplus"]) == (2, 0)
    assert "--repair" in ended.error["next"]
    assert waybill("index", "divergence").code == 1
    repaired = waybill("index", "verify", "--repair")
    assert (repaired.code, "4 equal" in repaired.out) == (0, True)
    verified = waybill("index", "verify")
    assert verified.code == 0
    ends = re.findall(r"· …(\S+)", verified.out)
    assert ends
    assert all(re.fullmatch("[0-9a-f]{8}", end) for end in ends), "also those of small sums"
    nothing = waybill("index", "divergence")
    assert (nothing.code, "no divergence" in nothing.out) == (0, True)


def test_verify_names_the_rows_of_the_store_that_are_not_those_of_the_lake_and_repairs_them(
    network: Network, waybill: Command
) -> None:
    network.index()
    store = Store(network.workspace.index_url)
    with store.engine.begin() as connection:
        connection.execute(text("update events set block_hash = x'00' where event = 'MessageExecuted'"))
        connection.execute(text("update receipts set duplicates = 3 where gmp = 1"))
    store.close()
    ended = waybill("index", "verify", "--json")
    value = json.loads(ended.out)
    assert (ended.code, value["verdicts"]) == (1, {"equal": 4})
    different = [found for table in value["rows"] for found in table["different"]]
    assert different == [
        f"MessageExecuted of 0x{SENT.id.hex()} in block 1, log 1, differs",
        f"0x{SENT.id.hex()}: receipt of GMP 1: duplicates is 3 in the store, and 0 by its events",
    ]
    assert ended.error["message"] == "2 rows differ"
    assert different[0] in waybill("index", "verify").out
    repaired = waybill("index", "verify", "--repair")
    assert (repaired.code, "events of chain 31338 in store and lake: 2 compared, 0 differ" in repaired.out) == (0, True)


ASKING_THE_INDEX = (
    ["index", "verify"],
    ["index", "divergence"],
    ["index", "tables"],
    ["report"],
    ["message", "list"],
    ["status"],
)


@pytest.mark.parametrize("command", ASKING_THE_INDEX, ids=" ".join)
def test_an_index_that_is_behind_says_so_first_and_is_no_verdict(
    network: Network, waybill: Command, command: list[str]
) -> None:
    network.index()
    fresh = waybill(*command)
    assert fresh.code == 0, fresh.err
    assert fresh.out.splitlines()[0].startswith(
        "index  up to date: alpha: block 1 of 1970-01-12 13:46:41 UTC, at the head"
    )
    for _ in range(120):
        network.beta.mine()
    assert waybill(*command).code == 0  # by 120 s, which is `index.max_lag`
    for _ in range(925):
        network.beta.mine()
    behind = waybill(*command)
    assert behind.code == 5
    first = behind.out.splitlines()[0]
    assert first.startswith("index  BEHIND, so what follows may be old or lack something: alpha: block 1 of")
    assert "at the head; beta: block 1 of 1970-01-12 13:46:41 UTC, 1045 blocks (1045 s) behind" in first
    assert "the index is behind: beta: block 1" in behind.err
    value = json.loads(waybill(*command, "--json").out)["index"]
    assert value["behind"] is True
    assert [(one["chain"], one["block"], one["blocksBehind"]) for one in value["chains"]] == [
        ("alpha", 1, 0),
        ("beta", 1, 1045),
    ]
    assert waybill(*command, "--max-behind", "1045").code == 0


def test_a_contradiction_goes_before_being_behind_and_both_are_said(network: Network, waybill: Command) -> None:
    network.beta.mine(executed(SENT))
    network.index()
    for _ in range(200):
        network.beta.mine()
    ended = waybill("index", "divergence")
    assert ended.code == 1
    assert "EXECUTED_TWICE; the index is behind: beta" in ended.err


def test_how_far_behind_a_silent_chain_is_goes_by_the_clock(network: Network, waybill: Command) -> None:
    network.index()
    network.servers[1].shutdown()
    network.servers[1].server_close()
    ended = waybill("message", "list")
    assert ended.code == 5
    assert "its head is not known, the chain does not answer" in ended.out.splitlines()[0]


def test_divergence_fails_with_evidence_severity_and_what_to_do(network: Network, waybill: Command) -> None:
    network.beta.mine(executed(SENT))
    network.index()
    ended = waybill("index", "divergence", "0x" + SENT.id.hex())
    assert ended.code == 1
    for expected in ("CRITICAL EXECUTED_TWICE", SENT.id.hex(), "executions on the destination: 2", "pause the lane"):
        assert expected in ended.out
    assert waybill("index", "divergence", "0x" + "77" * 32).code == 0


def test_repair_says_what_it_would_do_and_does_it_when_told(network: Network, waybill: Command) -> None:
    network.index()
    assert "nothing to repair" in waybill("index", "repair").out
    network.beta.reorganise(1, [], [])
    planned = waybill("index", "repair")
    assert "2 events of 1 messages above block -1 would be taken back" in planned.out
    assert len(Lake(network.workspace.lake).events(BETA, 0, 9)) == 2
    done = waybill("index", "repair", "--yes", "--json")
    assert json.loads(done.out)["violations"][0]["repaired"] is True
    assert len(Lake(network.workspace.lake).events(BETA, 0, 9)) == 0
    assert "nothing to repair" in waybill("index", "repair").out


def test_maintain_says_what_it_did(network: Network, waybill: Command) -> None:
    network.index()
    assert json.loads(waybill("index", "maintain", "--keep-days", "0", "--json").out)["pruned"] == 1


def test_report_takes_from_the_relayers_store_when_gmps_attested_and_does_without_one(
    network: Network, waybill: Command
) -> None:
    network.index()
    alone = json.loads(waybill("report", "--json").out)
    assert alone["attested_unknown"] == "no relayer of network 'devnet' has its store here"
    assert "attested" not in {stage["stage"] for stage in alone["stages"]}
    assert "when GMPs attested is not known: no relayer" in waybill("report").out
    with closing(open_store(network.workspace.settings().store)) as store:
        store.observations.record(observed_range(SENT, gmps=(Gmp.HYPERLANE,)))
        request = SlotRequest(event_id_of(SENT.id, Gmp.HYPERLANE, 0), Call(to="0x" + "bb" * 20, data=b""))
        store.transactions.reserve(BETA, "0x" + "aa" * 20, [request], first_nonce=0, now=START + 31.5)
    both = json.loads(waybill("report", "--json").out)
    assert both["attested_unknown"] is None
    routed_at = network.alpha.blocks[1].time
    first = both["stages"][0]
    assert (first["stage"], first["messages"], first["p50"]) == ("attested", 1, START + 31 - routed_at)


def test_a_report_is_made_though_the_relayers_store_can_not_be_read(network: Network, waybill: Command) -> None:
    network.index()
    file = Path(network.workspace.settings().store.removeprefix("sqlite:///"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("this is not a database, and long enough to look like one" * 20)
    report = json.loads(waybill("report", "--json").out)
    assert "is not a SQLite database" in report["attested_unknown"]
    assert report["messages"] == 1


def test_rebuild_compares_with_what_is_served_and_fails_if_it_differs(network: Network, waybill: Command) -> None:
    network.index()
    for origin in ("lake", "chains"):
        ended = waybill("index", "rebuild", "--from", origin, "--json")
        assert ended.code == 0, ended.err
        value = json.loads(ended.out)
        assert (value["equal"], value["messages"], value["events"]) == (True, 1, 4)
    network.beta.reorganise(1, [executed(SENT)])
    wrong = waybill("index", "rebuild", "--from", "chains", "--json")
    assert (wrong.code, json.loads(wrong.out)["different_events"]) == (1, 3)


def test_as_of_prints_the_state_at_a_block_or_a_moment(network: Network, waybill: Command) -> None:
    network.index()
    message = "0x" + SENT.id.hex()
    assert waybill("index", "as-of", message, "--block", "beta=0").out.strip() == "ROUTED"
    assert waybill("index", "as-of", message, "--time", str(START + 1)).out.strip() == "EXECUTED"
    assert json.loads(waybill("index", "as-of", "--time", "1970-01-12T13:46:40", "--json").out)["messages"] == []


@pytest.mark.parametrize("arguments", [[], ["--block", "alpha"], ["--block", "nowhere=1"], ["--time", "tea"]])
@pytest.mark.usefixtures("network")
def test_as_of_refuses_what_is_no_block_and_no_moment(waybill: Command, arguments: list[str]) -> None:
    ended = waybill("index", "as-of", *arguments)
    assert (ended.code, ended.out) == (2, "")


def test_every_command_reads_the_store_that_the_settings_name(
    network: Network, waybill: Command, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBILL_INDEX_STORE", postgresql.new_url())
    assert waybill("report").code == 1
    network.index()
    assert json.loads(waybill("report", "--json").out)["messages"] == 1
    assert waybill("index", "verify").code == 0
    assert SENT.id.hex() in waybill("message", "list", "--json").out
    assert not network.workspace.index_store.exists()


def test_every_command_works_with_the_lake_in_a_bucket(
    network: Network, waybill: Command, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBILL_INDEX_LAKE", s3.new_lake())
    network.index()
    for command in (["verify"], ["divergence"], ["rebuild"], ["rebuild", "--from", "chains"], ["as-of", "--time", "1"]):
        ended = waybill("index", *command)
        assert ended.code == 0, (command, ended.err)
    for changing in (["tables"], ["maintain", "--keep-hours", "0"], ["repair"]):
        ended = waybill("index", *changing, "--json")
        assert ended.code == 0, (changing, ended.err)
    assert waybill("report").code == 0
    assert not (network.workspace.state / "lake").exists()
    monkeypatch.setenv("WAYBILL_INDEX_LAKE", s3.lake_in("elsewhere"))
    missing = waybill("index", "rebuild", "--json")
    assert (missing.code, "no such bucket" in missing.error["message"]) == (1, True)


def test_tables_writes_what_is_served_of_final_blocks_into_the_lake_and_replaces_it(
    network: Network, waybill: Command
) -> None:
    network.index()
    written = json.loads(waybill("index", "tables", "--json").out)["tables"]
    assert {one["name"]: one["rows"] for one in written} == {
        "messages": 1,
        "receipts": 3,
        "attempts": 1,
        "duplicates": 0,
        "findings": 0,
        "candidates": 0,
        "fan_outs": 0,
        "tallies": 10,
        "lanes": 1,
        "latencies": 4,
        "redundancy": 1,
        "costs": 0,
        "divergences": 0,
    }
    assert waybill("index", "tables").code == 0
    engine = reading_engine(network.workspace.index_url)
    for one in written:
        lasting = DeltaTable(one["folder"])
        # Without a relayer's store nobody knows newer costs.
        assert (lasting.version(), len(lasting.file_uris())) == (1 if one["name"] == "costs" else 2, 1)
        if one["name"] not in ("messages", "receipts"):
            continue
        with engine.connect() as connection:
            served = [dict(row) for row in connection.execute(text(f"select * from {one['name']}")).mappings()]
        rows = lasting.to_pyarrow_table().to_pylist()
        assert sorted(rows, key=repr) == sorted(served, key=repr)
    engine.dispose()


def test_tables_takes_what_deliveries_cost_from_the_relayers_store_and_keeps_it_without_one(
    network: Network, waybill: Command
) -> None:
    network.index()
    relayers = Path(network.workspace.settings().store.removeprefix("sqlite:///"))
    with closing(open_store(network.workspace.settings().store)) as store:
        store.observations.record(observed_range(SENT, gmps=(Gmp.HYPERLANE,)))
        request = SlotRequest(event_id_of(SENT.id, Gmp.HYPERLANE, 0), Call(to="0x" + "bb" * 20, data=b""))
        (slot,) = store.transactions.reserve(BETA, "0x" + "aa" * 20, [request], first_nonce=0, now=START + 31.5)
        assert slot is not None
        signed = SignedVersion(
            hash=bytes(32), raw=b"raw", fees=Fees(2 * GWEI, 1), signed_at=START + 32.0, is_noop=False
        )
        assert store.transactions.sign(slot.slot_id, signed, replaces=None)
        used = Inclusion(signed.hash, block(9), succeeded=True, gas_used=50_000)
        store.transactions.include([(slot.slot_id, used)])
    cost = {"source_chain": ALPHA, "destination_chain": BETA, "gmp": 1, "messages": 1, "gwei": 100_000}
    cost |= {"gwei_p50": 100_000, "gwei_p95": 100_000, "late_gwei": 0}
    for computed in (1, 0):
        written = {one["name"]: one for one in json.loads(waybill("index", "tables", "--json").out)["tables"]}
        assert (written["costs"]["rows"], written["costs"]["computed"]) == (1, computed)
        assert DeltaTable(written["costs"]["folder"]).to_pyarrow_table().to_pylist() == [cost]
        relayers.unlink(missing_ok=True)


def test_what_only_reads_runs_as_a_role_that_may_only_select(
    network: Network, waybill: Command, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(postgresql.new_url())
    monkeypatch.setenv("WAYBILL_INDEX_STORE", url.render_as_string(hide_password=False))
    network.index()
    with psycopg.connect(postgresql.conninfo, autocommit=True) as server:
        schema = sql.Identifier(str(url.query["options"]).partition("search_path=")[2])
        server.execute("create role auditor login")
        server.execute(sql.SQL("grant usage on schema {} to auditor").format(schema))
        server.execute(sql.SQL("grant select on all tables in schema {} to auditor").format(schema))
    monkeypatch.setenv("WAYBILL_INDEX_STORE", url.set(username="auditor").render_as_string(hide_password=False))
    for command in (["rebuild"], ["rebuild", "--from", "chains"], ["as-of", "--block", "beta=0"], ["divergence"]):
        ended = waybill("index", *command)
        assert ended.code == 0, (command, ended.err)
    for changing in ("maintain", "verify", "repair"):
        refused = waybill("index", changing, "--json")
        assert refused.code == 1
        assert "permission denied" in refused.error["message"]
        assert "auditor" in refused.error["message"]


@pytest.mark.parametrize(
    "command", ["index verify", "index divergence", "index repair", "index maintain", "index rebuild", "report"]
)
@pytest.mark.usefixtures("network")
def test_without_an_index_a_command_says_how_to_make_one(waybill: Command, command: str) -> None:
    ended = waybill(*command.split(), "--json")
    assert ended.code == 1
    assert "waybill index run" in ended.error["next"]


def test_starting_the_command_imports_none_of_the_indexs_heavy_libraries() -> None:
    asked = "import sys, bridge.cli.app; print(*{'pyspark', 'pyarrow', 'duckdb', 'deltalake'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
