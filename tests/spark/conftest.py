"""One Spark session for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from indexer.spark.session import spark_session
from tests.spark.chain import AnvilChain, anvil_chain
from tests.spark.story import World


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session


@pytest.fixture
def alpha() -> Iterator[AnvilChain]:
    with anvil_chain(31337) as chain:
        yield chain


@pytest.fixture
def beta() -> Iterator[AnvilChain]:
    with anvil_chain(31338) as chain:
        yield chain


@pytest.fixture
def world(alpha: AnvilChain, beta: AnvilChain, tmp_path: Path) -> World:
    return World(alpha, beta, tmp_path / "index")
