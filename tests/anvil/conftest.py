"""A devnet for the suite: two real chains with the real GMPs and Waybill on them, as new for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain, open_chains
from tests.anvil.devnets import new_devnet, undone


@pytest.fixture(scope="session")
def running_devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """What a test leaves on these chains stays. Use `devnet`."""
    with new_devnet(tmp_path_factory.mktemp("devnet")) as devnet:
        yield devnet


@pytest.fixture
def devnet(running_devnet: Devnet) -> Iterator[Devnet]:
    """The devnet as it was after its deployment; a test's blocks are gone when it ends."""
    with undone(running_devnet):
        yield running_devnet


@pytest.fixture
async def chains(devnet: Devnet) -> AsyncIterator[dict[int, EvmChain]]:
    """The devnet's chains by id, connected."""
    async with open_chains(devnet.deployment) as opened:
        yield opened
