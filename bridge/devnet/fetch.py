"""Brings in what a devnet is made of: the GMPs' contracts, and anvil where there is none, from pinned npm packages.

Contracts: npm tarball -> checked integrity -> <gmp>/<Contract>.json. Each file is {"abi": [...], "bytecode": "0x...",
"source": "<package>@<version>/<path>"}. `make setup` does it in a checkout, and the first `waybill devnet up` of an installed
package.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridge.devnet.errors import DevnetError
from bridge.devnet.paths import ANVIL, GMP_ARTIFACTS, IS_CHECKOUT

PINS: Final = Path(__file__).with_name("gmp_artifacts.toml")

Progress = Callable[[str], None]

_OLDEST_FOUNDRY: Final = (1, 7)
_NEXT_FOUNDRY: Final = (2, 0)
_NATIVE_MAGIC: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # Linux; macOS; macOS, two architectures
_FETCHED_FROM: Final = ".pins"  # in the contracts' folder: the pins that they were fetched by


class ArtifactError(DevnetError):
    """A package could not be fetched, is not the pinned one, or does not hold what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned npm package; fields as in gmp_artifacts.toml."""

    gmp: str = ""
    name: str
    version: str
    integrity: str
    layout: str = ""
    folder: str = ""
    contracts: list[str] = field(default_factory=list)
    for_tests: bool = False
    names: dict[str, str] = field(default_factory=dict)
    """Contract names by file name or, where a package has several versions of a contract, by path."""

    def name_of(self, contract: str) -> str:
        """The contract's name, which its artifact's file has too."""
        file_name = contract.rsplit("/", 1)[-1]
        return self.names.get(contract) or self.names.get(file_name, file_name)

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
            f"If the change is wanted, review the package and pin the new hash in {PINS.name}."
        )


def download(package: Package, folder: Path) -> Path:
    """Fetch a package's tarball with npm into a folder.

    Raises:
        ArtifactError: npm failed.
    """
    if shutil.which("npm") is None:
        raise ArtifactError("npm is missing: it fetches the package; install Node >= 20, which brings it")
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), package.specifier]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise ArtifactError(f"npm pack failed with exit code {done.returncode}:\n{said}")
    return folder / done.stdout.split()[-1]


def read_artifacts(package: Package, files: PackageFiles) -> dict[str, Artifact]:
    """Read the contracts asked for, by their names."""
    read = READERS[package.layout]
    return {package.name_of(contract): read(files, package.folder, contract) for contract in package.contracts}


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


def fetch(packages: Sequence[Package], target: Path, progress: Progress) -> None:
    """Fetch all packages; the target folder is replaced once everything is there.

    Raises:
        ArtifactError: naming the package that failed; the target is as it was before.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".gmp-") as scratch:
        fresh = Path(scratch) / "gmp"
        for number, package in enumerate(packages, 1):
            progress(f"  {number}/{len(packages)}  {package.gmp}: {package.specifier}")
            try:
                archive = download(package, Path(scratch))
                check_integrity(package, archive)
                unpack(package, archive, fresh)
            except ArtifactError as error:
                raise ArtifactError(f"{package.specifier}: {error}") from error
        (fresh / _FETCHED_FROM).write_text(_pins_hash())
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def pinned_packages() -> list[Package]:
    """Return the packages that gmp_artifacts.toml names."""
    return [Package(**entry) for entry in tomllib.loads(PINS.read_text())["package"]]


def bring_in(progress: Progress) -> None:
    """Bring in what a devnet needs and an installed package does not hold. A checkout has it from `make setup`.

    Raises:
        ArtifactError: npm is missing or failed, or there is no anvil for this machine.
    """
    if IS_CHECKOUT:
        return
    stamp = GMP_ARTIFACTS / _FETCHED_FROM
    if not stamp.exists() or stamp.read_text() != _pins_hash():
        progress(f"fetching the GMPs' contracts with npm into {GMP_ARTIFACTS}, once")
        fetch([package for package in pinned_packages() if not package.for_tests], GMP_ARTIFACTS, progress)
    bring_anvil(progress)


def is_native(binary: Path) -> bool:
    """Tell whether a file is an executable of the operating system, and not a launcher script."""
    with binary.open("rb") as file:
        return file.read(4) in _NATIVE_MAGIC


def foundry_version(binary: Path) -> tuple[int, int] | None:
    """Return (major, minor) of a Foundry binary, or None if it does not run or does not say."""
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"Version:? (\d+)\.(\d+)\.", answer)
    return (int(found[1]), int(found[2])) if found else None


def is_supported(binary: Path) -> bool:
    """Tell whether a Foundry binary is native, runs, and is of a version this project works with.

    The launchers of Foundry's npm packages are never used: they swallow exit codes (a failing `forge test` returns 0) and leave
    the real process running when they are killed.
    """
    if not is_native(binary):
        return False
    version = foundry_version(binary)
    return version is not None and _OLDEST_FOUNDRY <= version < _NEXT_FOUNDRY


def find_foundry(tool: str, packaged: Sequence[Path], path: str | None = None) -> Path | None:
    """Find one Foundry binary, on PATH or else among those of npm packages.

    Args:
        tool: "forge", "anvil" or "cast".
        packaged: where npm may have put it.
        path: the search path, `PATH` if None.
    """
    on_path = shutil.which(tool, path=path)
    candidates = [*([Path(on_path).resolve()] if on_path else []), *packaged]
    return next((candidate for candidate in candidates if candidate.exists() and is_supported(candidate)), None)


def no_foundry(tool: str, places: str) -> str:
    """What to do where there is none."""
    oldest = ".".join(map(str, _OLDEST_FOUNDRY))
    return (
        f"{tool}: no native {tool} >= {oldest} on PATH, and none {places}. Install Foundry (foundryup,"
        " https://getfoundry.sh) and try again."
    )


def link(target: Path, at: Path) -> None:
    """Point a link at a binary, in one step."""
    at.parent.mkdir(parents=True, exist_ok=True)
    fresh = at.with_name(f".{at.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(at)


def bring_anvil(progress: Progress) -> None:
    """Bring in anvil, and nothing else, if it is not there. A checkout has it from `make setup`.

    Raises:
        ArtifactError: npm is missing or failed, or there is no anvil for this machine.
    """
    if IS_CHECKOUT or ANVIL.exists():
        return
    found = find_foundry("anvil", [])
    if found is None:
        package = Package(**tomllib.loads(PINS.read_text())["anvil"])
        progress(f"fetching anvil with npm ({package.specifier}), once")
        found = ANVIL.with_name(f"anvil-{package.version}")
        found.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=found.parent, prefix=".anvil-") as scratch:
            try:
                archive = download(package, Path(scratch))
            except ArtifactError as error:
                raise ArtifactError(no_foundry("anvil", f"from npm ({package.specifier}: {error})")) from error
            check_integrity(package, archive)
            with tarfile.open(archive) as tarball:
                tarball.extract("package/bin/anvil", scratch, filter="data")
            binary = Path(scratch) / "package" / "bin" / "anvil"
            binary.chmod(0o755)
            if not is_supported(binary):
                raise ArtifactError(no_foundry("anvil", f"for this platform in {package.specifier}"))
            binary.replace(found)
    link(found, ANVIL)


def _pins_hash() -> str:
    return hashlib.sha256(PINS.read_bytes()).hexdigest()
