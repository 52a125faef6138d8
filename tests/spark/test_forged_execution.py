"""A router whose code an attacker has swapped says that it executed a message nobody sent: nothing shows that as a success."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from eth_utils import keccak

from bridge.devnet.accounts import ANVIL_KEYS, account
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import MessageExecuted, topic_of
from tests.anvil.rpc import rpc
from tests.spark.test_quickstart import Terminal
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.long

FORGED = keccak(text="a message that nobody sent")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def emitting(topics: list[bytes], data: bytes) -> str:
    """The code of a contract that emits one log, whatever it is called with."""
    push = b"".join(b"\x7f" + topic.rjust(32, b"\0") for topic in reversed(topics))
    code = b"\x7f" + data.rjust(32, b"\0") + bytes.fromhex("600052") + push + bytes.fromhex("60206000a400")
    return f"0x{code.hex()}"


def forge(deployment: Deployment) -> None:
    alpha, beta = deployment.chains
    url, router = beta.rpc_urls[0], beta.router
    recipient = bytes.fromhex(beta.examples["inbox"][2:])
    topics = [topic_of(MessageExecuted), FORGED, alpha.chain_id.to_bytes(32, "big"), recipient]
    code = rpc(url, "eth_getCode", router, "latest")
    rpc(url, "anvil_setCode", router, emitting(topics, keccak(text="payload")))
    attacker = account(ANVIL_KEYS[8]).address
    rpc(url, "anvil_impersonateAccount", attacker)
    sent = rpc(url, "eth_sendTransaction", {"from": attacker, "to": router, "gas": hex(200_000)})
    receipt = eventually(lambda: rpc(url, "eth_getTransactionReceipt", sent), "it is included")
    assert len(receipt["logs"]) == 1
    rpc(url, "anvil_setCode", router, code)


def seen(url: str, said: str) -> str:
    """The page, once it says that."""
    deadline, page = time.monotonic() + PATIENCE, ""
    while said not in page:
        assert time.monotonic() < deadline, f"{url} does not say {said!r}:\n{page}"
        try:
            page = httpx.get(url, timeout=20).text
        except httpx.HTTPError as error:
            page = str(error)
        time.sleep(0.5)
    return page


def test_forged_execution_is_diverged_in_every_face(terminal: Terminal) -> None:
    assert terminal.type("waybill devnet up").returncode == 0
    deployment = Deployment.model_validate_json((terminal.home / "deployments" / "devnet.json").read_text())
    for command in ("waybill index run", "waybill web", "waybill relayer run"):
        terminal.leave_running(command)
    name = f"0x{FORGED.hex()}"
    forge(deployment)

    explorer = f"http://{terminal.explorer}"
    listed = seen(f"{explorer}/messages", '<span class="state bad">diverged</span>')
    assert "executed" not in "".join(re.findall(r'class="state good">(\w+)<', listed))
    assert name in seen(f"{explorer}/messages?status=diverged", name)
    assert name not in httpx.get(f"{explorer}/messages?status=executed").text
    page = seen(f"{explorer}/message/{name}", 'data-state="DIVERGED"')
    assert 'banner bad"' in page
    assert "executed without quorum" in page
    assert 'Faults <span class="state bad">' in page
    assert name in seen(f"{explorer}/faults", "executed without quorum")

    shown = terminal.type(f"waybill message show {name} --json")
    value = json.loads(shown.stdout)
    assert value["status"] == "DIVERGED"
    assert "EXECUTED_WITHOUT_QUORUM" in {one["kind"] for one in value["divergences"]}
    assert "no chain of the network has created it" in value["reason"]
    explained = terminal.type(f"waybill message show {name}")
    assert (explained.returncode, "DIVERGED" in explained.stdout) == (0, True)
    rows = json.loads(terminal.type("waybill message list --json").stdout)["messages"]
    assert [(row["messageId"], row["status"]) for row in rows] == [(name, "DIVERGED")]
    assert json.loads(terminal.type("waybill message list --status DIVERGED --json").stdout)["messages"] == rows
    assert json.loads(terminal.type("waybill message list --status EXECUTED --json").stdout)["messages"] == []

    told = json.loads(seen(f"{explorer}/v1/messages/{name}", "DIVERGED"))
    assert "EXECUTED_WITHOUT_QUORUM" in {one["kind"] for one in told["divergences"]}
    assert [one["status"] for one in json.loads(seen(f"{explorer}/v1/messages", name))["messages"]] == ["DIVERGED"]
