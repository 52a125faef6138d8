"""Downloads the GMPs' contracts, and anvil if it is missing, from pinned npm packages.

Contracts are unpacked from an npm tarball, whose integrity is checked, to <gmp>/<Contract>.json. Each file is
{"abi": [...], "bytecode": "0x...", "source": "<package>@<version>/<path>"}. In a checkout, `make setup` runs
this; in an installed package, the first `waybill devnet up`.
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
_FETCHED_FROM: Final = ".pins"  # hash of the pins, in the contracts' folder


class ArtifactError(DevnetError):
    """A package could not be downloaded, differs from its pin, or lacks expected contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned npm package. The fields are those of gmp_artifacts.toml."""

    gmp: str = ""
    name: str
    version: str
    integrity: str
    layout: str = ""
    folder: str = ""
    contracts: list[str] = field(default_factory=list)
    for_tests: bool = False
    names: dict[str, str] = field(default_factory=dict)
    """Contract names by file name, where the two differ."""

    def name_of(self, contract: str) -> str:
        """Returns the contract's name, which is also its artifact's file name."""
        file_name = contract.rsplit("/", 1)[-1]
        return self.names.get(file_name, file_name)

    @property
    def specifier(self) -> str:
        """Returns the npm package specifier."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A published contract, with its ABI, its creation bytecode as 0x-prefixed hex, and its path in the package."""

    abi: object
    bytecode: str
    path: str


class PackageFiles:
    """Text files of an npm package by path."""

    def __init__(self, tarball: tarfile.TarFile) -> None:
        self._tarball = tarball

    def text(self, path: str) -> str:
        """Returns a file's text.

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
    """Parses a JavaScript object literal in typechain's style, with bare keys and trailing commas."""
    quoted = re.sub(r"([{,]\s*)([A-Za-z_]\w*):", r'\1"\2":', text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", quoted))


def read_typechain(files: PackageFiles, folder: str, contract: str) -> Artifact:
    """Reads a contract from its typechain factory class."""
    path = f"{folder}/{contract}__factory.js"
    text = files.text(path)
    abi = re.search(r"(?:const|var) _abi\s*=\s*(\[[\s\S]*?\n\]);", text)
    bytecode = re.search(r'_bytecode\s*=\s*"(0x\w+)"', text)
    if abi is None or bytecode is None:
        raise ArtifactError(f"{path} contains no ABI or no bytecode")
    return Artifact(object_literal(abi[1]), bytecode[1], path)


def read_hardhat(files: PackageFiles, folder: str, contract: str) -> Artifact:
    """Reads a contract from a Hardhat or Foundry JSON artifact."""
    path = f"{folder}/{contract}.json"
    artifact = json.loads(files.text(path))
    bytecode = artifact["bytecode"]
    return Artifact(artifact["abi"], bytecode if isinstance(bytecode, str) else bytecode["object"], path)


def read_abi_and_bytecode(files: PackageFiles, _folder: str, contract: str) -> Artifact:
    """Reads a contract from a JSON and a hex file."""
    path = f"bytecode/{contract}.bin"
    return Artifact(json.loads(files.text(f"abi/{contract}.json")), files.text(path).strip(), path)


READERS: dict[str, Callable[[PackageFiles, str, str], Artifact]] = {
    "typechain": read_typechain,
    "hardhat": read_hardhat,
    "abi-and-bytecode": read_abi_and_bytecode,
}


def integrity_of(archive: Path) -> str:
    """Returns a file's hash in npm's format."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def check_integrity(package: Package, archive: Path) -> None:
    """Checks a tarball against its pin.

    Raises:
        ArtifactError: the hashes differ.
    """
    actual = integrity_of(archive)
    if actual != package.integrity:
        raise ArtifactError(
            f"the tarball does not match the pinned hash and was not unpacked.\n  pinned: {package.integrity}\n  "
            f"found:  {actual}\nIf the change is wanted, review the package and pin the new hash in "
            f"{PINS.name}."
        )


def download(package: Package, folder: Path) -> Path:
    """Downloads a package's tarball with npm.

    Raises:
        ArtifactError: npm failed.
    """
    if shutil.which("npm") is None:
        raise ArtifactError("npm not found; install Node >= 20, which includes it")
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), package.specifier]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        output = process.stderr.strip() or process.stdout.strip()
        raise ArtifactError(f"npm pack exited with status {process.returncode}:\n{output}")
    return folder / process.stdout.split()[-1]


def read_artifacts(package: Package, files: PackageFiles) -> dict[str, Artifact]:
    """Reads a package's contracts by name."""
    read = READERS[package.layout]
    return {package.name_of(contract): read(files, package.folder, contract) for contract in package.contracts}


def unpack(package: Package, archive: Path, target: Path) -> None:
    """Writes a package's contracts to <target>/<gmp>/<Contract>.json.

    Raises:
        ArtifactError: a contract is missing or can't be deployed.
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
    """Downloads all packages, then replaces the target folder.

    Raises:
        ArtifactError: downloading a package failed. The target is unchanged, and the message states the package.
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
    """Returns the packages in gmp_artifacts.toml."""
    return [Package(**entry) for entry in tomllib.loads(PINS.read_text())["package"]]


def bring_in(progress: Progress) -> None:
    """Downloads the files that an installed package does not contain.

    Does nothing in a checkout, where `make setup` downloads them.

    Raises:
        ArtifactError: npm is missing or failed, or there is no anvil for this platform.
    """
    if IS_CHECKOUT:
        return
    stamp = GMP_ARTIFACTS / _FETCHED_FROM
    if not stamp.exists() or stamp.read_text() != _pins_hash():
        progress(f"fetching the GMPs' contracts with npm into {GMP_ARTIFACTS}, once")
        fetch([package for package in pinned_packages() if not package.for_tests], GMP_ARTIFACTS, progress)
    bring_anvil(progress)


def is_native(binary: Path) -> bool:
    """Returns whether a file is a native executable, not a launcher script."""
    with binary.open("rb") as file:
        return file.read(4) in _NATIVE_MAGIC


def foundry_version(binary: Path) -> tuple[int, int] | None:
    """Returns the (major, minor) version of a Foundry binary, or None if it can't be determined."""
    try:
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"Version:? (\d+)\.(\d+)\.", output)
    return (int(match[1]), int(match[2])) if match else None


def is_supported(binary: Path) -> bool:
    """Returns whether a Foundry binary is native, runs, and has a supported version.

    The launchers in Foundry's npm packages are never used: they swallow exit codes (a failing `forge test` returns 0)
    and leave the real process running when they are killed.
    """
    if not is_native(binary):
        return False
    version = foundry_version(binary)
    return version is not None and _OLDEST_FOUNDRY <= version < _NEXT_FOUNDRY


def find_foundry(tool: str, packaged: Sequence[Path], path: str | None = None) -> Path | None:
    """Returns a supported Foundry binary from PATH or, failing that, from the npm packages, or None if there is none.

    Args:
        tool: "forge", "anvil" or "cast".
        packaged: Candidate paths in npm packages.
        path: Search path; None uses `PATH`.
    """
    on_path = shutil.which(tool, path=path)
    candidates = [*([Path(on_path).resolve()] if on_path else []), *packaged]
    return next((candidate for candidate in candidates if candidate.exists() and is_supported(candidate)), None)


def no_foundry(tool: str, places: str) -> str:
    """Returns the error for a missing Foundry binary."""
    oldest = ".".join(map(str, _OLDEST_FOUNDRY))
    return (
        f"{tool}: no native {tool} >= {oldest} on PATH or {places}. Install Foundry (foundryup,"
        " https://getfoundry.sh) and try again."
    )


def link(target: Path, at: Path) -> None:
    """Atomically replaces a symbolic link to a binary."""
    at.parent.mkdir(parents=True, exist_ok=True)
    fresh = at.with_name(f".{at.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(at)


def bring_anvil(progress: Progress) -> None:
    """Downloads only anvil, if it is missing. Does nothing in a checkout, where `make setup` installs it.

    Raises:
        ArtifactError: npm is missing or failed, or there is no anvil for this platform.
    """
    if IS_CHECKOUT or ANVIL.exists():
        return
    binary_path = find_foundry("anvil", [])
    if binary_path is None:
        package = Package(**tomllib.loads(PINS.read_text())["anvil"])
        progress(f"fetching anvil with npm ({package.specifier}), once")
        binary_path = ANVIL.with_name(f"anvil-{package.version}")
        binary_path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=binary_path.parent, prefix=".anvil-") as scratch:
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
            binary.replace(binary_path)
    link(binary_path, ANVIL)


def _pins_hash() -> str:
    return hashlib.sha256(PINS.read_bytes()).hexdigest()
