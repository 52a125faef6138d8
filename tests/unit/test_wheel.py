"""The Python package as a dApp's developer gets it: built, and run outside the repository with what it requires alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.wheel import build_wheel

pytestmark = pytest.mark.long

RUNNER = """\
import sys

class OnlyInstalled:
    \"\"\"Stands for an environment that holds some of the packages that are here.\"\"\"
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in LACKING else self.finder.find_spec(name, path, target)

LACKING = set(sys.argv[1].split(","))
# The editable installation of this repository must not stand in for the wheel.
sys.path[:] = [sys.argv[2], *(at for at in sys.path if "site-packages" in at or "lib/python" in at)]
finders = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__ + str(finder)]
sys.meta_path[:] = map(OnlyInstalled, finders)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as an installer does it."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(build_wheel(tmp_path_factory)) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def closure(wheel: Path, *extras: str) -> set[str]:
    """The distributions that an installation of the wheel with those extras brings."""
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    wanted = requirements(Parser().parsestr(metadata.read_text()).get_all("Requires-Dist", []), set(extras))
    found: set[str] = set()
    waiting = [*wanted]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        try:
            inner = distribution(requirement.name).requires or []
        except PackageNotFoundError:  # for another platform or Python
            continue
        found.add(name)
        waiting += requirements(inner, requirement.extras)
    return found


def requirements(texts: list[str], extras: set[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, texts):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def lacking(wheel: Path, *extras: str) -> str:
    """The modules that this environment has and that installation would not have."""
    brought = closure(wheel, *extras)
    owners = packages_distributions().items()
    return ",".join(
        module
        for module, names in owners
        if not brought & {canonicalize_name(name) for name in names}
        and module not in ("bridge", "indexer", "_virtualenv")
    )


def run(wheel: Path, folder: Path, code: str, *extras: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WAYBILL"))}
    environment |= variables
    command = [sys.executable, "-I", "-c", RUNNER + code, lacking(wheel, *extras), str(wheel)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def typed(words: str) -> str:
    return f"sys.argv = {['waybill', *words.split()]!r}\nfrom bridge.cli import main\nmain()"


def test_the_client_brings_neither_spark_nor_a_server(wheel: Path) -> None:
    core = closure(wheel)
    assert {"eth-account", "aiohttp"} <= core
    assert not core & {"web3", "pyspark", "py4j", "pyarrow", "deltalake", "duckdb", "numpy"}
    assert not core & {"fastapi", "uvicorn", "psycopg"}
    assert {"fastapi", "psycopg"} <= closure(wheel, "relayer")
    assert {"pyspark", "duckdb"} <= closure(wheel, "index")


def test_client_works_with_the_wheels_requirements(wheel: Path, tmp_path: Path) -> None:
    code = """
import bridge.evm, bridge.client, bridge.protocol.deployment
assert bridge.client.__file__.startswith(sys.argv[2]), bridge.client.__file__
print(bridge.client.Client.__name__)
"""
    done = run(wheel, tmp_path, code)
    assert (done.returncode, done.stdout.strip()) == (0, "Client"), done.stderr
    done = run(wheel, tmp_path, typed("decode-error 0x73730dd2"))
    assert done.returncode == 0, done.stderr
    assert "name at least one GMP" in done.stdout
    done = run(wheel, tmp_path, typed("send --payload hello --network nowhere"))
    assert done.returncode != 0
    assert "network 'nowhere' is not deployed" in done.stderr or "no key to sign with" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("index run", "index"),
        ("web", "relayer"),
        ("demo", "devnet"),
    ],
)
def test_a_command_that_lacks_packages_names_the_extra(wheel: Path, tmp_path: Path, words: str, extra: str) -> None:
    done = run(wheel, tmp_path, typed(words))
    assert done.returncode == 1
    assert "which is not installed" in done.stderr
    assert f"next  pip install 'waybill[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
