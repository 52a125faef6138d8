"""Writes the ABIs and the router's storage layout from the compiler's output, or says which are out of date.

They are `bridge/protocol/abi/*.json`, `dapp/src/abi/*.ts` and `snapshots/storage.json`.

python scripts/generate_abi.py          write them
python scripts/generate_abi.py --check  fail if one differs
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMPILED = ROOT / "build" / "forge" / "out"
JSON_FILES = ROOT / "bridge" / "protocol" / "abi"
TYPESCRIPT_FILES = ROOT / "dapp" / "src" / "abi"
STORAGE_FILE = ROOT / "snapshots" / "storage.json"
CONTRACTS = (
    "Router",
    "Profiles",
    "IAdapter",
    "HyperlaneAdapter",
    "AxelarAdapter",
    "WormholeAdapter",
    "LayerZeroAdapter",
    "CcipAdapter",
    "Inbox",
    "BoundedMulticall",
)


# What one address answers may be compiled in parts.
PARTS = {"Router": ("Router", "RouterExtension")}


def artifact_of(contract: str) -> dict[str, Any]:
    """What the compiler wrote about a contract."""
    artifact: dict[str, Any] = json.loads((COMPILED / f"{contract}.sol" / f"{contract}.json").read_text())
    return artifact


def storage_text(contract: str) -> str:
    """Where a contract keeps what, one variable or member per line: kind, slot, offset in bytes, name, type."""
    lines: list[str] = []
    for kind in ("storage", "transientStorage"):
        layout = artifact_of(contract)[f"{kind}Layout"]
        types = layout["types"] or {}
        for variable in layout["storage"]:
            lines.append(storage_line(kind, variable, variable["label"], types))
            for name in structs_of(variable["type"], types):
                lines += [
                    storage_line("member", member, f"{types[name]['label']}.{member['label']}", types)
                    for member in types[name]["members"]
                ]
    return "[\n" + ",\n".join(dict.fromkeys(lines)) + "\n]\n"


def storage_line(kind: str, variable: dict[str, Any], name: str, types: dict[str, Any]) -> str:
    """One entry of {storage_text}."""
    place = {"kind": kind, "slot": int(variable["slot"]), "offset": variable["offset"]}
    return json.dumps(place | {"name": name, "type": types[variable["type"]]["label"]})


def structs_of(name: str, types: dict[str, Any]) -> Iterator[str]:
    """The structs that a type is or leads to, by the compiler's names for them."""
    described = types[name]
    if "members" in described:
        yield name
    inner = [described[part] for part in ("value", "base") if part in described]
    for part in inner + [member["type"] for member in described.get("members", ())]:
        yield from structs_of(part, types)


def abi_text(contract: str) -> str:
    """The ABI as one entry per line, so that a change shows as the lines it touches."""
    entries: dict[str, None] = {}
    for part in PARTS.get(contract, (contract,)):
        callable_or_raised = (item for item in artifact_of(part)["abi"] if item["type"] not in {"fallback", "receive"})
        is_whole = part == contract
        entries |= {json.dumps(item): None for item in callable_or_raised if is_whole or item["type"] != "constructor"}
    return "[\n" + ",\n".join(entries) + "\n]\n"


def typescript_text(contract: str, abi: str) -> str:
    """The same ABI as a constant whose type is its content: TypeScript gives JSON files wider types."""
    return (
        f"// Written by scripts/generate_abi.py.\n\nexport const {constant_name(contract)} = {abi.rstrip()} as const;\n"
    )


def typescript_index() -> str:
    """A module that exports every ABI by name, and all of them as one list."""
    names = {contract: constant_name(contract) for contract in CONTRACTS}
    imports = "".join(f'import {{ {name} }} from "./{contract}.ts";\n' for contract, name in names.items())
    listed = ", ".join(names.values())
    return (
        f"// Written by scripts/generate_abi.py.\n\n{imports}\nexport {{ {listed} }};\n\n"
        f"/** All of them, for decoding whatever comes. */\nexport const ABIS = [{listed}] as const;\n"
    )


def constant_name(contract: str) -> str:
    """`Router` → `routerAbi`, `IAdapter` → `adapterAbi`."""
    name = contract[1:] if contract[0] == "I" and contract[1].isupper() else contract
    return f"{name[0].lower()}{name[1:]}Abi"


def generated_files() -> Iterator[tuple[Path, str]]:
    """Every file with the text that it should have."""
    for contract in CONTRACTS:
        abi = abi_text(contract)
        yield JSON_FILES / f"{contract}.json", abi
        yield TYPESCRIPT_FILES / f"{contract}.ts", typescript_text(contract, abi)
    yield TYPESCRIPT_FILES / "index.ts", typescript_index()
    yield STORAGE_FILE, storage_text("Router")


def main() -> int:
    """Generates or checks; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a file is out of date")
    check = parser.parse_args().check
    stale = []
    for path, text in generated_files():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for path in stale:
        print(f"{'out of date' if check else 'written'}: {path}", file=sys.stderr)
    if check and stale:
        print("run `python scripts/generate_abi.py` after changing contracts", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
