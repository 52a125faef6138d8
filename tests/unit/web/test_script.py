"""How much script a page loads, and when."""

from __future__ import annotations

import re

from tests.unit.web.explorer import Client, World

MOST_SCRIPT = 90_000
"""Bytes of script that a page loads, uncompressed: htmx and what the explorer's own parts need."""

MOST_SENT = 30_000
"""The same in bytes as they are sent."""


def loaded(explorer: Client, path: str) -> dict[str, int]:
    """What a browser loads for a script: it and all that it imports at once, with the bytes that are sent."""
    found: dict[str, int] = {}
    waiting = [path]
    while waiting:
        at = waiting.pop()
        answer = explorer.get(at, headers={"accept-encoding": "gzip"})
        assert answer.status_code == 200, at
        found[at] = answer.num_bytes_downloaded
        imported = {f"/static/{name}" for name in re.findall(r'(?:from|import)"\./([\w.-]+)"', answer.text)}
        waiting += imported - found.keys()
    return found


def test_a_page_loads_little_script_and_the_wallets_part_only_when_asked_for(world: World) -> None:
    explorer = world.explorer()
    (script,) = re.findall(r'<script type="module" src="([^"]+)"', explorer.get("/").text)
    files = loaded(explorer, script)
    assert sum(len(explorer.get(file).content) for file in files) < MOST_SCRIPT
    assert sum(files.values()) < MOST_SENT
    (later,) = re.findall(r'import\("\./(explorer-acting-[\w-]+\.js)"\)', explorer.get(script).text)
    with_wallet = loaded(explorer, f"/static/{later}")
    assert sum(len(explorer.get(file).content) for file in with_wallet) > 2 * MOST_SCRIPT, "viem must be in it"
    assert script.partition("?")[0] not in with_wallet, "loaded by another name the script would run twice"
    assert "immutable" in explorer.get(f"/static/{later}").headers["cache-control"]


def test_pages_and_files_are_sent_compressed_to_those_who_take_it(world: World) -> None:
    explorer = world.explorer()
    for path in ("/", "/lanes", "/static/style.css"):
        packed = explorer.get(path, headers={"accept-encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip", path
        assert packed.num_bytes_downloaded < len(packed.content) / 2, path
        plain = explorer.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == packed.content
