"""Webhooks from the store's records to a real HTTP server: order, retries, signatures, kills, and where they may not go."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge.domain.lanes import Lane
from bridge.domain.streams import Stream, StreamRecord
from bridge.domain.webhooks import StillPendingError, WebhookDelivery, WebhookFilter, WebhookState
from bridge.protocol.message import Kind
from bridge.store import Store
from bridge.streams import webhooks
from bridge.streams.settings import WebhookTarget
from bridge.streams.webhooks import TargetError, is_public, new_client, post
from tests.builders import ALPHA, BETA, block, message, observed_range, word
from tests.unit.docs.test_docs import ROOT, blocks
from tests.unit.store.conftest import SQLITE, url_of
from tests.unit.streams.receiver import SECRET, receiver
from tests.unit.streams.webhook_life import Life, deliver_all, settings_of

KEY = f"0x{message(1).id.hex()}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(Store(url_of(request.param, request, tmp_path))) as opened:
        opened.webhook_records.start()
        yield opened


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(f"{SQLITE}:///{tmp_path}/bridge.db")) as opened:
        opened.webhook_records.start()
        yield opened


def delivery(version: int, key: str = KEY, target: str = "first", **changes: Any) -> WebhookDelivery:
    usual = {"id": f"{target}-{version}", "target": target, "key": key, "version": version, "event": "ROUTED"}
    return WebhookDelivery(**{**usual, "body": "{}", "created_at": 1.0, **changes})


def claim(store: Store, now: float = 10, target: str = "first") -> list[int]:
    return [one.version for one in store.webhooks.claim(target, now=now, lease=5, limit=10)]


def test_the_oldest_pending_delivery_of_a_message_goes_first_and_a_dead_worker_holds_it_for_its_lease(
    store: Store,
) -> None:
    store.webhooks.add([delivery(2), delivery(1), delivery(3, "other"), delivery(4, target="second")])
    store.webhooks.add([delivery(1, body="not again")])
    first, other = store.webhooks.claim("first", now=10, lease=5, limit=10)
    assert (first.version, first.body, other.version) == (1, "{}", 3)
    assert claim(store) == []
    assert claim(store, 15) == [1, 3]
    store.webhooks.delivered(first, 16)  # its lease ran out: the claim of the second worker counts
    assert claim(store, 16) == []
    (again, _) = store.webhooks.claim("first", now=20, lease=5, limit=10)
    store.webhooks.failed(again, "no", 21, 30)
    assert claim(store, 29) == [3]
    (last,) = store.webhooks.claim("first", now=30, lease=5, limit=1)
    store.webhooks.failed(last, "still no", 31, None)
    assert claim(store, 31) == [2]  # what is dead holds up nothing
    found = store.webhooks.delivery("first-1")
    assert found is not None
    assert (found.state, found.tries, found.error) == (WebhookState.DEAD, 2, "still no")


def test_what_has_ended_can_be_delivered_again_and_is_forgotten_in_the_end(store: Store) -> None:
    store.webhooks.add([delivery(1), delivery(2, "other")])
    one, _ = store.webhooks.claim("first", now=10, lease=5, limit=10)
    store.webhooks.delivered(one, 11)
    with pytest.raises(StillPendingError, match="first-2"):
        store.webhooks.redeliver("first-2", 12)
    with pytest.raises(KeyError):
        store.webhooks.redeliver("first-9", 12)
    assert store.webhooks.redeliver("first-1", 12).state is WebhookState.PENDING
    assert claim(store, 12) == [1]
    assert store.webhooks.retire(["second"], 20) == 2
    assert store.webhooks.figures()["first"].dead == 2
    assert [one.id for one in store.webhooks.listed(state=WebhookState.DEAD, limit=5)] == ["first-2", "first-1"]
    assert (store.webhooks.prune(20), store.webhooks.prune(21)) == (0, 2)
    assert store.webhooks.listed(limit=5) == []


def test_a_record_stays_until_each_sink_that_is_on_has_it(store: Store) -> None:
    store.observations.record(observed_range(message()))
    kafka, hooks = store.streams, store.webhook_records
    kafka.start()
    of_hooks = hooks.claim("one", now=time.time(), lease=5, limit=10) or []
    of_kafka = kafka.claim("two", now=time.time(), lease=5, limit=10) or []
    assert of_hooks
    assert of_hooks == of_kafka
    hooks.sent(of_hooks[-1].version)
    assert (hooks.status().waiting, kafka.status().waiting) == (0, len(of_kafka))
    kafka.sent(of_kafka[-1].version)
    assert kafka.status().waiting == 0
    kafka.stop()
    store.observations.record(observed_range(message(2), previous=block(10), position=block(11)))
    later = hooks.claim("one", now=time.time(), lease=5, limit=10) or []
    assert later, "the other sink records on"
    hooks.sent(later[-1].version)
    hooks.stop()
    assert not hooks.status().recording


async def test_records_arrive_signed_in_the_order_of_their_message_whatever_fails_in_between(small: Store) -> None:
    failed = set[int]()

    def answer(document: dict[str, Any]) -> int:
        if document["version"] in failed:
            return 200
        failed.add(document["version"])
        return 302 if document["event"] == "ROUTED" else 500

    small.observations.record(observed_range(message(1), message(2)))
    with receiver(answer) as target:
        await deliver_all(small, settings_of(target.target()))
    assert len(target.requests) == 2 * len(failed)  # each was refused once, and no redirect was followed
    taken = [one["version"] for one in target.documents if one["key"] == KEY]
    assert taken == sorted(taken)
    assert {one["event"] for one in target.documents} == {"ROUTED", "ATTEMPTED", "DISPATCHED"}
    headers, body = target.requests[0]
    signed = webhooks.signature([SECRET], headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == signed
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    assert headers["host"] == f"127.0.0.1:{target.port}"


async def test_a_target_that_never_takes_it_leaves_it_dead_and_later_events_go_on(small: Store) -> None:
    small.observations.record(observed_range(message()))
    with receiver(lambda document: 503 if document["event"] == "ROUTED" else 204) as target:
        await deliver_all(small, settings_of(target.target()))
        (dead,) = small.webhooks.listed(state=WebhookState.DEAD, limit=10)
        assert (dead.event, dead.tries, dead.error) == ("ROUTED", 4, "it answered 503")
        target.answer = lambda _: 200
        small.webhooks.redeliver(dead.id, time.time())
        await deliver_all(small, settings_of(target.target()))
    assert target.ids.count(dead.id) == 5
    assert small.webhooks.listed(state=WebhookState.DEAD, limit=10) == []


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        ({}, {"ROUTED", "ATTEMPTED", "DISPATCHED"}),
        ({"events": frozenset({"DISPATCHED"})}, {"DISPATCHED"}),
        ({"streams": frozenset({Stream.RETRIES})}, set()),
        ({"lanes": frozenset({Lane(ALPHA, BETA)}), "kinds": frozenset({message().kind})}, {"ROUTED", "ATTEMPTED", "DISPATCHED"}),
        ({"lanes": frozenset({Lane(BETA, ALPHA)})}, set()),
        ({"kinds": frozenset(Kind) - {message().kind}}, set()),
        ({"senders": frozenset({message().sender}), "events": frozenset({"ROUTED"})}, {"ROUTED"}),
        ({"senders": frozenset({word("another")})}, set()),
        ({"recipients": frozenset({message().recipient})}, {"ROUTED", "ATTEMPTED", "DISPATCHED"}),
        ({"recipients": frozenset({word("another")})}, set()),
    ],
)  # fmt: skip
async def test_a_target_gets_what_its_filters_let_pass(small: Store, wanted: Any, events: set[str]) -> None:
    small.observations.record(observed_range(message()))
    with receiver() as target:
        await deliver_all(small, settings_of(target.target(**wanted)))
    assert {one["event"] for one in target.documents} == events


@pytest.mark.parametrize(("ends", "passes"), [((ALPHA, BETA), True), ((BETA, ALPHA), False)])
def test_a_record_about_a_lane_passes_where_its_lane_is_wanted(ends: tuple[int, int], passes: bool) -> None:
    wanted = WebhookFilter(lanes=frozenset({Lane(ALPHA, BETA)}))
    data = {"sourceChainId": ends[0], "destinationChainId": ends[1]}
    record = StreamRecord(stream=Stream.RETRIES, key="", event="PAUSED", at=0.0, data=data, version=1)
    assert wanted.passes(record, None) is passes


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_between_any_two_steps_loses_nothing_and_keeps_the_order(tmp_path: Path, every: int) -> None:
    step, died = 0, True
    while died:
        url = f"sqlite:///{tmp_path}/{step}.db"
        with closing(Store(url)) as store:
            store.webhook_records.start()
            store.observations.record(observed_range(message(1), message(2)))
            wanted = store.webhook_records.status().waiting
        with receiver() as target:
            settings = settings_of(target.target())
            died = Life(url, settings, dies_at=step).live()
            assert not Life(url, settings).live()
        firsts = list(dict.fromkeys(target.ids))
        assert len(firsts) == wanted
        versions = {name: one["version"] for name, one in zip(target.ids, target.documents, strict=True)}
        keys = {name: one["key"] for name, one in zip(target.ids, target.documents, strict=True)}
        for key in set(keys.values()):
            mine = [versions[name] for name in target.ids if keys[name] == key]
            assert mine == sorted(mine), "a later event of a message came before an earlier one"
        step += every
    assert step > 30, "it died at many steps"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "168.63.129.16",
        "0.0.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00:ec2::254", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_on_the_public_internet_are_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_not(address: str) -> None:
    assert is_public(address)


async def sent(target: WebhookTarget, **terms: Any) -> int:
    async with new_client() as client:
        return await post(client, target, "id", b"{}", **{"timeout": 2.0, "allow_private": False, **terms})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_no_spelling_of_this_machine_is_reached_unless_it_is_allowed(host: str) -> None:
    with receiver() as here:
        target = WebhookTarget(name="first", url=f"http://{host}:{here.port}/", secrets=(SECRET,))
        with pytest.raises(TargetError, match=r"not on the public internet|can't be resolved"):
            await sent(target)
        assert here.requests == []
        assert await sent(here.target(), allow_private=True) == 204


async def test_the_address_that_was_judged_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, loop = list[str](), asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    with receiver() as here:

        async def rebinding(host: str, port: int, **terms: Any) -> Any:
            asked.append(host)
            return await resolve("127.0.0.1", port, **terms)

        monkeypatch.setattr(loop, "getaddrinfo", rebinding)
        target = WebhookTarget(name="first", url=f"http://hook.invalid:{here.port}/", secrets=(SECRET,))
        assert await sent(target, allow_private=True) == 204
        assert asked.count("hook.invalid") == 1
        assert here.requests[0][0]["host"] == f"hook.invalid:{here.port}"
        with pytest.raises(TargetError, match=r"127\.0\.0\.1, which is not on the public internet"):
            await sent(target)
    assert len(here.requests) == 1


async def test_a_target_that_drips_its_answer_is_given_up_and_a_long_answer_is_not_read() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)
            await writer.drain()

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    for serve, fails in ((drip, True), (flood, False)):
        ended = asyncio.Event()

        async def answer(
            _: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            serve: Callable[[asyncio.StreamWriter], Awaitable[None]] = serve,
            ended: asyncio.Event = ended,
        ) -> None:
            with suppress(ConnectionError):
                await serve(writer)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            ended.set()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            target = WebhookTarget(name="first", url=f"http://127.0.0.1:{port}/", secrets=(SECRET,))
            if fails:
                with pytest.raises(TargetError, match=r"no complete answer within 0.5 s"):
                    await sent(target, allow_private=True, timeout=0.5)
            else:
                assert await sent(target, allow_private=True) == 200
            async with asyncio.timeout(10):
                await ended.wait()


PYTHON_CALL = """
import json, sys
case = json.loads(sys.argv[1])
print(is_genuine(bytes(case["secret"]), case["headers"], case["body"].encode(), case["now"]))
"""
NODE_CALL = """
const given = JSON.parse(process.argv[1]);
console.log(isGenuine(Buffer.from(given.secret), given.headers, Buffer.from(given.body), given.now) ? "True" : "False");
"""


@pytest.mark.parametrize("language", ["python", "ts"])
def test_the_verification_of_the_documentation_takes_what_is_genuine_and_fresh_alone(
    language: str, tmp_path: Path
) -> None:
    (snippet,) = (content for page, content in blocks(language) if page == "docs/webhooks.md")
    body, now = '{"event":"DELIVERED"}', 1_800_000_000
    old, new = bytes(32), SECRET
    headers = {
        "webhook-id": "first-7",
        "webhook-timestamp": str(now),
        "webhook-signature": webhooks.signature([old, new], "first-7", now, body.encode()),
    }
    genuine = {"secret": list(SECRET), "headers": headers, "body": body, "now": now + 299}
    cases = [
        (genuine, True),
        ({**genuine, "now": now - 299}, True),
        ({**genuine, "now": now + 301}, False),
        ({**genuine, "now": now - 301}, False),
        ({**genuine, "body": body + " "}, False),
        ({**genuine, "secret": list(bytes([1]) * 32)}, False),
        ({**genuine, "headers": {**headers, "webhook-id": "first-8"}}, False),
        ({**genuine, "headers": {**headers, "webhook-timestamp": str(now + 1)}}, False),
        ({**genuine, "headers": {**headers, "webhook-signature": "v1,"}}, False),
    ]
    if language == "python":
        command = [str(ROOT / ".venv/bin/python"), "-c", snippet + PYTHON_CALL]
    else:
        source, built = tmp_path / "verify.ts", tmp_path / "verify.mjs"
        source.write_text(snippet + NODE_CALL.replace("process.argv[1]", "process.argv[2]"))
        esbuild = ROOT / "dapp/node_modules/.bin/esbuild"
        bundle = [str(esbuild), str(source), f"--outfile={built}", "--format=esm", "--platform=node"]
        subprocess.run(bundle, check=True, capture_output=True)
        command = ["node", str(built)]
    for case, expected in cases:
        done = subprocess.run([*command, orjson.dumps(case).decode()], check=True, capture_output=True, text=True)
        assert done.stdout.strip() == str(expected), case
