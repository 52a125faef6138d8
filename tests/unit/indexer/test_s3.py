"""The lake in an S3 bucket: the same lake, over real HTTP to a server of the S3 protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from indexer.lake.lake import FinalBlocks, Lake
from indexer.model.errors import LakeUnreachableError, SettingsError
from indexer.model.storage_location import StorageLocation
from tests.cases import for_each_case
from tests.s3 import S3
from tests.unit.indexer.lakes import chain_with_events, final, repairs
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.sink_sweep import work, wrong

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]


def test_a_lake_in_a_bucket_is_filled_as_one_in_a_folder(s3: S3, tmp_path: Path) -> None:
    place = StorageLocation.of(s3.new_lake())
    work(tmp_path / "bucket", place)
    work(tmp_path / "folder", StorageLocation.of(tmp_path / "folder" / "lake"))
    assert wrong(tmp_path / "bucket", place) == ""
    assert not (tmp_path / "bucket" / "lake").exists()
    bucket, folder = Lake(place), Lake(tmp_path / "folder" / "lake")
    assert bucket.version == folder.version
    assert bucket.events(ALPHA, 0, 99) == folder.events(ALPHA, 0, 99)


def test_events_are_taken_back_and_replaced_in_a_bucket(s3: S3) -> None:
    lake, chain = Lake(StorageLocation.of(s3.new_lake())), chain_with_events(5)
    lake.append(chain.events(0, 5), final(chain, 0, 5))
    lake.replace(ALPHA, 2, 2, chain.events(2, 2).slice(0, 0), "lost")
    assert lake.events(ALPHA, 0, 9) == chain.events(0, 5).filter([number != 2 for number in range(1, 6)])
    lake.take_back(ALPHA, FinalBlocks(4, 3, chain.blocks[3].hash), "gone")
    lake.append(chain.events(4, 5), final(chain, 4, 5))
    assert lake.events(ALPHA, 3, 9) == chain.events(3, 5)
    assert repairs(lake) == ["gone", "lost"]


def test_of_two_writers_that_add_the_same_blocks_to_a_bucket_the_second_is_refused(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, chain = StorageLocation.of(s3.new_lake()), chain_with_events(3)
    first, second = Lake(place), Lake(place)
    seen_before = second._table()
    first.append(chain.events(0, 3), final(chain, 0, 3))
    monkeypatch.setattr(second, "_table", lambda: seen_before)
    with pytest.raises(CommitFailedError):
        second.append(chain.events(0, 3), final(chain, 0, 3))
    assert first.events(ALPHA, 0, 9) == chain.events(0, 3)


def sweep(folder: Path, lake: str, points: list[str]) -> None:
    command = [sys.executable, "-m", "tests.unit.indexer.sink_sweep", "--lake", lake, str(folder), *points]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert [one for one in found if one["wrong"]] == []
    assert sum(one["killed"] for one in found) > len(found) * 0.6, found


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_an_index_killed_before_any_of_forty_requests_to_its_bucket_goes_on_with_nothing_lost_and_nothing_twice(
    s3: S3, tmp_path: Path
) -> None:
    sweep(tmp_path, s3.new_lake(), [f"writev:{number}" for number in range(1, 120, 3)])


def test_what_is_wrong_with_a_bucket_is_said_in_plain_words(s3: S3) -> None:
    with pytest.raises(LakeUnreachableError, match=r"s3://nowhere/waybill/lake.* no such bucket"):
        Lake(StorageLocation.of(s3.lake_in("nowhere")))
    there = s3.new_lake()
    with s3.refusing(), pytest.raises(LakeUnreachableError, match=r"credentials were refused.*AWS_ACCESS_KEY_ID"):
        Lake(StorageLocation.of(there))
    lake = Lake(StorageLocation.of(there))
    with s3.refusing(), pytest.raises(LakeUnreachableError, match="credentials were refused"):
        lake.append(chain_with_events(1).events(0, 1), {})
    with pytest.raises(LakeUnreachableError, match=r"endpoint can't be reached.*AWS_ENDPOINT_URL"):
        Lake(StorageLocation.of("s3://lake/a?endpoint=http://127.0.0.1:1"))


@for_each_case(
    "told, said",
    [
        ("gs://bucket/lake", "a folder, or a bucket such as s3://"),
        ("s3:///lake", "names no bucket"),
        ("s3://key:word@bucket/lake", "names no bucket, or more"),
        ("s3://bucket/lake?aws_secret_access_key=word", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/lake?endpoint=minio:9000", "'minio:9000' of the lake is no URL"),
    ],
)
def test_a_url_that_is_no_place_for_a_lake_is_refused_without_repeating_secrets(told: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        StorageLocation.of(told, {})
    assert "word" not in str(refused.value)


def test_endpoint_and_region_come_from_the_url_or_the_usual_variables() -> None:
    usual = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_DEFAULT_REGION": "eu-west-1"}
    assert StorageLocation.of("s3a://bucket/a/lake/", usual) == StorageLocation(
        "s3://bucket/a/lake", "http://minio:9000", "eu-west-1"
    )
    told = StorageLocation.of("s3://bucket/lake?region=eu-central-1", usual | {"AWS_ENDPOINT_URL_S3": "https://s3:1"})
    assert told == StorageLocation("s3://bucket/lake", "https://s3:1", "eu-central-1")
    assert StorageLocation.of("shared/lake", usual) == StorageLocation("shared/lake")
