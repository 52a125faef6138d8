"""The lock files name every package by version and hash, and no registry's address."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.setup_python import uv_requirement

ROOT = Path(__file__).resolve().parents[3]
PYTHON_LOCKS = ("requirements.lock", "requirements-java.lock", "requirements-proofs.lock")
NPM_FOLDERS = (".", "dapp", "bench/index/ponder")
ENTRY = re.compile(
    r"^(?P<requirement>[A-Za-z0-9][^\\\n]*?) \\\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def locked(name: str) -> list[Requirement]:
    return [Requirement(entry["requirement"]) for entry in ENTRY.finditer((ROOT / name).read_text())]


@pytest.mark.parametrize("name", PYTHON_LOCKS)
def test_python_lock_holds_hashed_exact_versions_and_nothing_else(name: str) -> None:
    text = (ROOT / name).read_text()
    rest = [line for line in ENTRY.sub("", text).splitlines() if not line.startswith("#")]
    assert rest == []
    assert locked(name)
    assert all(re.fullmatch(r"==\S+", str(requirement.specifier)) for requirement in locked(name))


@pytest.mark.parametrize("name", PYTHON_LOCKS)
def test_python_lock_names_no_address(name: str) -> None:
    assert "://" not in (ROOT / name).read_text()


def test_every_python_requirement_of_the_project_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    named = [
        *project["project"]["dependencies"],
        *extras["relayer"],
        *extras["index"],
        *project["dependency-groups"]["dev"],
    ]
    wanted = [Requirement(text) for text in named]
    pins = {(canonicalize_name(pin.name), next(iter(pin.specifier)).version) for pin in locked("requirements.lock")}
    for requirement in wanted:
        versions = [version for name, version in pins if name == canonicalize_name(requirement.name)]
        assert versions, f"{requirement} is not locked: run make lock"
        assert all(version in requirement.specifier for version in versions), f"{requirement}: run make lock"


def test_uv_is_brought_in_by_its_locked_hashes() -> None:
    entry = uv_requirement((ROOT / "requirements.lock").read_text())
    assert entry.startswith("uv==")
    assert entry.count("--hash=sha256:") == len(entry.splitlines()) - 1 > 1


def test_lock_without_uv_is_refused() -> None:
    with pytest.raises(SystemExit, match="no hashed entry for uv"):
        uv_requirement("uvloop==1.0 \\\n    --hash=sha256:00\n")


@pytest.mark.parametrize("folder", NPM_FOLDERS)
def test_npm_lock_holds_hashes_and_no_address_of_a_package(folder: str) -> None:
    packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
    del packages[""]
    assert packages
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


@pytest.mark.parametrize("folder", NPM_FOLDERS)
def test_npm_lock_matches_package_json(folder: str) -> None:
    wanted = json.loads((ROOT / folder / "package.json").read_text())
    root = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"][""]
    groups = wanted.keys() & {"dependencies", "devDependencies", "optionalDependencies"}
    assert groups
    for group in groups:
        assert root[group] == wanted[group]
        assert all(re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", version) for version in wanted[group].values())
