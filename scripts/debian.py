"""Unpacks Debian packages into a folder, without installing them and without root privileges."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "build" / "tools"


class PackageMissingError(Exception):
    """A package can't be downloaded. The message states the reason."""


def find_program(program: str, package: str, *, with_dependencies: bool) -> Path:
    """Returns a program from PATH or, failing that, from its package, unpacked into build/tools/<package>.

    Args:
        program: Name of the program.
        package: Debian package with the program in /usr/bin.
        with_dependencies: Whether to unpack libraries that are missing on this machine.

    Raises:
        PackageMissingError: the program is neither installed nor on the Debian mirror. The message states the remedy.
    """
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    home = TOOLS / package
    launcher = home / program
    TOOLS.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one fetches, and other callers wait for it
        if not launcher.exists():
            print(f"fetching {program} from the Debian mirror (once)", file=sys.stderr, flush=True)
            try:
                root = unpack(package, home, with_dependencies=with_dependencies)
                write_launcher(launcher, root / "usr" / "bin" / program, root)
            except PackageMissingError as error:
                how = f"Debian: apt install {package}. Elsewhere put {program} on PATH."
                raise PackageMissingError(f"{program} is missing: {error}\n{how}") from error
    return launcher


def write_launcher(launcher: Path, binary: Path, root: Path) -> None:
    """Writes a launcher for an unpacked program and its unpacked libraries.

    Raises:
        PackageMissingError: the program is missing or does not start.
    """
    if not binary.exists():
        raise PackageMissingError(f"the package does not contain {binary.relative_to(root)}")
    # Some packages keep libraries in folders of their own, which only their installation would tell the linker.
    libraries = ":".join(sorted({str(path.parent) for path in root.glob("**/*-linux-gnu/**/*.so*")}))
    fresh = launcher.with_suffix(".new")
    fresh.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}:$LD_LIBRARY_PATH" exec "{binary}" "$@"\n', encoding="utf-8"
    )
    fresh.chmod(0o755)
    answer = subprocess.run([fresh, "--version"], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise PackageMissingError(f"{binary.name} was installed but does not start:\n{answer.stderr}")
    fresh.replace(launcher)


def unpack(package: str, home: Path, *, with_dependencies: bool) -> Path:
    """Unpacks a package from the Debian mirror, and returns the folder that represents the root of the file system.

    Args:
        package: Name of the package.
        home: Folder for this package only, which is emptied first.
        with_dependencies: Whether to unpack missing dependencies too.

    Raises:
        PackageMissingError: apt-get is missing or failed.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise PackageMissingError(f"apt-get not found, which installs {package}")
    shutil.rmtree(home, ignore_errors=True)
    packages, lists, root = home / "packages", home / "lists", home / "root"
    for folder in (packages / "partial", lists / "partial", root):
        folder.mkdir(parents=True)
    # Lists of our own: the machine's may be missing, and refreshing those takes rights.
    own = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache::archives={packages}", "-o", "Debug::NoLocking=1"]
    _apt("update", *own, folder=packages)
    if with_dependencies:
        _apt(
            "install",
            "--reinstall",
            "--download-only",
            "--yes",
            "--no-install-recommends",
            package,
            *own,
            folder=packages,
        )
    else:
        _apt("download", package, *own, folder=packages)
    for archive in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    shutil.rmtree(packages)
    shutil.rmtree(lists)
    return root


def _apt(*arguments: str, folder: Path) -> None:
    """Runs apt-get quietly. Its output is shown only on failure."""
    command = ["apt-get", "-qq", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageMissingError(f"apt-get {arguments[0]} failed:\n{done.stdout}{done.stderr}")
