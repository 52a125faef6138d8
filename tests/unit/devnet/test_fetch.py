"""The GMPs' contracts are unpacked from the pinned tarballs, and from no other."""

import io
import json
import shutil
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.devnet import fetch as fetching
from bridge.devnet.fetch import ArtifactError, Package, integrity_of

ROOT = Path(__file__).resolve().parents[3]
ABI = [{"type": "constructor", "inputs": [{"name": "owner", "type": "address"}]}]
TYPECHAIN = """\
const _abi = [
    {
        type: "constructor",
        inputs: [
            {
                name: "owner",
                type: "address",
            },
        ],
    },
];
const _bytecode = "0x6001";
"""
FILES = {
    "factories/Mailbox__factory.js": TYPECHAIN,
    "artifacts/Gateway.sol/Gateway.json": json.dumps({"abi": ABI, "bytecode": "0x6002"}),
    "artifacts/Endpoint.sol/Endpoint.json": json.dumps({"abi": ABI, "bytecode": {"object": "0x6003"}}),
    "artifacts/Unlinked.sol/Unlinked.json": json.dumps({"abi": ABI, "bytecode": "0x60__$0123$__"}),
    "artifacts/Interface.sol/Interface.json": json.dumps({"abi": ABI, "bytecode": "0x"}),
    "abi/v1/onramp.json": json.dumps(ABI),
    "bytecode/v1/onramp.bin": "6004\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package of our own making, which "npm" delivers."""
    archive = tmp_path / "published.tgz"
    with tarfile.open(archive, "w:gz") as tarball:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text.encode())
            tarball.addfile(member, io.BytesIO(text.encode()))

    def download(_package: Package, folder: Path) -> Path:
        return Path(shutil.copy(archive, folder / "downloaded.tgz"))

    monkeypatch.setattr(fetching, "download", download)
    return Package(
        gmp="sample",
        name="@sample/core",
        version="1.2.3",
        integrity=integrity_of(archive),
        layout="typechain",
        folder="factories",
        contracts=["Mailbox"],
    )


def fetch(packages: list[Package], target: Path) -> None:
    fetching.fetch(packages, target, print)


def read(file: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(file.read_text())
    return content


def test_each_layout_gives_abi_bytecode_and_source(package: Package, tmp_path: Path) -> None:
    hardhat = replace(
        package, layout="hardhat", folder="artifacts", contracts=["Gateway.sol/Gateway", "Endpoint.sol/Endpoint"]
    )
    pair = replace(package, layout="abi-and-bytecode", folder=".", contracts=["v1/onramp"], names={"onramp": "OnRamp"})
    fetch([package, hardhat, pair], tmp_path / "gmp")
    found = {file.stem: read(file) for file in (tmp_path / "gmp" / "sample").iterdir()}
    source = "@sample/core@1.2.3"
    assert found == {
        "Mailbox": {"abi": ABI, "bytecode": "0x6001", "source": f"{source}/factories/Mailbox__factory.js"},
        "Gateway": {"abi": ABI, "bytecode": "0x6002", "source": f"{source}/artifacts/Gateway.sol/Gateway.json"},
        "Endpoint": {"abi": ABI, "bytecode": "0x6003", "source": f"{source}/artifacts/Endpoint.sol/Endpoint.json"},
        "OnRamp": {"abi": ABI, "bytecode": "0x6004", "source": f"{source}/bytecode/v1/onramp.bin"},
    }


def test_unpinned_tarball_is_refused(package: Package, tmp_path: Path) -> None:
    target = tmp_path / "gmp"
    fetch([package], target)
    other = replace(package, integrity="sha512-AAAA", contracts=["Mailbox"])
    with pytest.raises(
        ArtifactError, match=r"@sample/core@1\.2\.3: the tarball does not match the pinned hash[\s\S]*sha512-AAAA"
    ):
        fetch([replace(package, gmp="another"), other], target)
    assert [file.relative_to(target).as_posix() for file in target.rglob("*.json")] == ["sample/Mailbox.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gmp", "published.tgz"]


def test_package_fetches_once_per_change_of_pins(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins, said = tmp_path / "pins.toml", list[str]()
    pins.write_text("first")
    monkeypatch.setattr(fetching, "PINS", pins)
    monkeypatch.setattr(fetching, "IS_CHECKOUT", False)
    monkeypatch.setattr(fetching, "GMP_ARTIFACTS", tmp_path / "gmp")
    monkeypatch.setattr(fetching, "ANVIL", Path(__file__))  # any file: there is one
    monkeypatch.setattr(fetching, "pinned_packages", lambda: [package, replace(package, gmp="safe", for_tests=True)])
    fetching.bring_in(said.append)
    fetching.bring_in(said.append)
    assert [line for line in said if "once" in line] == [
        f"fetching the GMPs' contracts with npm into {tmp_path}/gmp, once"
    ]
    assert not (tmp_path / "gmp" / "safe").exists(), "no devnet needs what is there for tests alone"
    pins.write_text("second")
    fetching.bring_in(said.append)
    assert len([line for line in said if "once" in line]) == 2


def test_anvil_is_the_one_that_set_up_locks() -> None:
    pinned = tomllib.loads(fetching.PINS.read_text())["anvil"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"][f"node_modules/{pinned['name']}"]
    assert (pinned["version"], pinned["integrity"]) == (locked["version"], locked["integrity"])
