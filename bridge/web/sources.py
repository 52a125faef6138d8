"""Where the explorer reads: the index, the relayer's store, and the network's deployments file."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import Index, Spending
from bridge.records import Store
from bridge.records.dead_letters import DeadLetterLog
from bridge.web.payload import PayloadAbi

_T = TypeVar("_T")


_COMMAND = re.compile(r"`waybill ([^`]*)`")

_REST = 10
"""A figure is left alone for so many times as long as it took: at most a tenth of a core goes into each."""


class Remembered(Generic[_T]):
    """A figure that takes long: computed by one thread at a time, and shown until it is computed again."""

    def __init__(self, compute: Callable[[], _T], *, lasts: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Computes nothing yet.

        Args:
            compute: makes the figure; runs in a thread of its own.
            lasts: seconds, at least, after which a look at it has it computed again.
            clock: seconds.
        """
        self._compute = compute
        self._least = lasts
        self._lasts = lasts
        self._clock = clock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._running = False
        self._value: _T | None = None
        self._error: Exception | None = None
        self._at: float | None = None

    def look(self, patience: float) -> _T | None:
        """The figure, perhaps an older one; None also if it is not there after `patience` seconds.

        Raises:
            Exception: what the first computation failed with; a later one that fails leaves the older figure.
        """
        with self._lock:
            stale = self._at is None or self._clock() - self._at > self._lasts
            if stale and not self._running:
                self._running = True
                self._done.clear()
                threading.Thread(target=self._run, daemon=True, name="explorer-figure").start()
            known = self._at is not None
        if not known:
            self._done.wait(patience)
        if self._value is None and self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        started = self._clock()
        try:
            self._value, self._error = self._compute(), None
        except Exception as error:  # noqa: BLE001  told to whoever looks
            self._error = error
        with self._lock:
            self._at = self._clock()
            self._lasts = max(self._least, _REST * (self._at - started))
            self._running = False
        self._done.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that pages are made of. Index and store may not be there yet: then they are None, and pages say so."""

    deployment: Deployment
    index: Callable[[], Index | None]
    store: Callable[[], Store | None]
    letters: Callable[[], DeadLetterLog | None] = lambda: None
    spending: Callable[[], Spending | None] = lambda: None
    """What the newest deliveries cost; asks the chains. Raises `bridge.ports.TransientError` if they give no answer."""

    payloads: tuple[PayloadAbi, ...] = ()
    clock: Callable[[], float] = time.time
    chain_names: Mapping[int, str] = field(init=False)

    def __post_init__(self) -> None:
        """Looks the chains' names up once."""
        names = {chain.chain_id: chain.name for chain in self.deployment.chains}
        object.__setattr__(self, "chain_names", names)

    def command(self, words: str) -> str:
        """A command line for this network."""
        network = self.deployment.network
        return f"waybill {words}" if network == "devnet" else f"waybill {words} --network {network}"

    def commands_in(self, text: str) -> str:
        """The same text, its commands between backticks being for this network."""
        return _COMMAND.sub(lambda found: f"`{self.command(found.group(1))}`", text)

    def chain_name(self, chain_id: int | None) -> str:
        """A chain's name, or its id where the deployments file does not know it."""
        return "?" if chain_id is None else self.chain_names.get(chain_id, str(chain_id))
