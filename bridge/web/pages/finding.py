"""The search, and the network's file for visitors' browsers."""

from __future__ import annotations

import json
import re
from typing import Final

from fastapi import Response
from starlette.responses import RedirectResponse

from bridge.web.cells import Section, Table, copyable, hexadecimal, message_link
from bridge.web.explorer import Explorer

_WORD: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")
_ADDRESS: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{40})")


def found(explorer: Explorer, typed: str) -> Response:
    """Finds a message by id, messages by transaction hash on any chain, or an account by address.

    Redirects to the result, or lists the results if there are several.
    """
    text = typed.strip()
    if word := _WORD.fullmatch(text):
        return _by_word(explorer, bytes.fromhex(word[1]), typed)
    if address := _ADDRESS.fullmatch(text):
        return RedirectResponse(f"/messages?account=0x{address[1]}", 303)
    expected = "a message id, transaction hash (0x and 64 hex digits) or address (40)"
    return _nothing(explorer, f"{text[:80]!r} is not {expected}", typed)


def _by_word(explorer: Explorer, word: bytes, typed: str) -> Response:
    index, store = explorer.sources.index(), explorer.sources.store()
    is_message = (index and index.message(word)) or (store and store.observations.message(word))
    messages = [word] if is_message else index.of_transaction(word) if index else []
    if not messages:
        return _nothing(explorer, f"no message or transaction 0x{word.hex()} is known here", typed)
    if len(messages) == 1:
        return RedirectResponse(f"/message/{hexadecimal(messages[0])}", 303)
    rows = [[copyable(hexadecimal(one)), message_link(one)] for one in messages]
    table = Table(label="Messages", columns=("Id", "Message"), rows=rows)
    section = Section(title="Several messages in this transaction", table=table)
    return explorer.sections("Search", [section], typed=typed)


def _nothing(explorer: Explorer, problem: str, typed: str) -> Response:
    return explorer.problem(404, problem, typed=typed, title="Nothing found")


def network_file(explorer: Explorer) -> Response:
    """Returns the deployments file with the public RPC URLs only."""
    document = json.loads(explorer.sources.deployment.to_json())
    for chain in document["chains"]:
        url = explorer.settings.public_rpc.get(chain["chainId"])
        # The file requires a URL; the domain `.invalid` never resolves.
        chain["rpcUrls"] = [url or "https://no-public-rpc.invalid"]
    return Response(json.dumps(document), media_type="application/json")
