"""`concurrency`: no more requests are under way at an endpoint than it takes, whoever asks, in whichever process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.rpc_answers import Request
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.sources.transport import ConcurrencyLimiter
from tests.unit.indexer.logs import ALPHA, EMITTERS
from tests.waiting import PATIENCE

ASK = """
import sys
from tests.unit.indexer.test_concurrency import ask
from tests.waiting import PATIENCE
ask(sys.argv[1], int(sys.argv[2]))
"""


class Counting(BaseHTTPRequestHandler):
    """Says its chain's id, after a while, and remembers how many asked at once."""

    lock = threading.Lock()
    under_way = most = asked = 0

    def do_POST(self) -> None:
        kind = type(self)
        self.rfile.read(int(self.headers["content-length"]))
        with kind.lock:
            kind.asked += 1
            kind.under_way += 1
            kind.most = max(kind.most, kind.under_way)
        time.sleep(0.05)
        with kind.lock:
            kind.under_way -= 1
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    Counting.most = Counting.under_way = Counting.asked = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def ask(url: str, concurrency: int, readers: int = 4) -> None:
    """Some readers of one process ask at once: as a live tail, a check and a restoration do."""
    config = ChainConfig(
        chain_id=ALPHA,
        urls=(url,),
        start_block=0,
        emitters=EMITTERS[ALPHA],
        endpoints=EndpointPolicy(concurrency=concurrency),
    )

    def one(_number: int) -> None:
        with ChainReader(config, SourceLimits()) as reader:
            for connection in list(reader._rpc._connections.values()) * 3:
                with pytest.raises(Exception, match="HTTP 503"):
                    connection.call(lambda *_: None, Request("eth_blockNumber"))

    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(one, range(readers)))


def test_readers_of_two_processes_share_the_places_at_one_endpoint(url: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", ASK, url, "2"], cwd=Path(__file__).resolve().parents[3])
    ask(url, 2)
    assert other.wait(timeout=PATIENCE) == 0
    assert Counting.asked == 24
    assert Counting.most <= 2


def test_a_process_that_is_killed_leaves_its_place(url: str) -> None:
    hold = "import sys, time; from indexer.sources.transport import ConcurrencyLimiter\nwith ConcurrencyLimiter(sys.argv[1], 1).one(): print('held', flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", hold, url], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    taken = threading.Event()

    def take() -> None:
        with ConcurrencyLimiter(url, 1).one():
            taken.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    assert not taken.wait(0.2)
    holder.kill()
    holder.wait()
    waiting.join(timeout=PATIENCE)
    assert taken.is_set()
    holder.stdout.close()


def test_endpoints_have_places_of_their_own(url: str) -> None:
    with (
        ConcurrencyLimiter(url, 1).one(),
        ConcurrencyLimiter(url + "/other", 1).one(),
        ConcurrencyLimiter(url, None).one(),
    ):
        pass
