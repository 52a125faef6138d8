"""The lines of docs/operate/cluster.md that start Spark, compared with the Spark and the Waybill that they start."""

from __future__ import annotations

import itertools
import re
import shlex
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyspark
import pytest

from bridge.settings import Settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operate" / "cluster.md").read_text()
CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.lake."


def submissions() -> list[list[str]]:
    """The words of each `spark-submit` line."""
    blocks = re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [shlex.split(block) for block in blocks if block.startswith("spark-submit")]


def settings_of(words: list[str]) -> dict[str, str]:
    """What `--conf` says."""
    told = [after for word, after in itertools.pairwise(words) if word == "--conf"]
    return dict(setting.split("=", 1) for setting in told)


def on_kubernetes() -> list[str]:
    (words,) = [words for words in submissions() if any(word.startswith("k8s://") for word in words)]
    return words


def names_in_spark() -> Iterator[bytes]:
    """The constants of the classes in which Spark declares the settings of its core and of Kubernetes."""
    jars = Path(pyspark.__file__).parent / "jars"
    for pattern in ("spark-core_*.jar", "spark-kubernetes_*.jar"):
        (jar,) = jars.glob(pattern)
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if re.search(r"/(config/package|k8s/Config|k8s/KubernetesVolumeUtils)\$\.class$", name):
                    yield classes.read(name)


def test_every_setting_is_one_that_this_spark_knows() -> None:
    known = b"".join(names_in_spark())
    for words in submissions():
        for name in settings_of(words):
            # The name of a volume and what is said about it are put together by Spark.
            parts = (
                ["spark.kubernetes.executor.volumes.", "persistentVolumeClaim", name.removeprefix(CLAIM)]
                if name.startswith(CLAIM)
                else [name]
            )
            for part in parts:
                # As it stands in a class: the length comes first, so that no part of a longer name passes for one.
                assert len(part).to_bytes(2, "big") + part.encode() in known, name


def test_executors_mount_the_lake_where_the_page_tells_waybill_to_keep_it() -> None:
    (lake,) = re.findall(r"`WAYBILL_INDEX_LAKE=([^`]+)`", PAGE)
    assert settings_of(on_kubernetes())[CLAIM + "mount.path"] == lake
    assert "index_lake" in Settings.model_fields


def test_the_program_is_waybills_command_below_the_folder_that_the_image_has_it_in() -> None:
    (folder,) = re.findall(r"pip install --target (\S+?)`", PAGE)
    (program,) = [word for word in on_kubernetes() if word.endswith(".py")]
    assert program.startswith(folder + "/")
    assert (ROOT / program.removeprefix(folder + "/")).is_file()
    assert f"`PYTHONPATH={folder}`" in PAGE


def test_the_image_has_the_spark_that_waybill_installs() -> None:
    assert re.findall(r"`apache/spark` of version (\S+),", PAGE) == [version("pyspark")]


@pytest.mark.parametrize("words", submissions(), ids=["standalone", "kubernetes"])
def test_the_driver_is_the_process_that_was_started(words: list[str]) -> None:
    # One writer: in cluster mode Spark would start a driver of its own somewhere else.
    assert words[words.index("--deploy-mode") + 1] == "client"
    assert words[words.index("--master") + 1].startswith(("spark://", "k8s://"))
