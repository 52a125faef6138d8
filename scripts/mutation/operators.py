"""Which small faults a contract's source can be given, read off the compiler's syntax tree."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]

SWAPS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "&&": ("||",),
    "||": ("&&",),
}
"""Operators that are confused in practice: relational with their boundary and their opposite, arithmetic, bits, boolean."""

ASSIGNMENTS = {"+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `length` bytes of a source from `start` on become `after`."""

    source: str
    """Path below the repository's root."""
    operator: str
    start: int
    before: str
    after: str
    line: int
    code: str
    """The line as it was, without its indentation."""

    @property
    def id(self) -> str:
        """The same in every run, as long as the fault's surroundings are the same."""
        text = "\0".join((self.source, self.operator, str(self.start), self.code, self.before, self.after))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def applied(self, text: bytes) -> bytes:
        """The source with the fault in it."""
        return text[: self.start] + self.after.encode() + text[self.start + len(self.before.encode()) :]


def span(node: Node) -> tuple[int, int]:
    """Where a node begins and ends, in bytes."""
    start, length, _ = map(int, node["src"].split(":"))
    return start, start + length


def nodes(tree: Any) -> Iterator[Node]:
    """All nodes of a tree but those of inline assembly, whose text is not Solidity."""
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)
    elif isinstance(tree, dict):
        if tree.get("nodeType") in {"InlineAssembly", "ImportDirective", "PragmaDirective", "StructuredDocumentation"}:
            return
        if "nodeType" in tree and "src" in tree:
            yield tree
        for part in tree.values():
            yield from nodes(part)


def mutants(source: str, text: bytes, tree: Node) -> Iterator[Mutant]:
    """Every fault of the operators below, in the order of the source."""
    found = {
        (start, end, operator, after) for node in nodes(tree) for start, end, operator, after in faults(node, text)
    }
    for start, end, operator, after in sorted(found):
        line = text.count(b"\n", 0, start) + 1
        yield Mutant(
            source=source,
            operator=operator,
            start=start,
            before=text[start:end].decode(),
            after=after,
            line=line,
            code=text.splitlines()[line - 1].decode().strip(),
        )


def faults(node: Node, text: bytes) -> Iterator[tuple[int, int, str, str]]:
    """What can be done to one node: where from, where to, by which operator, into what."""
    start, end = span(node)
    match node["nodeType"]:
        case "BinaryOperation":
            yield from _swapped(node, text)
        case "UnaryOperation" if node["operator"] == "!":
            yield start, start + 1, "drop negation", ""
        case "Assignment" if node["operator"] in ASSIGNMENTS:
            place = text.index(node["operator"].encode(), span(node["leftHandSide"])[1])
            yield place, place + 2, "swap assignment", ASSIGNMENTS[node["operator"]]
        case "IfStatement":
            yield from _decided(node)
        case "ExpressionStatement" | "EmitStatement" | "RevertStatement":
            yield start, _after_semicolon(text, end), "delete statement", "{}"
        case "Literal" if node["kind"] == "number" and not node.get("subdenomination"):
            yield from _shifted(start, end, text)
        case "Literal" if node["kind"] == "bool":
            yield start, end, "flip literal", "false" if node["value"] == "true" else "true"
        case "ModifierInvocation" if node.get("kind") == "modifierInvocation":
            yield start, end, "drop modifier", ""


def _swapped(node: Node, text: bytes) -> Iterator[tuple[int, int, str, str]]:
    operator = node["operator"]
    left = span(node["leftExpression"])[1]
    place = text.find(operator.encode(), left, span(node["rightExpression"])[0])
    if place < 0:
        return
    for other in SWAPS.get(operator, ()):
        yield place, place + len(operator), "swap operator", other


def _decided(node: Node) -> Iterator[tuple[int, int, str, str]]:
    start, end = span(node["condition"])
    yield start, end, "condition false", "false"
    yield start, end, "condition true", "true"


def _shifted(start: int, end: int, text: bytes) -> Iterator[tuple[int, int, str, str]]:
    digits = text[start:end].decode().replace("_", "")
    if not digits.isdecimal():
        return
    yield start, end, "change constant", str(int(digits) + 1)
    if int(digits):
        yield start, end, "change constant", str(int(digits) - 1)


def _after_semicolon(text: bytes, end: int) -> int:
    return text.index(b";", end) + 1 if text[end - 1 : end] != b";" else end
