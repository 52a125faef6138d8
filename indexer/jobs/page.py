"""The report as one HTML page that needs nothing else: no script, no request, plots as SVG within it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import FeePaid, GmpCost
from indexer.store.analytics import Alternative, GmpShare, Stage
from indexer.store.ranking import GmpHealth
from indexer.store.records import Report

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b2330;--soft:#5b6675;--line:#d9dee6;--a:#2563eb;--b:#f59e0b;--c:#94a3b8}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa5b4;--line:#2c3644;--a:#60a5fa;--b:#fbbf24;--c:#64748b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{color:var(--soft);margin:.2rem 0 .8rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}td,th{padding:.3rem .6rem;text-align:right;
border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}th{font-weight:600;color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}.facts div{border:1px solid var(--line);border-radius:.5rem;
padding:.5rem .9rem}.facts b{display:block;font-size:1.3rem}.facts span{color:var(--soft)}.wide{overflow-x:auto}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}.bad b{color:#dc2626}
"""

_HEAD: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Waybill report</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    f"<style>{_STYLE}</style></head><body>"
)

_MAKE_TABLES: Final = "<code>waybill index tables</code> has the lake count them"

_BAR: Final = 22  # pixels from one bar to the next
_LEFT: Final = 130  # pixels for names, more if the longest takes more
_LETTER: Final = 7  # pixels that a letter takes at most, on average
_WIDTH: Final = 640

Named = Callable[[int], str]
"""The name of a chain."""


def report_page(report: Report, chain: Named, now: float) -> str:
    """The page.

    Args:
        report: what it shows.
        chain: names chains.
        now: Unix seconds, for its date.
    """
    parts = [
        f"<h1>Waybill</h1><p>{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC · all times are block times</p>",
        _facts(report),
        *(
            [f"<p>{report.not_counted} messages, pruned by the store, are in no figure: {_MAKE_TABLES}.</p>"]
            * bool(report.not_counted)
        ),
        _section(
            "Latency, in seconds from the route",
            "Bars: median (dark) and 95th percentile, by lane and stage, of the newest messages that the store has. When an execution "
            "became final, the index knows only if it was running then; - where it knows of none."
            + _on_attested(report),
            _bars(_stage_bars(report.stages, chain)),
            _stage_table(report.stages, chain),
        ),
        _section(
            "GMPs",
            "Bars: receipts that came first (dark) and all receipts. Late receipts were paid for and executed nothing.",
            _bars([(_gmp(one.gmp), one.first, one.receipts) for one in report.shares]),
            _share_table(report.shares),
        ),
        *_redundancy(report, chain),
        _section(
            "Duplicates absorbed",
            "Deliveries that one GMP repeated: by GMP, lane and day.",
            "",
            _duplicate_table(report, chain),
        ),
        _section(
            "Divergences",
            "Facts on the chains that contradict one another.",
            "",
            _divergence_table(report),
        ),
    ]
    return _HEAD + "".join(parts) + "</body></html>\n"


def _redundancy(report: Report, chain: Named) -> list[str]:
    """What sending over several GMPs brought, what it cost, and what others would have."""
    return [
        _section(
            "Recent health",
            "What each GMP made of the newest messages of a lane that it took, the most dependable first.",
            "",
            _health_table(report.health, chain),
        ),
        _section(
            "What other sets of GMPs would have cost and gained",
            "For the messages that went over all GMPs of a set: how they would have done with these alone."
            + (f" No sets were made with {' and '.join(map(_gmp, report.left_out))}." if report.left_out else ""),
            "",
            _alternative_table(report.alternatives),
        ),
        _section(
            "What deliveries and routes cost",
            "Gas of deliveries by GMP; fees that senders paid, by set of GMPs. Asked of the chains with --costs.",
            "",
            _cost_table(report.costs, chain) + _fee_table(report.fees, chain),
        ),
    ]


def _facts(report: Report) -> str:
    retries = report.retries
    shown = [
        ("messages", report.messages, False),
        ("executed", report.executed, False),
        ("executed twice", report.executed_twice, report.executed_twice > 0),
        ("lost", report.lost, report.lost > 0),
        ("retries requested / sent / executed", f"{retries.requested} / {retries.sent} / {retries.executed}", False),
        ("late receipts", report.late_receipts, False),
        ("duplicates absorbed", report.duplicates_absorbed, False),
        ("divergences", len(report.divergences), bool(report.divergences)),
    ]
    cells = [
        f"<div{' class=bad' if bad else ''}><b>{escape(str(value))}</b><span>{escape(name)}</span></div>"
        for name, value, bad in shown
    ]
    return f'<div class="facts">{"".join(cells)}</div>'


def _section(title: str, text: str, plot: str, table: str) -> str:
    body = f'{plot}<div class="wide">{table}</div>' if table else "<p>nothing yet</p>"
    return f"<h2>{escape(title)}</h2><p>{escape(text)}</p>{body}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _bars(rows: Sequence[tuple[str, float, float]]) -> str:
    """Horizontal bars: a dark value within a light one."""
    if not rows:
        return ""
    most = max([larger for _, _, larger in rows] + [1])
    left = max(_LEFT, _LETTER * max(len(name) for name, _, _ in rows) + 8)
    width = left + _WIDTH - _LEFT
    room = width - left - 80
    drawn = []
    for position, (name, smaller, larger) in enumerate(rows):
        y = position * _BAR
        drawn.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y + 4}" width="{max(1.0, larger / most * room):.1f}" height="14" rx="2" fill="var(--c)"/>'
            f'<rect x="{left}" y="{y + 4}" width="{smaller / most * room:.1f}" height="14" rx="2" fill="var(--a)"/>'
            f'<text x="{left + larger / most * room + 6:.1f}" y="{y + 15}">{smaller:g} / {larger:g}</text>'
        )
    height = len(rows) * _BAR + 4
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{"".join(drawn)}</svg>'


def _on_attested(report: Report) -> str:
    if report.attested_unknown is not None:
        return f" When GMPs attested is not known: {report.attested_unknown}."
    return " Attested, by the relayer's clock: it had the proof of the delivery that came first."


def _stage_bars(stages: Sequence[Stage], chain: Named) -> list[tuple[str, float, float]]:
    return [
        (f"{_lane(one, chain)} {one.stage}", one.p50, one.p95)
        for one in stages
        if one.p50 is not None and one.p95 is not None
    ]


def _stage_table(stages: Sequence[Stage], chain: Named) -> str:
    rows = [
        [_lane(one, chain), one.stage, str(one.messages), *map(_seconds, (one.p50, one.p95, one.p99))] for one in stages
    ]
    return _table(["lane", "stage", "messages", "p50 s", "p95 s", "p99 s"], rows)


def _share_table(shares: Sequence[GmpShare]) -> str:
    rows = [
        [
            _gmp(one.gmp),
            str(one.receipts),
            str(one.first),
            "" if one.lead_p50 is None else f"{one.lead_p50:g}",
            str(one.late),
            f"{one.late / one.receipts:.0%}",
            str(one.latency_p50),
            str(one.latency_p95),
        ]
        for one in shares
    ]
    names = ["GMP", "receipts", "first", "lead p50 s", "late", "share late", "latency p50 s", "p95 s"]
    return _table(names, rows)


def _health_table(health: Sequence[GmpHealth], chain: Named) -> str:
    rows = [
        [
            f"{chain(one.lane[0])} → {chain(one.lane[1])}",
            _gmp(one.gmp),
            str(one.dispatched),
            f"{one.delivered / one.dispatched:.0%}",
            "" if one.latency_p50 is None else str(one.latency_p50),
        ]
        for one in health
    ]
    return _table(["lane", "GMP", "dispatched", "delivered", "p50 s"], rows)


def _cost_table(costs: Sequence[GmpCost], chain: Named) -> str:
    rows = [
        [
            f"{_gmp(one.gmp)} {chain(one.lane[0])} → {chain(one.lane[1])}",
            *map(str, (one.deliveries, one.late, one.gas_p50, one.gas_paid, one.late_gas_paid)),
        ]
        for one in costs
    ]
    return _table(["GMP and lane", "deliveries", "late", "gas p50", "wei for gas", "of it for late ones"], rows)


def _fee_table(fees: Sequence[FeePaid], chain: Named) -> str:
    rows = [
        [
            f"{' + '.join(_gmp(gmp) for gmp in one.gmps)} {chain(one.lane[0])} → {chain(one.lane[1])}",
            *map(str, (one.messages, one.fees_p50, one.fees)),
        ]
        for one in fees
    ]
    return _table(["GMPs and lane", "messages", "fees p50, wei", "fees, wei"], rows)


def _alternative_table(alternatives: Sequence[Alternative]) -> str:
    rows = [
        [
            " + ".join(_gmp(gmp) for gmp in one.gmps),
            str(one.quorum),
            str(one.messages),
            f"{one.reached / one.messages:.1%}",
            "" if one.latency_p50 is None else str(one.latency_p50),
            "" if one.latency_p95 is None else str(one.latency_p95),
            str(one.deliveries),
            str(one.saved),
            "" if one.gas_paid is None else str(one.gas_paid),
            "" if one.gas_saved is None else str(one.gas_saved),
        ]
        for one in alternatives
    ]
    return _table(
        [
            *("GMPs", "quorum", "messages", "reach quorum", "p50 s", "p95 s", "deliveries", "deliveries saved"),
            *("wei for gas", "wei saved"),
        ],
        rows,
    )


def _duplicate_table(report: Report, chain: Named) -> str:
    rows = [
        [_gmp(gmp), f"{chain(lane[0])} → {chain(lane[1])}", day, str(count)]
        for (gmp, lane, day), count in sorted(report.duplicates_by_day.items())
    ]
    return _table(["GMP", "lane", "day", "duplicates"], rows)


def _divergence_table(report: Report) -> str:
    rows = [
        [
            item.kind,
            item.severity,
            f"0x{item.message_id.hex()}" if item.message_id else "the lane",
            item.evidence,
            item.next_action,
        ]
        for item in report.divergences
    ]
    return _table(["kind", "severity", "message", "evidence", "next"], rows)


def _seconds(value: int | None) -> str:
    return "-" if value is None else str(value)


def _lane(stage: Stage, chain: Named) -> str:
    return f"{chain(stage.lane[0])} → {chain(stage.lane[1])}"


def _gmp(number: int) -> str:
    return Gmp(number).label if number in {gmp.value for gmp in Gmp} else f"GMP {number}"
