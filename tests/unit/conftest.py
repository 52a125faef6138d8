"""What several folders of unit tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql import Server, running_postgresql
from tests.s3 import CREDENTIALS, S3, running_s3


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test finds no Spark that an earlier one started in this process, and leaves environment and folder as they were."""
    spark = sys.modules.get("pyspark.sql")
    if spark is not None:
        monkeypatch.setattr(spark.SparkSession, "getActiveSession", lambda: None)
    environment, folder = dict(os.environ), Path.cwd()
    yield
    os.chdir(folder)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server for all tests of a run; each takes a schema of its own (`new_url`)."""
    with running_postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server of the S3 protocol for all tests of a run."""
    with running_s3(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The same, with credentials for it and nothing else of AWS in the environment; each test takes a bucket of its own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return s3_server
