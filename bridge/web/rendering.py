"""The templates, compiled once. Every value is escaped."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from bridge.protocol.numbers import count, counted, duration
from bridge.web import cells

STATIC: Final = Path(__file__).with_name("static")

TERMS: Final = {
    "GMP": "General message passing protocol: a network that carries messages between chains, such as Hyperlane or Wormhole.",
    "lane": "A pair of chains, from the source to the destination.",
    "quorum": "How many different GMPs must deliver a message before its recipient is called.",
    "attested": "A GMP's signers have confirmed the message, so it can be delivered.",
    "stalled": "Too few GMPs have delivered the message in its lane's usual time.",
    "absorbed": "A GMP delivered the same message again, and nothing changed.",
    "dead letter": "A delivery that the relayer gave up. An operator decides about it.",
    "diverged": "Facts on the chains, or in the index, contradict each other.",
}
"""The terms that pages explain."""

NAVIGATION: Final = (
    ("/messages", "Messages"),
    ("/lanes", "Lanes"),
    ("/gmps", "GMPs"),
    ("/dead-letters", "Dead letters"),
    ("/faults", "Faults"),
    ("/status", "Status"),
)


def _term(word: str, shown: str = "") -> Markup:
    return Markup('<abbr title="{}">{}</abbr>').format(TERMS[word], shown or word)


def _assets() -> str:
    """Returns a hash of the static files. Browsers may cache the files as long as the hash stays the same."""
    digest = sha256()
    for file in sorted(STATIC.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("bridge.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "hex": cells.hexadecimal,
        "short": cells.shortened,
        "moment": cells.moment,
        "age": cells.age,
        "duration": duration,
        "tone": cells.tone,
        "words": cells.words,
        "count": count,
        "counted": counted,
        "harmless": cells.harmless,
        "cut": cells.cut,
        "coded": cells.coded,
    }
    made.globals |= {
        "term": _term,
        "terms": TERMS,
        "navigation": NAVIGATION,
        "assets": _assets(),
        "copyable": cells.copyable,
        "account": cells.account,
    }
    for name in made.list_templates():
        made.get_template(name)  # compiles it before the first request
    return made


_TEMPLATES: Final = _environment()


def render(template: str, **values: Any) -> str:
    """Renders a template as HTML."""
    return _TEMPLATES.get_template(template).render(**values)
