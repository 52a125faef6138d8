"""The documentation: its links lead somewhere, its commands can be typed, its site builds."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scripts.build_docs import MADE, READMES
from tests.unit.cli.examples import read_line

ROOT = Path(__file__).resolve().parents[3]
FRONT = [ROOT / page for page in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = sorted([*FRONT, ROOT / "dapp" / "README.md", ROOT / "contracts" / "README.md", *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^( *)```([\w{}-]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for _, language, content in _BLOCK.findall(page.read_text()):
            if language in languages:
                yield name(page), content


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    """A link leads to a file of the repository, or to a page that the site's build generates."""
    generated = {(ROOT / "docs" / place).resolve() for place in (*MADE, *READMES)}
    broken = []
    for page in PAGES:
        text = _BLOCK.sub("", page.read_text())
        for link in (one or other for one, other in _LINK.findall(text)):
            if re.match(r"https?:|<", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if target in generated:
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{name(page)}: {link}")
    assert broken == []


def test_commands_can_be_typed() -> None:
    lines = [
        (page, line.strip())
        for page, content in blocks("", "sh", "shell", "bash", "console")
        for line in content.splitlines()
        if line.strip().startswith("waybill ")
    ]
    inline = [
        (name(page), command)
        for page in PAGES
        for command in re.findall(
            r"`(waybill (?:send|message|index|status|web|relayer|devnet|deploy|lane|dlq|config)[^`…|]*)`",
            page.read_text(),
        )
        if "n/a" not in command
    ]
    assert len(lines) > 20
    wrong = []
    for page, line in lines:
        try:
            read_line(line)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a wrong line
            wrong.append(f"{page}: {line}: {error}")
    for page, line in inline:
        try:
            read_line(line)
        except AssertionError as error:
            wrong.append(f"{page}: {line}: {error}")
        except Exception:  # noqa: BLE001,S112  in a sentence a command may stand without its arguments
            continue
    assert wrong == []


def test_blocks_parse() -> None:
    for _, content in blocks("toml"):
        tomllib.loads(content)
    for page, content in blocks("json"):
        assert json.loads(content) or page
    for _, content in blocks("python"):
        ast.parse(content)
