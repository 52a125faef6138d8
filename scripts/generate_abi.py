"""Generates the ABIs and the router's storage layout from the compiler's output, or checks that they are current.

The generated files are `bridge/protocol/abi/*.json`, `dapp/src/abi/*.ts` and `snapshots/storage.json`. The
GMPs' errors come from their contracts in build/gmp, which set-up downloads.

    python scripts/generate_abi.py          write the files
    python scripts/generate_abi.py --check  fail if a file is outdated
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridge.devnet.fetch import pinned_packages
from bridge.protocol.gmps import Gmp

ROOT = Path(__file__).resolve().parent.parent
COMPILED = ROOT / "build" / "forge" / "out"
JSON_FILES = ROOT / "bridge" / "protocol" / "abi"
TYPESCRIPT_FILES = ROOT / "dapp" / "src" / "abi"
TYPESCRIPT_NUMBERS = ROOT / "dapp" / "src" / "gmp-numbers.ts"
SOURCES = ROOT / "contracts"
GMP_CONTRACTS = ROOT / "build" / "gmp"
ERROR_ADVICE = ROOT / "scripts" / "error_advice.toml"
STORAGE_FILE = ROOT / "snapshots" / "storage.json"
CONTRACTS = (
    "Router",
    "Profiles",
    "IAdapter",
    *sorted(path.stem for path in (SOURCES / "adapters").glob("*Adapter.sol") if path.stem != "BaseAdapter"),
    "Inbox",
    "BoundedMulticall",
    "AtomicCoordinator",
    "AtomicParticipant",
    "AtomicAssets",
    "ILockedRecipient",
)


# Contracts whose functions are compiled in several parts.
PARTS = {"Router": ("Router", "RouterExtension")}


def artifact_of(contract: str) -> dict[str, Any]:
    """Returns the compiler's output for a contract."""
    artifact: dict[str, Any] = json.loads((COMPILED / f"{contract}.sol" / f"{contract}.json").read_text())
    return artifact


def storage_text(contract: str) -> str:
    """Returns a contract's storage layout, one variable or member per line: kind, slot, offset in bytes, name, type."""
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
    """Returns one line of `storage_text`."""
    place = {"kind": kind, "slot": int(variable["slot"]), "offset": variable["offset"]}
    return json.dumps(place | {"name": name, "type": types[variable["type"]]["label"]})


def structs_of(name: str, types: dict[str, Any]) -> Iterator[str]:
    """Yields the structs that a type contains, by the compiler's names."""
    described = types[name]
    if "members" in described:
        yield name
    inner = [described[part] for part in ("value", "base") if part in described]
    for part in inner + [member["type"] for member in described.get("members", ())]:
        yield from structs_of(part, types)


def abi_text(contract: str) -> str:
    """Returns the ABI with one entry per line, for readable diffs."""
    entries: dict[str, None] = {}
    for part in PARTS.get(contract, (contract,)):
        callable_or_raised = (item for item in artifact_of(part)["abi"] if item["type"] not in {"fallback", "receive"})
        is_whole = part == contract
        entries |= {json.dumps(item): None for item in callable_or_raised if is_whole or item["type"] != "constructor"}
    return "[\n" + ",\n".join(entries) + "\n]\n"


def typescript_text(contract: str, abi: str) -> str:
    """Returns the ABI as a typed constant, because TypeScript widens the types of JSON files."""
    return (
        f"// Written by scripts/generate_abi.py.\n\nexport const {constant_name(contract)} = {abi.rstrip()} as const;\n"
    )


def known_errors() -> list[dict[str, Any]]:
    """Returns every error of Waybill and the GMPs as an ABI item with owner, meaning and advice."""
    advice = tomllib.loads(ERROR_ADVICE.read_text())
    meanings = error_meanings()
    entries: dict[str, dict[str, Any]] = {}
    for owner, abi in error_sources():
        for item in (item for item in abi if item["type"] == "error"):
            signature = f"{item['name']}({','.join(map(canonical_type, item['inputs']))})"
            inputs = [described_input(field) for field in item["inputs"]]
            entry = entries.setdefault(signature, {"type": "error", "name": item["name"], "inputs": inputs, "by": []})
            if owner not in entry["by"]:
                entry["by"].append(owner)
    for entry in entries.values():
        if "waybill" in entry["by"] and entry["name"] in meanings:
            entry["meaning"] = meanings[entry["name"]]
        if entry["name"] in advice:
            entry["advice"] = advice[entry["name"]]
    if unknown := advice.keys() - {entry["name"] for entry in entries.values()}:
        raise SystemExit(f"{ERROR_ADVICE.relative_to(ROOT)} lists errors that no contract declares: {sorted(unknown)}")
    return [entries[signature] for signature in sorted(entries)]


def error_sources() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields the ABIs with their owners: Waybill's first, whose parameter names take precedence, then the GMPs' by name."""
    for path in sorted(COMPILED.glob("*/*.json")):
        artifact = json.loads(path.read_text())
        targets = artifact.get("metadata", {}).get("settings", {}).get("compilationTarget", {})
        if any(target.startswith("contracts/") and (ROOT / target).exists() for target in targets):
            yield "waybill", artifact["abi"]
    pinned = {(one.gmp, one.name_of(contract)) for one in pinned_packages() for contract in one.contracts}
    for gmp, name in sorted(pinned):
        yield gmp, json.loads((GMP_CONTRACTS / gmp / f"{name}.json").read_text())["abi"]


def error_meanings() -> dict[str, str]:
    """Returns the errors' NatSpec by name."""
    documented = re.compile(r"((?:^[ \t]*///[^\n]*\n)+)[ \t]*error (\w+)\(", re.MULTILINE)
    meanings = {}
    for path in sorted(SOURCES.rglob("*.sol")):
        for comment, name in documented.findall(path.read_text()):
            text = " ".join(line.strip().removeprefix("///").strip() for line in comment.splitlines())
            text = re.sub(r"^@(notice|dev) ", "", text).partition(" @")[0]
            meanings[name] = re.sub(r"[{}`]", "", text)
    return meanings


def canonical_type(field: dict[str, Any]) -> str:
    """Returns a parameter's canonical type, as in selectors."""
    if "components" not in field:
        return str(field["type"])
    return f"({','.join(map(canonical_type, field['components']))}){field['type'].removeprefix('tuple')}"


def described_input(field: dict[str, Any]) -> dict[str, Any]:
    """Returns a parameter with its name and type, without Solidity's internal type."""
    described = {"name": field["name"], "type": field["type"]}
    return described | ({"components": [*map(described_input, field["components"])]} if "components" in field else {})


def readable_input(field: dict[str, Any]) -> str:
    """Returns a parameter in the syntax of viem's `parseAbiItem`: `uint256 fee`, `(uint8 gmp,bytes reason)[] failures`."""
    kind = field["type"]
    if "components" in field:
        kind = f"({','.join(map(readable_input, field['components']))}){kind.removeprefix('tuple')}"
    return f"{kind} {field['name']}".rstrip()


def typescript_errors(errors: list[dict[str, Any]]) -> str:
    """Returns the errors in a compact form, which the kit parses only when it decodes an error."""
    rows = [
        [
            f"{entry['name']}({','.join(map(readable_input, entry['inputs']))})",
            " ".join(entry["by"]),
            *([entry.get("meaning", "")] if "meaning" in entry or "advice" in entry else []),
            *([entry["advice"]] if "advice" in entry else []),
        ]
        for entry in errors
    ]
    listed = ",\n".join(json.dumps(row) for row in rows)
    return (
        "// Written by scripts/generate_abi.py.\n\n/** Signature, whose error it is, what it means, what to do. */\n"
        "export const KNOWN_ERRORS: readonly (readonly [string, string, string?, string?])[] = [\n"
        f"{listed},\n];\n"
    )


def typescript_index() -> str:
    """Returns a module that exports every ABI by name, and all of them as a list."""
    names = {contract: constant_name(contract) for contract in CONTRACTS}
    imports = "".join(f'import {{ {name} }} from "./{contract}.ts";\n' for contract, name in names.items())
    listed = ", ".join(names.values())
    return (
        f"// Written by scripts/generate_abi.py.\n\n{imports}\nexport {{ {listed} }};\n\n"
        f"/** All of them, for decoding whatever comes. */\nexport const ABIS = [{listed}] as const;\n"
    )


def typescript_numbers() -> str:
    """Returns the registered GMPs for the kit."""
    listed = ", ".join(f"{gmp.label}: {gmp.value}" for gmp in Gmp)
    return (
        "// Written by scripts/generate_abi.py.\n\n/** A transport's stable number on chain, 1…16. */\n"
        f"export const GMP_NUMBERS = {{ {listed} }} as const;\n"
    )


def constant_name(contract: str) -> str:
    """Returns an ABI's constant name: `Router` → `routerAbi`, `IAdapter` → `adapterAbi`."""
    name = contract[1:] if contract[0] == "I" and contract[1].isupper() else contract
    return f"{name[0].lower()}{name[1:]}Abi"


def generated_files() -> Iterator[tuple[Path, str]]:
    """Yields every generated file with its text."""
    for contract in CONTRACTS:
        abi = abi_text(contract)
        yield JSON_FILES / f"{contract}.json", abi
        yield TYPESCRIPT_FILES / f"{contract}.ts", typescript_text(contract, abi)
    errors = known_errors()
    yield JSON_FILES / "Errors.json", "[\n" + ",\n".join(map(json.dumps, errors)) + "\n]\n"
    yield TYPESCRIPT_FILES / "Errors.ts", typescript_errors(errors)
    yield TYPESCRIPT_FILES / "index.ts", typescript_index()
    yield TYPESCRIPT_NUMBERS, typescript_numbers()
    yield STORAGE_FILE, storage_text("Router")


def main() -> int:
    """Generates or checks the files, and returns the exit status."""
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
