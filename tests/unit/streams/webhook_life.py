"""One life of a publisher of webhooks, in a process of its own that may kill itself between any two of its steps."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from bridge.domain.delivery_policy import DeliveryPolicy
from bridge.domain.webhooks import WebhookState
from bridge.store import Store
from bridge.store.streams import Streams
from bridge.store.webhooks import Webhooks
from bridge.streams import webhooks
from bridge.streams.settings import WebhookSettings, WebhookTarget
from bridge.streams.webhooks import WebhookPublisher, new_client
from tests.support.dying import counted_until

LIMIT = 60  # seconds
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.unit.streams.webhook_life"])


def settings_of(*targets: WebhookTarget, **changes: Any) -> WebhookSettings:
    """Settings with which nobody waits for long."""
    usual = {
        "policy": DeliveryPolicy(max_retries=3, base=0.01, cap=0.05, dead_letter=True),
        "timeout": 0.4,
        "allow_private": True,
        "poll_interval": 0.01,
        "lease": 0.1,
        "at_once": 2,
    }
    return WebhookSettings(targets=targets, **{**usual, **changes})


def publisher(store: Store, settings: WebhookSettings, worker: str = "worker") -> WebhookPublisher:
    return WebhookPublisher(store.webhook_records, store.webhooks, store, settings, worker=worker)


async def deliver_all(store: Store, settings: WebhookSettings, worker: str = "worker") -> None:
    """Chooses and delivers, one step after the other, until nothing waits and nothing is pending."""
    made, deadline = publisher(store, settings, worker), time.monotonic() + LIMIT
    async with new_client() as client:
        while store.webhook_records.status().waiting or store.webhooks.listed(state=WebhookState.PENDING, limit=1):
            assert time.monotonic() < deadline, "deliveries do not end"
            worked = await made.choose()
            for target in settings.targets:
                worked = await made.deliver(client, target) or worked
            if not worked:
                await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Life:
    """What a life goes on with, and the number of the step before which it kills itself; None: it does not."""

    url: str
    settings: WebhookSettings
    dies_at: int | None = None

    def live(self) -> bool:
        """Lives to the end; whether it died."""
        process = FORKS.Process(target=_live, args=(self,), daemon=True)
        process.start()
        process.join(LIMIT)
        if process.is_alive():
            process.kill()
            raise AssertionError("a life does not end")
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
        return process.exitcode != 0


def _live(life: Life) -> None:
    if life.dies_at is not None:
        _count_steps(life.dies_at)
    with closing(Store(life.url)) as store:
        asyncio.run(deliver_all(store, life.settings, f"worker {os.getpid()}"))


def _count_steps(dies_at: int) -> None:
    """Has this process kill itself before its step of that number: each transaction of the store, and each exchange."""
    counted = counted_until(dies_at)
    setattr(webhooks, "post", counted(webhooks.post))  # noqa: B010  # in this process alone
    for owner, names in ((Streams, ("claim", "sent")), (Webhooks, ("add", "claim", "delivered"))):
        for name in names:
            setattr(owner, name, counted(getattr(owner, name)))
