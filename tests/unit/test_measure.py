"""`make measure` counts what it says: nothing that only looks alike, and nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from scripts import prose, structure
from scripts.call_tracer.sitecustomize import SWITCH, VARIABLE
from scripts.import_graph import cycles, read_imports, read_names, unreached
from scripts.journey import TRACER, called_files, steps_of_the_way
from scripts.measure import count_layers, count_statements
from scripts.names import TERMS, Occurrence, Term, find_names, read_terms
from scripts.prose import Word, find_in_markdown, find_words, judge, read_words
from scripts.solidity_trace import Artifact, file_numbers, instructions
from scripts.source_text import read_source
from scripts.structure import Excuse, judge_excuses


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose modules depend on each other for types and in functions, and that starts some by their names."""
    write(
        tmp_path,
        {
            "measured/__init__.py": "",
            "measured/cli.py": 'for name in ("dead-letters",):\n    __import__(f"measured.commands.{name}")\n',
            "measured/commands/__init__.py": "",
            "measured/commands/dead_letters.py": "def run():\n    from measured import queue\n",
            "measured/commands/unused.py": "",
            "measured/plugins/__init__.py": "",
            "measured/plugins/one/__init__.py": "",
            "measured/plugins/one/part.py": "",
            "measured/plugins/one/other.py": "",
            "measured/registry.py": 'def load(name):\n    return __import__(f"measured.plugins.{name}.part")\n',
            "measured/queue.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from measured import job\n",
            "measured/job.py": 'import measured.queue\nCOMMAND = ["-m", "measured.worker"]\n',
            "measured/worker/__init__.py": "",
            "measured/worker/__main__.py": "",
            "measured/stray.py": '"""It says that measured.queue is its friend."""\nimport measured.queue\n',
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_cycle_of_types_alone_is_a_cycle(sample: Path) -> None:
    assert cycles(read_imports(("measured",))) == [["measured.job", "measured.queue"]]
    (sample / "measured" / "queue.py").write_text("")
    assert cycles(read_imports(("measured",))) == []


def test_a_module_is_reached_by_imports_in_functions_and_by_its_name_in_a_string(sample: Path) -> None:
    imports = read_imports(("measured",))
    dead = unreached(imports, read_names(imports, sample), ["measured.cli", "measured.registry"])
    assert dead == ["measured.commands.unused", "measured.plugins.one.other", "measured.stray"]


def test_an_excuse_needs_a_reason_a_module_and_nothing_that_reaches_it(sample: Path) -> None:
    imports = read_imports(("measured",))
    names = read_names(imports, sample)

    def judged(*modules: str, reason: str = "temporary") -> list[str]:
        return judge_excuses(imports, names, {"measured.cli"}, [Excuse(module, reason) for module in modules])

    assert judged("measured.stray", "measured.commands.unused") == []
    assert judged("measured.stray", reason=" ") == ["measured.stray: its excuse has no reason"]
    remove = "remove its excuse from pyproject.toml"
    assert judged("measured.worker") == [f"measured.worker: {remove}, it is reached without"]
    assert judged("measured.gone") == [f"measured.gone: {remove}, there is no such module"]


def test_the_check_of_lint_names_what_is_unreachable_cyclic_and_forbidden(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = '[project.scripts]\nmeasured = "measured.cli:main"\n[tool.waybill.measure]\nunreached = []\n'
    term = '[[name]]\nname = "stray"\nkind = "module"\npaths = ["*"]\nreplacement = "orphan"\n'
    write(sample, {"pyproject.toml": project, "terms.toml": term})
    monkeypatch.setattr(structure, "ROOT", sample)
    monkeypatch.setattr(structure, "TERMS", sample / "terms.toml")
    monkeypatch.setattr(structure, "ENTRY_POINTS", ("measured.registry",))
    monkeypatch.setattr(structure, "read_imports", lambda: read_imports(("measured",)))
    monkeypatch.setattr(structure, "tracked_files", lambda _root: ["measured/stray.py"])
    assert structure.main() == 1
    unreachable = "no entry point reaches it; delete it, or excuse it in pyproject.toml"
    assert capsys.readouterr().out.splitlines() == [
        "import cycle: measured.job <-> measured.queue",
        f"measured.commands.unused: {unreachable}",
        f"measured.plugins.one.other: {unreachable}",
        f"measured.stray: {unreachable}",
        "measured/stray.py:1: module stray: use orphan",
    ]


SOURCE = '''"""The Desk is open."""

# The Desk again, and bury().
class Clerk:
    desk: Desk  # a Desk
    def take(self) -> "Desk":
        return open(f"at {self.desk.bury()!r}", "Desktop", bury=1)
'''


def places(root: Path, kind: str, name: str, allowed: int = 0, glob: str = "*") -> list[str]:
    term = Term(name=name, kind=kind, paths=(glob,), replacement="better", allowed=allowed)
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return [f"{one.path}:{one.line}" for one in find_names([term], files, root)]


def test_names_count_in_code_and_not_in_comments_docstrings_or_longer_names(tmp_path: Path) -> None:
    write(tmp_path, {"clerk.py": SOURCE})
    assert places(tmp_path, "class", "Desk") == ["clerk.py:5", "clerk.py:6"]
    assert places(tmp_path, "variable", "desk") == ["clerk.py:5", "clerk.py:7"]
    assert places(tmp_path, "function", "bury") == ["clerk.py:7"]
    assert places(tmp_path, "class", "Desk", glob="other/*") == []
    assert places(tmp_path, "class", "Desk", allowed=1) == ["clerk.py:6"]


def test_documentation_counts_where_it_shows_code(tmp_path: Path) -> None:
    write(tmp_path, {"page.md": "A Desk is `Desk`.\n\n```python\nDesk()\n```\n"})
    assert places(tmp_path, "class", "Desk") == ["page.md:1", "page.md:4"]


def test_a_contract_counts_with_its_file_and_a_comment_in_it_does_not(tmp_path: Path) -> None:
    write(tmp_path, {"Desk.sol": "// a Desk\ncontract Desk {} /* Desk */\n", "Desk.t.sol": 'string a = "Desk";\n'})
    assert places(tmp_path, "class", "Desk") == ["Desk.sol:1", "Desk.sol:2", "Desk.t.sol:1", "Desk.t.sol:1"]


def test_a_module_is_a_file_a_folder_or_a_test_of_the_name(tmp_path: Path) -> None:
    write(tmp_path, {"a/desk.py": "", "desk/b.py": "", "test_desk.py": "", "desk_top.py": "import desk"})
    assert places(tmp_path, "module", "desk") == ["a/desk.py:1", "desk/b.py:1", "test_desk.py:1"]


def test_a_setting_is_told_from_functions_of_its_name(tmp_path: Path) -> None:
    settings = 'class SendingSettings:\n    """What."""\n\n    other: int = 1\n    replace: float = 60.0\n'
    other = 'class Text:\n    replace: float = 1\ntext.replace\nload({"replace": 1}, settings.replace)\n'
    page = "Set `replace` or WAYBILL_REPLACE, and replace it.\n\n```toml\nreplace = 3\n```\n"
    write(tmp_path, {"settings.py": settings, "text.py": other, "page.md": page})
    found = ["page.md:1", "page.md:1", "page.md:4", "settings.py:5", "text.py:4", "text.py:4"]
    assert places(tmp_path, "setting", "replace") == found


def test_members_fields_values_commands_and_definitions_are_told_apart(tmp_path: Path) -> None:
    code = 'class State:\n    OVER = "OVER"\nState.OVER\nmoreState.OVER\nclass Entry:\n    tries: int\n    def tries_of(self): ...\n'
    write(tmp_path, {"state.py": code, "page.md": "OVER, not OVERALL: `waybill dlq retry` or dlq-retry\n"})
    assert places(tmp_path, "member", "State.OVER") == ["state.py:3"]
    assert places(tmp_path, "value", "OVER") == ["page.md:1", "state.py:2"]
    assert places(tmp_path, "field", "Entry.tries") == ["state.py:6"]
    assert places(tmp_path, "field", "State.tries") == []
    assert places(tmp_path, "command", "dlq retry") == ["page.md:1"]
    assert places(tmp_path, "definition", "Entry") == ["state.py:5"]


def test_our_terms_can_be_read_and_an_unknown_kind_is_refused() -> None:
    text = TERMS.read_text()
    assert len(read_terms(text)) > 100
    assert {word.use for word in read_words(text)} == {"never", "seldom"}
    with pytest.raises(ValueError, match="'verb' is no kind"):
        read_terms('[[name]]\nname = "go"\nkind = "verb"\npaths = []\nreplacement = ""\n')


def test_the_parts_of_a_file_keep_their_lines() -> None:
    source = read_source(PurePath("a.ts"), 'let a = `b ${c}`; // d\nlet e = "//f"; /* g\n*/ h();\n')
    assert source.code.split() == ["let", "a", "=", "${c}", ";", "let", "e", "=", ";", "h();"]
    assert source.line_of(source.code.index("h()")) == 3
    assert "d" in source.prose
    assert "g" not in source.code + source.strings


LET_GO = Word("let go", "let(?:s|ting)? go", "never", "prune")
ANEW = Word("anew", "anew", "never", "again")


def test_words_count_in_comments_docstrings_and_texts_over_the_end_of_a_line() -> None:
    code = '"""Lets go."""\nanew = 1\n# a row is let\n# go of\nlog("made anew")\nletgo = "renewed outlet go"\n'
    found = find_words([LET_GO, ANEW], "a.py", code)
    assert [(one.line, one.what) for one in sorted(found)] == [(1, str(LET_GO)), (3, str(LET_GO)), (5, str(ANEW))]


@pytest.fixture
def linted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prose, "WORK", tmp_path / "work")
    return tmp_path / "page.md"


def words(count: int) -> str:
    return " ".join(["Word"] + ["word"] * (count - 1))


def test_a_long_sentence_counts_in_a_paragraph_a_list_and_a_table(linted: Path) -> None:
    page = [
        f"{words(25)}. {words(26)}.",
        f"- {words(26)}",
        f"| a | b |\n|---|---|\n| {words(26)} | {words(25)} |",
        f"# {words(30)}",
        f"```\n{words(30)}\n```",
    ]
    linted.write_text("\n\n".join(page))
    found = find_in_markdown([], [linted])["long_sentences"]
    assert [one.line for one in found] == [1, 3, 7]
    assert all(one.what.startswith("26 words") for one in found)


def test_inline_code_is_one_word_and_an_abbreviation_or_a_version_ends_no_sentence(linted: Path) -> None:
    linted.write_text(f"{words(24)} `{words(10)}`. `code` {words(24)}.\n\n{words(13)}, e.g. Word 1.2, {words(13)}.\n")
    found = find_in_markdown([], [linted])["long_sentences"]
    assert [(one.line, one.what.split()[0]) for one in found] == [(3, "29")]


def test_forbidden_words_of_markdown_are_found_outside_of_code(linted: Path) -> None:
    linted.write_text("Made Anew, and `anew`.\n\n> It lets\n> go: renewed.\n")
    found = find_in_markdown([LET_GO, ANEW], [linted])["forbidden_words"]
    assert [one.line for one in found] == [1, 3]


def test_every_place_that_breaks_a_rule_is_printed_with_their_number() -> None:
    one = Occurrence("a.md", 1, "26 words")
    assert judge({"forbidden_words": [], "long_sentences": [one, one]}) == [str(one), str(one), "long_sentences: 2"]
    assert judge({"forbidden_words": [], "long_sentences": []}) == []


def test_statements_count_without_docstrings() -> None:
    assert count_statements('"""Module."""\nx = 1\n"""What x is."""\ndef f():\n    """Doc."""\n    return x; x\n') == 4


def test_layers_of_a_package_count_once_however_many_parts_they_have() -> None:
    contracts = [
        {"type": "layers", "containers": ["bridge"], "layers": ["(cli) : (api)", "relay", "ports"]},
        {"type": "layers", "layers": ["bridge.cli | indexer.jobs", "indexer.sinks"]},
        {"type": "layers", "containers": ["bridge.relay"], "layers": ["a", "b", "c", "d"]},
        {"type": "forbidden", "source_modules": ["bridge"]},
    ]
    project = {"tool": {"importlinter": {"contracts": contracts}}}
    assert (count_layers("bridge", project), count_layers("indexer", project)) == (3, 2)
    assert count_layers("dapp", project) is None


def test_the_way_has_files_with_a_function_that_is_called_with_a_message_alone(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    write(
        tmp_path,
        {
            f"calls/{SWITCH}": "\0",
            "bridge/__init__.py": "",
            "bridge/early.py": "def early(): pass",
            "bridge/body.py": "class Body: x = 1",
            "bridge/called.py": "from threading import Thread\ndef called():\n    Thread(target=by_thread).start()\n"
            "def by_thread():\n    import bridge.record, bridge.body\n    bridge.record.Record(1)\n",
            "bridge/record.py": "from dataclasses import dataclass\n@dataclass\nclass Record:\n    x: int\n",
            "bridge/loop.py": "def turn(work=lambda: None): work()",
            "main.py": "import sys, bridge.called, bridge.early, bridge.loop\nbridge.early.early()\n"
            "switch = open(sys.argv[1], 'r+b', buffering=0)\nswitch.write(b'\\1')\nbridge.loop.turn()\n"
            "switch.seek(0)\nswitch.write(b'\\2')\nbridge.loop.turn(bridge.called.called)\n",
        },
    )
    environment = os.environ | {VARIABLE: str(calls), "PYTHONPATH": f"{TRACER}:{tmp_path}"}
    command = [sys.executable, str(tmp_path / "main.py"), str(calls / SWITCH)]
    subprocess.run(command, env=environment, check=True, timeout=30)
    noted = list(calls.glob("*.calls"))
    assert called_files(noted, "", tmp_path) == (["bridge/called.py", "bridge/record.py"], ["bridge/loop.py"])
    assert called_files(noted, "| `bridge/loop.py` |", tmp_path)[1] == []


def test_the_page_of_the_architecture_has_the_steps_of_the_way() -> None:
    assert "`bridge/relayer/observer.py`" in steps_of_the_way()
    assert "When a delivery fails" not in steps_of_the_way()


def test_a_source_map_gives_each_instruction_its_file() -> None:
    assert list(instructions(bytes.fromhex("60ff0161aabb00"))) == [0, 2, 3, 6]
    assert list(file_numbers("1:2:3:-:0;;4:5;::-1;;:::o;7:8:9")) == [3, 3, 3, -1, -1, -1, 9]


def test_a_contract_is_known_by_its_code_whatever_its_immutable_values_are() -> None:
    artifact = Artifact(bytes.fromhex("6000006001"), immutables=((1, 2),), files={})
    assert artifact.is_at(bytes.fromhex("60abcd6001"))
    assert not artifact.is_at(bytes.fromhex("60abcd6002"))
    assert not artifact.is_at(b"")
