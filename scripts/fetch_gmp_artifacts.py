"""Fetches the GMPs' contracts: npm tarball -> checked integrity -> build/gmp/<gmp>/<Contract>.json.

Each file is {"abi": [...], "bytecode": "0x...", "source": "<package>@<version>/<path>"}.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "scripts" / "gmp_artifacts.toml"
TARGET = ROOT / "build" / "gmp"


class ArtifactError(Exception):
    """A package could not be fetched, is not the pinned one, or does not hold what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned npm package; fields as in gmp_artifacts.toml."""

    gmp: str
    name: str
    version: str
    integrity: str
    layout: str
    folder: str
    contracts: list[str]
    names: dict[str, str] = field(default_factory=dict)
    """Contract names where the package's file names differ from them."""

    @property
    def specifier(self) -> str:
        """The package as npm names it."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A contract as published: its ABI, its creation bytecode as 0x-hex, and the file in the package."""

    abi: object
    bytecode: str
    path: str


class PackageFiles:
    """Text files of an npm package, by their path in it."""

    def __init__(self, tarball: tarfile.TarFile) -> None:
        self._tarball = tarball

    def text(self, path: str) -> str:
        """Return one file's text.

        Raises:
            ArtifactError: the package has no such file.
        """
        try:
            member = self._tarball.extractfile(f"package/{path}")
        except KeyError:
            member = None
        if member is None:
            raise ArtifactError(f"the package has no file {path}")
        return member.read().decode()


def object_literal(text: str) -> object:
    """Read a JavaScript literal of the plain kind that typechain writes: bare keys, trailing commas."""
    quoted = re.sub(r"([{,]\s*)([A-Za-z_]\w*):", r'\1"\2":', text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", quoted))


def read_typechain(files: PackageFiles, folder: str, contract: str) -> Artifact:
    """Read a contract from the factory class that typechain generated for it."""
    path = f"{folder}/{contract}__factory.js"
    text = files.text(path)
    abi = re.search(r"(?:const|var) _abi\s*=\s*(\[[\s\S]*?\n\]);", text)
    bytecode = re.search(r'_bytecode\s*=\s*"(0x\w+)"', text)
    if abi is None or bytecode is None:
        raise ArtifactError(f"{path} holds no ABI or no bytecode")
    return Artifact(object_literal(abi[1]), bytecode[1], path)


def read_hardhat(files: PackageFiles, folder: str, contract: str) -> Artifact:
    """Read a contract from Hardhat's or Foundry's JSON artifact."""
    path = f"{folder}/{contract}.json"
    artifact = json.loads(files.text(path))
    bytecode = artifact["bytecode"]
    return Artifact(artifact["abi"], bytecode if isinstance(bytecode, str) else bytecode["object"], path)


def read_abi_and_bytecode(files: PackageFiles, _folder: str, contract: str) -> Artifact:
    """Read a contract from two files, JSON and hex."""
    path = f"bytecode/{contract}.bin"
    return Artifact(json.loads(files.text(f"abi/{contract}.json")), files.text(path).strip(), path)


READERS: dict[str, Callable[[PackageFiles, str, str], Artifact]] = {
    "typechain": read_typechain,
    "hardhat": read_hardhat,
    "abi-and-bytecode": read_abi_and_bytecode,
}


def integrity_of(archive: Path) -> str:
    """Return a file's hash in the form npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def check_integrity(package: Package, archive: Path) -> None:
    """Refuse a tarball that is not the pinned one.

    Raises:
        ArtifactError: the hashes differ.
    """
    found = integrity_of(archive)
    if found != package.integrity:
        raise ArtifactError(
            f"the tarball is not the pinned one and was not unpacked.\n  pinned: {package.integrity}\n  found:  {found}\n"
            f"If the change is wanted, review the package and pin the new hash in {PINS.relative_to(ROOT)}."
        )


def download(package: Package, folder: Path) -> Path:
    """Fetch a package's tarball with npm into a folder.

    Raises:
        ArtifactError: npm failed.
    """
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), package.specifier]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise ArtifactError(f"npm pack failed with exit code {done.returncode}:\n{said}")
    return folder / done.stdout.split()[-1]


def read_artifacts(package: Package, files: PackageFiles) -> dict[str, Artifact]:
    """Read the contracts asked for, by their names."""
    read = READERS[package.layout]
    file_names = {contract: contract.rsplit("/", 1)[-1] for contract in package.contracts}
    return {
        package.names.get(file_name, file_name): read(files, package.folder, contract)
        for contract, file_name in file_names.items()
    }


def unpack(package: Package, archive: Path, target: Path) -> None:
    """Write the contracts asked for to <target>/<gmp>/<Contract>.json.

    Raises:
        ArtifactError: a contract is missing, or is not ready to be deployed.
    """
    folder = target / package.gmp
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tarball:
        artifacts = read_artifacts(package, PackageFiles(tarball))
    for name, artifact in artifacts.items():
        bytecode = "0x" + artifact.bytecode.removeprefix("0x")
        if re.fullmatch(r"0x([0-9a-fA-F]{2})+", bytecode) is None:
            raise ArtifactError(f"{artifact.path}: the bytecode is empty or has unlinked libraries")
        content = {"abi": artifact.abi, "bytecode": bytecode, "source": f"{package.specifier}/{artifact.path}"}
        (folder / f"{name}.json").write_text(json.dumps(content))


def fetch(packages: list[Package], target: Path) -> None:
    """Fetch all packages; the target folder is replaced once everything is there.

    Raises:
        ArtifactError: naming the package that failed; the target is as it was before.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".gmp-") as scratch:
        fresh = Path(scratch) / "gmp"
        for number, package in enumerate(packages, 1):
            print(f"  {number}/{len(packages)}  {package.gmp}: {package.specifier}", flush=True)
            try:
                archive = download(package, Path(scratch))
                check_integrity(package, archive)
                unpack(package, archive, fresh)
            except ArtifactError as error:
                raise ArtifactError(f"{package.specifier}: {error}") from error
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def pinned_packages() -> list[Package]:
    """Return the packages that gmp_artifacts.toml names."""
    return [Package(**entry) for entry in tomllib.loads(PINS.read_text())["package"]]


if __name__ == "__main__":
    try:
        fetch(pinned_packages(), TARGET)
    except ArtifactError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
