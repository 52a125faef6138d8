"""Debian packages unpacked into a folder: nothing is installed on the machine, and no rights are needed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class PackageMissingError(Exception):
    """A package can't be fetched; the text says why."""


def unpack(package: str, home: Path, *, with_dependencies: bool) -> Path:
    """Unpack a package from the Debian mirror, and return the folder that stands for the file system's root.

    Args:
        package: its name.
        home: a folder of its own, emptied first.
        with_dependencies: whether to unpack what it needs beyond this machine's packages too.

    Raises:
        PackageMissingError: there is no apt-get here, or it does not get the package.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise PackageMissingError(f"there is no apt-get to fetch {package} with")
    shutil.rmtree(home, ignore_errors=True)
    packages, lists, root = home / "packages", home / "lists", home / "root"
    for folder in (packages / "partial", lists / "partial", root):
        folder.mkdir(parents=True)
    # Lists of our own: the machine's may be missing, and refreshing those takes rights.
    own = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache::archives={packages}", "-o", "Debug::NoLocking=1"]
    _apt("update", *own, folder=packages)
    if with_dependencies:
        _apt("install", "--download-only", "--yes", "--no-install-recommends", package, *own, folder=packages)
    else:
        _apt("download", package, *own, folder=packages)
    for archive in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    shutil.rmtree(packages)
    shutil.rmtree(lists)
    return root


def _apt(*arguments: str, folder: Path) -> None:
    """Run apt-get quietly; what it printed is shown only if it fails."""
    command = ["apt-get", "-qq", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageMissingError(f"apt-get {arguments[0]} failed:\n{done.stdout}{done.stderr}")
