"""Generates the TypeScript kit's reference from the declarations that the compiler writes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
KIT: Final = ROOT / "dapp"

ENTRIES: Final = ("element", "react")
"""What is imported as `@waybill/dapp/…`, beside the index."""

_LONGEST: Final = 80
"""Lines of a declaration that are shown; the types of whole ABIs are longer, and help nobody."""

_EXPORT: Final = re.compile(r"export (?:type )?\{([^}]*)\} from \"\./([\w/-]+)\.ts\";")
_DECLARATION: Final = re.compile(
    r"(?P<doc>/\*\*(?:(?!\*/).)*\*/\n)?^export (?:declare )?"
    r"(?P<kind>abstract class|class|function|interface|const|type) (?P<name>\w+)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """An export of the kit: its comment as Markdown, and its declaration."""

    name: str
    text: str
    code: str


def page() -> str:
    """Returns the reference page: the exports of the kit's index in order, then those of its other entries."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(KIT / "node_modules/.bin/tsc"), "-p", "tsconfig.build.json", "--emitDeclarationOnly"]
        subprocess.run([*command, "--declarationMap", "false", "--outDir", folder], cwd=KIT, check=True)
        found = list(exports(Path(folder)))
        for entry in ENTRIES:
            found += [*declarations((Path(folder) / f"{entry}.d.ts").read_text()), *exports(Path(folder), entry)]
    parts = ["# TypeScript reference", _HEAD]
    parts += ["\n\n".join(filter(None, (f"## {one.name}", one.text, f"```ts\n{one.code}\n```"))) for one in found]
    return "\n\n".join(parts) + "\n"


_HEAD: Final = (
    "All that `@waybill/dapp` exports, and at the end what `@waybill/dapp/element` and `@waybill/dapp/react` do. [The TypeScript page](../typescript.md) shows how it is used; amounts are in wei, times in"
    " Unix seconds, unless a name says otherwise."
)


def exports(folder: Path, entry: str = "index") -> Iterator[Declaration]:
    """Returns a module's re-exports.

    Args:
        folder: Folder of the declarations, one file per module.
        entry: Name of the module.

    Raises:
        ValueError: an export has no declaration.
    """
    for names, module in _EXPORT.findall((folder / f"{entry}.d.ts").read_text()):
        if module == "abi/index":
            yield from abis(names)
            continue
        known = {one.name: one for one in declarations((folder / f"{module}.d.ts").read_text())}
        for name in (name.strip().removeprefix("type ") for name in names.split(",") if name.strip()):
            if name not in known:
                raise ValueError(f"{module}.d.ts declares no {name}")
            yield known[name]


def abis(names: str) -> Iterator[Declaration]:
    """Returns the list of ABIs without their types, each of which would fill a page."""
    for name in sorted(name.strip() for name in names.split(",") if name.strip()):
        text = "All of them, for decoding whatever comes." if name == "ABIS" else "An ABI, typed by its content."
        yield Declaration(name, text, f"const {name}: Abi")


def declarations(text: str) -> Iterator[Declaration]:
    """Returns a module's exported declarations, each up to its closing bracket or semicolon."""
    for match in _DECLARATION.finditer(text):
        start = match.end("doc") if match["doc"] else match.start()
        whole = re.sub(r"\bsending\.", "", ended(text[start:]))  # how one module names another
        lines = whole.removeprefix("export ").replace("declare ", "", 1).splitlines()
        shown = [line for line in lines if not re.match(r"\s*(#private;|private )", line)]
        if len(shown) > _LONGEST:
            shown = [*shown[:_LONGEST], "  // …"]
        yield Declaration(match["name"], prose(match["doc"] or ""), "\n".join(shown))


def ended(text: str) -> str:
    """Returns a declaration's text up to its end; nested brackets and comments may contain semicolons."""
    depth = 0
    for found in re.finditer(r"/\*\*.*?\*/|\"[^\"]*\"|[{(\[]|[})\]]|;", text, re.DOTALL):
        sign = found.group()
        depth += (sign in "{([") - (sign in "})]") if len(sign) == 1 else 0
        if depth == 0 and (sign == ";" or (sign == "}" and re.match(r"\s*(\n|$)", text[found.end() :]))):
            return text[: found.end()].strip()
    return text.strip()


def prose(comment: str) -> str:
    """Converts a documentation comment to Markdown, with tags as a list and the example as code."""
    lines = [
        re.sub(r"^\s*\* ?", "", line) for line in comment.strip().removeprefix("/**").removesuffix("*/").splitlines()
    ]
    text = re.sub(r"\{@link (\w+)\}", r"`\1`", "\n".join(lines).strip())
    text, _, example = text.partition("@example")
    text = re.sub(r"^@param (\w+) ", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^@(returns|throws) ", r"- \1: ", text, flags=re.MULTILINE)
    text = re.sub(r"(?<!\n)\n- ", "\n\n- ", text, count=1)
    return text.strip() + (f"\n\n```ts\n{example.strip()}\n```" if example else "")
