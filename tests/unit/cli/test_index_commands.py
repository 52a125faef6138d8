"""`waybill index verify`, `divergences` and `report`, typed over a real store, lake and HTTP endpoints."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import make_url

from bridge.cli.workspace import Workspace
from bridge.protocol.deployment import ChainDeployment, Deployment
from indexer.jobs.promotion import promote
from indexer.pipeline.bronze import Lake
from indexer.store.store import Store
from tests.postgresql import Server
from tests.s3 import S3
from tests.unit.cli.command import Command
from tests.unit.indexer.endpoint import WithRouter
from tests.unit.indexer.lakes import write_table
from tests.unit.indexer.logs import ALPHA, BETA, ROUTERS
from tests.unit.indexer.world import SimulatedChain, created, executed, new_world, received, routed, sent_message

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


def test_verify_succeeds_only_if_all_lanes_are_equal(network: Network, waybill: Command) -> None:
    network.index(network.beta)
    ended = waybill("index", "verify", "--json")
    assert ended.code == 1
    value = json.loads(ended.out)
    assert value["verdicts"] == {"equal": 3, "different": 1}
    (wrong,) = [found for lane in value["lanes"] for found in lane["wrong"]]
    assert (wrong["missing"], wrong["surplus"]) == (2, 0)
    assert "--repair" in ended.error["next"]
    assert waybill("index", "divergences").code == 1
    repaired = waybill("index", "verify", "--repair")
    assert (repaired.code, "4 equal" in repaired.out) == (0, True)
    verified = waybill("index", "verify")
    assert verified.code == 0
    ends = re.findall(r"· …(\S+)", verified.out)
    assert ends
    assert all(re.fullmatch("[0-9a-f]{8}", end) for end in ends), "also those of small sums"
    nothing = waybill("index", "divergences")
    assert (nothing.code, "no divergence" in nothing.out) == (0, True)


ASKING_THE_INDEX = (
    ["index", "verify"],
    ["index", "divergences"],
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
    assert first.startswith("index  BEHIND, so this answer may be outdated or incomplete: alpha: block 1 of")
    assert "at the head; beta: block 1 of 1970-01-12 13:46:41 UTC, 1045 blocks (1045 s) behind" in first
    assert "the index is behind: beta: block 1" in behind.err
    value = json.loads(waybill(*command, "--json").out)["index"]
    assert value["behind"] is True
    assert [(one["chain"], one["block"], one["blocksBehind"]) for one in value["chains"]] == [
        ("alpha", 1, 0),
        ("beta", 1, 1045),
    ]
    assert waybill(*command, "--max-behind", "1045").code == 0


def test_divergence_precedes_a_stale_index(network: Network, waybill: Command) -> None:
    network.beta.mine(executed(SENT))
    network.index()
    for _ in range(200):
        network.beta.mine()
    ended = waybill("index", "divergences")
    assert ended.code == 1
    assert "EXECUTED_TWICE; the index is behind: beta" in ended.err


def test_how_far_behind_a_silent_chain_is_goes_by_the_clock(network: Network, waybill: Command) -> None:
    network.index()
    network.servers[1].shutdown()
    network.servers[1].server_close()
    ended = waybill("message", "list")
    assert ended.code == 5
    assert "head unknown, the chain does not answer" in ended.out.splitlines()[0]


def test_divergence_fails_with_evidence_severity_and_what_to_do(network: Network, waybill: Command) -> None:
    network.beta.mine(executed(SENT))
    network.index()
    ended = waybill("index", "divergences", "0x" + SENT.id.hex())
    assert ended.code == 1
    for expected in ("CRITICAL EXECUTED_TWICE", SENT.id.hex(), "executions on the destination: 2", "pause the lane"):
        assert expected in ended.out
    assert waybill("index", "divergences", "0x" + "77" * 32).code == 0


def test_verify_reports_lost_final_blocks_and_repairs_them(network: Network, waybill: Command) -> None:
    network.index()
    assert json.loads(waybill("index", "verify", "--json").out)["violations"] == []
    network.beta.reorganise(1, [], [])
    found = waybill("index", "verify")
    assert found.code == 1
    assert "2 events of 1 messages above block -1 would be taken back" in found.out
    assert len(Lake(network.workspace.lake).events(BETA, 0, 9)) == 2
    done = waybill("index", "verify", "--repair", "--json")
    assert json.loads(done.out)["violations"][0]["repaired"] is True
    assert len(Lake(network.workspace.lake).events(BETA, 0, 9)) == 0


def test_divergences_and_report_say_as_of_when_the_tables_are(network: Network, waybill: Command) -> None:
    network.index()
    never = waybill("report")
    assert (never.code, "waybill index refresh" in never.err) == (1, True)
    lake = Lake(network.workspace.lake)
    row = {"source_chain": ALPHA, "destination_chain": BETA, "stage": "delivered"}
    write_table(lake, "gold.latencies", [row | {"messages": 1, "p50": 7, "p95": 7, "p99": 7}])
    forged = {"kind": "PAYLOAD_DIFFERS", "message_id": SENT.id, "source_chain": ALPHA, "destination_chain": BETA}
    write_table(lake, "gold.divergences", [forged | {"evidence": "an older one"}])
    assert "as of 2023-11-14 22:13:20 UTC" in waybill("report").out
    assert json.loads(waybill("report", "--json").out)["latencies"][0]["p50"] == 7
    assert waybill("index", "divergences").code == 0  # the store judges what it holds
    ended = waybill("index", "divergences", "--history")
    assert (ended.code, "an older one" in ended.out, "as of 2023-11-14" in ended.out) == (1, True, True)


def test_every_command_reads_the_store_that_the_settings_name(
    network: Network, waybill: Command, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBILL_INDEX_STORE", postgresql.new_url())
    assert waybill("index", "verify").code == 1
    network.index()
    assert waybill("index", "verify").code == 0
    assert SENT.id.hex() in waybill("message", "list", "--json").out
    assert not network.workspace.index_store.exists()


def test_every_command_works_with_the_lake_in_a_bucket(
    network: Network, waybill: Command, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBILL_INDEX_LAKE", s3.new_lake())
    network.index()
    for command in (["verify"], ["verify", "--repair"], ["divergences"], ["sql", "select * from silver.messages"]):
        ended = waybill("index", *command)
        assert ended.code == 0, (command, ended.err)
    assert not (network.workspace.state / "lake").exists()
    monkeypatch.setenv("WAYBILL_INDEX_LAKE", s3.lake_in("elsewhere"))
    missing = waybill("index", "verify", "--json")
    assert (missing.code, "no such bucket" in missing.error["message"]) == (1, True)


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
    assert waybill("index", "divergences").code == 0
    refused = waybill("index", "verify", "--json")
    assert refused.code == 1
    assert "permission denied" in refused.error["message"]
    assert "auditor" in refused.error["message"]


@pytest.mark.parametrize("command", ["index verify", "index divergences", "index refresh", "index sql x", "report"])
@pytest.mark.usefixtures("network")
def test_without_an_index_a_command_says_how_to_make_one(waybill: Command, command: str) -> None:
    ended = waybill(*command.split(), "--json")
    assert ended.code == 1
    assert "waybill index run" in ended.error["next"]
