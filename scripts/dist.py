"""Builds the artifacts of a release: the wheel, both npm packages, an SBOM and checksums."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bridge

ROOT: Final = Path(__file__).resolve().parents[1]
_PACKAGES: Final = ("contracts", "dapp")  # of npm
_EXTRAS: Final = ("relayer", "index", "kafka")
_LOCKED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)
_IMPORTED: Final = re.compile(r'^(?:import|\} from|import .* from) "([^".][^"]*)";$', re.MULTILINE)


class ReleaseError(Exception):
    """The release can't be built. The message states the reason."""


def release_version(tag: str | None) -> str:
    """Returns the common version of all artifacts.

    Raises:
        ReleaseError: a package or the tag has a different version.
    """
    said = {name: str(json.loads((ROOT / name / "package.json").read_text())["version"]) for name in _PACKAGES}
    if wrong := {name: version for name, version in said.items() if version != bridge.__version__}:
        listed = ", ".join(f"{name}/package.json says {version}" for name, version in wrong.items())
        raise ReleaseError(
            f"bridge/__init__.py has version {bridge.__version__}, but {listed}: use the same version in each"
        )
    if tag and tag != f"v{bridge.__version__}":
        raise ReleaseError(
            f"the tag is {tag}, but bridge/__init__.py has version {bridge.__version__}: correct one of them"
        )
    return bridge.__version__


def bill_of_materials(version: str) -> dict[str, Any]:
    """Returns a CycloneDX 1.6 SBOM of the wheel with all extras, and of the packages in the explorer's script.

    The document depends only on the lock files.

    Raises:
        ReleaseError: a dependency is missing from the lock files.
    """
    components = [*_of_python(), *_of_the_explorer()]
    components.sort(key=lambda one: str(one["purl"]))
    content = json.dumps([version, components], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/waybill@{version}",
                "name": "waybill",
                "version": version,
                "purl": f"pkg:pypi/waybill@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
    }


def _of_python() -> Iterator[dict[str, Any]]:
    needed, found = _closure("waybill", _EXTRAS), set[str]()
    # Java's lock holds what the extra `java` brings and nothing else; where the machine has a Java, it is not installed.
    java = _LOCKED.findall((ROOT / "requirements-java.lock").read_text())
    needed |= {canonicalize_name(said) for said, _, _ in java}
    # A package may be there twice: another Python gets another version.
    for said, version, hashed in [*_LOCKED.findall((ROOT / "requirements.lock").read_text()), *java]:
        name, hashes = canonicalize_name(said), re.findall(r"sha256:([0-9a-f]{64})", hashed)
        if name not in needed:
            continue
        found.add(name)
        purl = f"pkg:pypi/{name}@{version}"
        files = {"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": one} for one in hashes]}
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
               "externalReferences": [files]}  # fmt: skip
    if missing := needed - found:
        raise ReleaseError(f"{', '.join(sorted(missing))} : required, but in no lock file; run `make lock`")


def _closure(name: str, extras: Iterable[str]) -> set[str]:
    """Returns the transitive dependencies of a package by normalised name."""
    found, waiting, seen = set[str](), [(name, frozenset(extras))], set[tuple[str, frozenset[str]]]()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        for text in distribution(asked[0]).requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in ("", *asked[1])):
                found.add(canonicalize_name(needed.name))
                waiting.append((needed.name, frozenset(needed.extras)))
    return found


def _of_the_explorer() -> Iterator[dict[str, Any]]:
    """Returns the npm packages that the explorer's script imports, with their dependencies."""
    locked: Mapping[str, Any] = json.loads((ROOT / "dapp" / "package-lock.json").read_text())["packages"]
    files = [*(ROOT / "dapp" / "explorer").glob("*.ts"), *(ROOT / "dapp" / "src").glob("*.ts")]
    names = {name for file in files for name in _IMPORTED.findall(file.read_text())}
    waiting = [f"node_modules/{name}" for name in locked[""]["devDependencies"] if _is_imported(name, names)]
    found = dict[str, Any]()
    while waiting:
        place = waiting.pop()
        if place in found:
            continue
        found[place] = package = locked[place]
        waiting += [_place(place, name, locked) for name in package.get("dependencies", {})]
    for place, package in found.items():
        name, version = place.rpartition("node_modules/")[2], package["version"]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        digest = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
               "hashes": [{"alg": "SHA-512", "content": digest}]}  # fmt: skip


def _is_imported(name: str, imported: Iterable[str]) -> bool:
    return any(one == name or one.startswith(f"{name}/") for one in imported) and name not in _NOT_BUNDLED


_NOT_BUNDLED: Final = ("esbuild", "react")  # what bundles, and what a dApp brings for the kit's hooks


def _place(place: str, name: str, locked: Mapping[str, Any]) -> str:
    """Returns the location of a package imported by the package at `place`, following Node's resolution."""
    parts = place.split("/node_modules/")
    for length in range(len(parts), 0, -1):
        nested = "/node_modules/".join([*parts[:length], name])
        if nested in locked:
            return nested
    return f"node_modules/{name}"


def write_checksums(folder: Path) -> Path:
    """Writes the SHA-256 checksums of a folder's files in the format of `sha256sum -c`."""
    sums = folder / "SHA256SUMS"
    files = sorted(file for file in folder.iterdir() if file != sums)
    sums.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    return sums


def main() -> None:
    """Builds the release in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, help="an empty folder; if not given, build/dist, which is replaced")
    parser.add_argument("--tag", help="of the release; refused unless it is the version's")
    asked = parser.parse_args()
    version, folder = release_version(asked.tag), ROOT / "build" / "dist"
    if asked.into is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder = asked.into.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ReleaseError(f"{folder} is not empty; choose an empty folder for the release")
    wheel = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(wheel, cwd=ROOT, check=True)
    packed = [str(ROOT / name) for name in _PACKAGES]
    subprocess.run(["npm", "pack", "--silent", *packed, "--pack-destination", str(folder)], cwd=ROOT, check=True)
    (folder / f"waybill-{version}.cdx.json").write_text(json.dumps(bill_of_materials(version), indent=2) + "\n")
    write_checksums(folder)
    print(f"version {version} in {folder}:", *sorted(file.name for file in folder.iterdir()), sep="\n  ")


if __name__ == "__main__":
    try:
        main()
    except (ReleaseError, subprocess.CalledProcessError) as error:
        sys.exit(f"no release: {error}")
