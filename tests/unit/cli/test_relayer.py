"""What flags and waybill.toml say reaches the relayer that `waybill relayer run` puts together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.cli.output import ExitCode
from bridge.protocol.delivery_policy import DeliveryPolicy
from bridge.protocol.errors import StoreBusyError
from bridge.protocol.message import Kind
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.relayer.settings import Ordering
from bridge.service.relayer_service import RelayerService
from bridge.streams.publisher import Publisher
from bridge.streams.settings import DeadLetterTopicSettings, Semantics
from tests.builders import ALPHA, BETA, DOCUMENTED_DEAD_LETTER_TOPIC
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.waiting import PATIENCE

Start = Callable[..., RelayerService]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Start]:
    """Runs the command with a settings file, up to the moment at which its relayer would begin to work."""
    begun: list[RelayerService] = []

    async def begin(relayer: RelayerService) -> None:
        begun.append(relayer)

    def run(text: str, *flags: str) -> RelayerService:
        (tmp_path / "waybill.toml").write_text(text)
        ended = Command(monkeypatch, capsys)("relayer", "run", *flags)
        assert ended.code == 0, ended.err
        (relayer,) = begun
        return relayer

    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setattr(RelayerService, "run", begin)
    monkeypatch.setattr("bridge.cli.relayer.freeze_loaded_objects", lambda: None)
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        yield run


@pytest.mark.parametrize("strategy", [None, *CommitStrategy])
def test_commit_strategy_flag_defaults_to_batch(start: Start, strategy: CommitStrategy | None) -> None:
    flags = () if strategy is None else ("--commit", strategy.value, "--unsafe")
    commits = start("", *flags).relayer.deliveries[BETA]._commits._settings
    assert commits.commit is (strategy or CommitStrategy.BATCH)


def test_commit_auto_requires_unsafe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def begin(_: RelayerService) -> None:
        """Ends at once."""

    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setattr(RelayerService, "run", begin)
    monkeypatch.setattr("bridge.cli.relayer.freeze_loaded_objects", lambda: None)
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        ended = Command(monkeypatch, capsys)("relayer", "run", "--commit", "auto")
    assert ended.code == ExitCode.USAGE
    assert "add unsafe = true if that is intended" in " ".join(ended.err.split())


def test_settings_file_reaches_the_deliveries(start: Start) -> None:
    row = "max_retries = 7\nbase = 0.25\ncap = 9\nmultiplier = 3\njitter = 0.2\n"
    text = f'ordering = "block"\nlease = 20\n[policies.plain]\n{row}[dlq]\ntries = 4\n'
    deliveries = start(text).relayer.deliveries[BETA]
    assert deliveries._policies.operator.rows[Kind.PLAIN] == DeliveryPolicy(
        7, 0.25, 9, dead_letter=True, jitter=0.2, multiplier=3
    )
    assert len({deliveries._random() for _ in range(5)}) == 5, "each wait has a jitter of its own"
    assert deliveries._settings.ordering is Ordering.BLOCK
    assert deliveries._settings.lease == 20
    assert deliveries._dead_letters._settings.tries == 4


def test_relayer_exits_if_the_store_rejects_commits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    work = RelayerService.run

    async def refused(relayer: RelayerService) -> None:
        relayer.relayer.deliveries[BETA]._commits._halt(3, StoreBusyError("the disk is full"))
        await asyncio.wait_for(work(relayer), PATIENCE)

    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setattr(RelayerService, "run", refused)
    monkeypatch.setattr("bridge.cli.relayer.freeze_loaded_objects", lambda: None)
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        ended = Command(monkeypatch, capsys)("relayer", "run")
    assert ended.code == ExitCode.FAILED
    said = " ".join(ended.err.split())
    assert "could not be committed in 3 tries: the disk is full" in said
    assert "restart the relayer" in said


KAFKA = '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n'


def publisher_of(relayer: RelayerService) -> Publisher:
    """What publishes its streams to Kafka."""
    owners = (getattr(work, "__self__", None) for work in relayer._streams)
    (publisher,) = (owner for owner in owners if isinstance(owner, Publisher))
    return publisher


@pytest.mark.parametrize("enabled", [None, True, False])
def test_dead_letter_topic_can_be_disabled(start: Start, *, enabled: bool | None) -> None:
    queue = "" if enabled is None else f"[kafka.dead_letter_queue]\nenabled = {str(enabled).lower()}\n"
    publisher = publisher_of(start(KAFKA + queue))
    assert publisher._topic._settings.enabled is (enabled is not False)


@pytest.mark.parametrize("delivery", [None, *Semantics])
def test_exactly_once_publishing_is_opt_in(start: Start, delivery: Semantics | None) -> None:
    asked = "" if delivery is None else f'delivery = "{delivery.value}"\n'
    assert publisher_of(start(KAFKA + asked))._settings.delivery is (delivery or Semantics.AT_LEAST_ONCE)


_QUEUE = (
    'topic = "dead"\nbrokers = "127.0.0.1:2"\ninclude_original_headers = false\ninclude_stack_trace = true\n'
    'compression = "zstd"\nmax_dlq_retries = 5\n'
)


@pytest.mark.parametrize(
    ("said", "brokers", "settings"),
    [
        ("", "127.0.0.1:1", DOCUMENTED_DEAD_LETTER_TOPIC),
        (
            f"[kafka.dead_letter_queue]\n{_QUEUE}",
            "127.0.0.1:2",
            DeadLetterTopicSettings(
                topic="dead",
                brokers="127.0.0.1:2",
                include_original_headers=False,
                include_stack_trace=True,
                compression="zstd",
                max_dlq_retries=5,
            ),
        ),
    ],
    ids=["the document's", "the file's"],
)
def test_dead_letter_topic_defaults_to_the_document(
    start: Start, said: str, brokers: str, settings: DeadLetterTopicSettings
) -> None:
    topic = publisher_of(start(KAFKA + said))._topic
    assert topic._settings == settings
    assert topic._connection["bootstrap.servers"] == brokers
