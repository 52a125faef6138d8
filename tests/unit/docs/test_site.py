"""The documentation's site, as its reader has it."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts import build_docs, kit_reference

pytestmark = pytest.mark.long

SITE = build_docs.SITE


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built now; what is not new is taken from the last build."""
    command = [sys.executable, "-m", "scripts.build_docs"]
    built = subprocess.run(command, cwd=build_docs.ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return SITE


def links(page: Path) -> Iterator[str]:
    text = page.read_text()
    for link in re.findall(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]+)"', text):
        yield html.unescape(link)


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(html.unescape(name) for name in re.findall(r'\sid="([^"]+)"', page.read_text()))


def test_the_site_builds_without_a_warning_can_be_searched_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for place in build_docs.MADE:
        assert (site / place).with_suffix(".html").exists()
    assert "troubleshooting" in (site / "searchindex.js").read_text()
    for page in site.rglob("*.html"):
        foreign = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", page.read_text())
        assert not foreign, f"{page.name} loads {foreign}"


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    broken = []
    pages = [page for page in site.rglob("*.html") if page.name != "genindex.html"]
    assert len(pages) > 40
    for page in pages:
        for link in set(links(page)):
            if re.match(r"https?:|mailto:|data:|javascript:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_the_site_has_a_page_of_the_kit_and_its_whole_reference(site: Path) -> None:
    assert "Send, and wait for the end" in (site / "typescript.html").read_text()
    reference = (site / "reference" / "kit.html").read_text()
    index = (build_docs.ROOT / "dapp" / "src" / "index.ts").read_text()
    exported = re.findall(r"\b(?:type )?(\w+),?\s", " ".join(re.findall(r"\{([^}]*)\}", index)) + " ")
    names = {name for name in exported if name != "type"}
    assert {"Waybill", "localWallet", "Progress", "decodeRevert", "routerAbi"} <= names
    names |= {"WaybillMessageElement", "WaybillMessageEvents", "useWaybillMessage", "MessageStatus"}
    for name in names:
        assert f'<section id="{name.lower().replace("_", "-")}' in reference, name
    said = html.unescape(re.sub(r"<[^>]+>", "", reference))
    assert "Sends a new message and waits until its transaction is included." in said
    assert "retryRoute(message: Message, gmps: readonly Gmp[], options?: RetryOptions): Promise<Sent>" in said
    assert "#private" not in said


def test_an_export_without_a_declaration_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index.d.ts").write_text('export { gone } from "./kit.ts";\n')
    (tmp_path / "kit.d.ts").write_text("export declare const here: number;\n")
    with pytest.raises(ValueError, match=r"kit\.d\.ts declares no gone"):
        list(kit_reference.exports(tmp_path))
