"""`waybill relayer run` and `waybill web` in processes of their own."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import update

from bridge.store import Store
from bridge.store.tables import outbox
from tests.anvil.command import environment_of
from tests.anvil.running import start
from tests.waiting import PATIENCE, eventually_true

HASTY = {
    "WAYBILL_LEASE": "30",  # however slow the machine is, a relayer at work renews it; see `end_leases`
    "WAYBILL_FEE_BUMP_AFTER": "3",
    # each kill counts as a try: without it, what then fails once would wait for ten minutes
    "WAYBILL_POLICIES": '{"plain": {"base": 0.3, "cap": 3}}',
}
"""Settings with which nobody waits for long."""


class Process:
    """A command that runs until it is stopped."""

    def __init__(self, home: Path, log: Path, *arguments: str, **environment: str) -> None:
        self._log = log
        self._begins_at = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = start(
                *(arguments or ("relayer", "run")),
                "--json",
                output=output,
                errors=output,
                environment=environment_of(home) | HASTY | environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    def end_leases(self, store: Store) -> None:
        """Ends the leases of this relayer, once it was killed, as if their time were over."""
        mine = outbox.c.claimed_by.contains(f":{self.pid}:")
        with store._database.transaction() as connection:
            connection.execute(update(outbox).where(mine).values(lease_until=0))

    def stop(self) -> None:
        """Lets it do nothing at all, until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def is_at_work(self) -> None:
        """Waits until it has connected and begun."""
        await until(lambda: '"relaying"' in self.log or not self.is_running, "the relayer runs")
        assert self.is_running, self.log

    async def url(self) -> str:
        """Where it serves HTTP."""
        await until(lambda: any("url" in line for line in self.lines) or not self.is_running, "it serves")
        assert self.is_running, self.log
        return next(str(line["url"]) for line in self.lines if "url" in line)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_bytes()[self._begins_at :].decode()

    def says(self, text: str) -> bool:
        return text in self.log

    @property
    def lines(self) -> list[dict[str, object]]:
        """What it has logged; a line of which a part is missing yet is left out."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{") and line.endswith("}")]


@contextmanager
def process(home: Path, log: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    """A relayer, or another command, killed in the end if it still runs."""
    started = Process(home, log, *arguments, **environment)
    try:
        yield started
    finally:
        started.kill()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something in a database or a file, which tell nobody."""
    await eventually_true(condition, what)
