"""Bar charts as SVG, for the benchmarks' figures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

_LEFT: Final = 160  # pixels for the names, of which "plain web3.py source" is the longest


def bar_chart(groups: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a chart with a group of bars under each title, each with its own scale; empty groups are left out."""
    lines, top = [], 10
    for title, bars in ((title, bars) for title, bars in groups.items() if bars):
        lines.append(f'<text x="10" y="{top + 14}" font-weight="bold">{escape(title)}</text>')
        top += 22
        largest = max(bars.values()) or 1
        for name, figure in bars.items():
            width = 300 * figure / largest
            lines.append(f'<text x="10" y="{top + 13}">{escape(name)}</text>')
            lines.append(f'<rect x="{_LEFT}" y="{top + 2}" width="{width:.1f}" height="14" fill="#4477aa"/>')
            lines.append(f'<text x="{_LEFT + 6 + width:.1f}" y="{top + 13}">{figure:,.0f}</text>')
            top += 20
        top += 14
    body = "\n".join(lines)
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + 390}" height="{top}" {style}>\n{body}\n</svg>\n'
