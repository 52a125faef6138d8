"""One broker for the suite. A test that kills it starts it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.anvil.conftest import chains, devnet, running_devnet
from tests.kafka.broker import Broker

__all__ = ["chains", "devnet", "running_devnet"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.kill()
