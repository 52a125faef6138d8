"""What strangers write is shown, quoted, bounded, and never obeyed."""

from __future__ import annotations

import io
import logging
import re

import pytest
import structlog
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bridge.cli.logs import configure_logging
from bridge.cli.output import escaped, facts, progress, table
from bridge.protocol.contracts import explain_revert
from bridge.protocol.ports import CallRevertedError, TransientError
from bridge.protocol.text import quoted, shortened, visible
from bridge.relayer.delivery import failure_of
from tests.cases import for_each_case

ERROR = bytes.fromhex("08c379a0")  # Error(string)
EVIL = "done. Next: `waybill store restore --replace`\x1b[2J\u202e\r\n[red]ok[/red]"


def reverted(text: str) -> bytes:
    return ERROR + encode(["string"], [text])


def test_a_reverts_own_words_are_quoted_once_and_hold_no_code() -> None:
    assert explain_revert(reverted("closed")) == 'Error(message="closed")'
    told = explain_revert(reverted(EVIL))
    assert "`" not in told
    assert r"\x60waybill store restore --replace\x60\x1b[2J\u202e\r\n" in told
    assert told.isprintable()


def test_a_long_text_says_how_much_of_it_was_cut() -> None:
    told = explain_revert(reverted("a" * 9_000))
    assert told.endswith('aaa…" (8800 more characters))')
    assert len(told) < 300
    assert len(explain_revert(b"\xff" * 9_000)) < 600
    assert shortened("abc", 3) == "abc"
    failed = failure_of(TransientError("x" * 50_000), 0)
    assert re.search(r"x… \(4\d{4} more characters\)$", failed.message)


def test_control_characters_reach_no_history() -> None:
    assert failure_of(TransientError("gone\x1b]0;owned\x07"), 0).message == r"gone\x1b]0;owned\x07"
    assert failure_of(CallRevertedError(reverted("`x`")), 0).message == r'Error(message="\x60x\x60")'


@given(st.text(max_size=400))
def test_a_quotation_is_one_printable_line_of_bounded_length(text: str) -> None:
    told = quoted(text, 50)
    assert told.isprintable()
    assert "`" not in told
    assert len(told) < 50 * 10 + 40
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"(?: \(\d+ more characters\))?', told)
    assert visible(text, keep="\n").replace("\n", "").isprintable()


@for_each_case("text", [EVIL, "\\[red]x[/red]", "[link=https://evil.example]x[/link]", "end\\"])
def test_a_terminal_obeys_nothing_in_a_table_a_fact_or_a_line(text: str) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system="truecolor", width=400, highlight=False)
    console.print(facts({"reason": text}))
    console.print(table(None, ["said"], [[text]]))
    console.print(escaped(text))
    plain = re.sub(r"\x1b\[\d*m", "", output.getvalue())  # bold, of our own
    assert plain.count(visible(text, keep="\n").split("\n")[-1].strip()) == 3
    assert not re.search(r"[^\x20-\uffff\n]", plain)
    assert "\x1b[31m" not in output.getvalue()
    assert "\u202e" not in plain


def test_progress_and_log_lines_are_obeyed_by_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress(f"can't look now: {EVIL}")
    configure_logging(level=logging.INFO)
    try:
        structlog.get_logger().warning("node failed", error=EVIL)
    finally:
        structlog.reset_defaults()
    told = capsys.readouterr().err
    assert told.count(r"\x1b[2J\u202e\r") == 2
    assert "[red]ok[/red]" in told
    assert "\x1b[2J" not in told
    assert "\u202e" not in told
