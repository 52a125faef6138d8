"""Plots as inline SVG: no script, no style attributes, colours by class so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDE, NARROW = 640, 400
"""Widths of plots, in the units in which a letter is 11 high."""

_HEIGHT = 132
_LEFT, _BOTTOM, _TOP = 40, 20, 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it is of, and its parts from the bottom up as (class, height)."""

    label: str
    parts: tuple[tuple[str, float], ...]

    @property
    def height(self) -> float:
        """Of all parts together."""
        return sum(height for _, height in self.parts)


def bars(title: str, values: Sequence[Bar], unit: str, width: int = WIDE) -> Markup:
    """A bar chart that says itself in words to those who can't see it."""
    highest = _round_up(max((bar.height for bar in values), default=0))
    step = (width - _LEFT) / max(1, len(values))
    drawn = [_axis(highest, unit, width)]
    for position, bar in enumerate(values):
        left = _LEFT + position * step
        bottom = float(_HEIGHT - _BOTTOM)
        label = f"{bar.label}: {bar.height:g} {unit}"
        shapes = []
        for kind, amount in bar.parts:
            tall = amount / highest * (_HEIGHT - _BOTTOM - _TOP)
            bottom -= tall
            if tall > 0:
                shapes.append(
                    Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5"/>').format(
                        kind, left + step * 0.1, bottom, step * 0.8, max(tall, 1)
                    )
                )
        hover = Markup('<rect class="hover" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
            left, _TOP, step, _HEIGHT - _BOTTOM - _TOP
        )
        drawn.append(Markup("<g><title>{}</title>{}{}</g>").format(label, Markup("").join(shapes), hover))
    drawn.append(_ends(values, width))
    total = f"{title}: {len(values)} bars, the highest {max((bar.height for bar in values), default=0):g} {unit}"
    return _figure(total, Markup("").join(drawn), width)


def _axis(highest: float, unit: str, width: int) -> Markup:
    lines = []
    for share in (0.0, 1.0) if highest == 1 else (0.0, 0.5, 1.0):
        y = _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, width, y, y)
            + Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{:g}</text>').format(
                _LEFT - 6, y + 4, highest * share
            )
        )
    return Markup("<g><title>{}</title>{}</g>").format(unit, Markup("").join(lines))


def _ends(values: Sequence[Bar], width: int) -> Markup:
    if not values:
        return Markup("")
    y = _HEIGHT - 5
    first = Markup('<text class="tick" x="{}" y="{}">{}</text>').format(_LEFT, y, values[0].label)
    last = Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(width, y, values[-1].label)
    return first + last


def spread(title: str, seconds: Sequence[float], marks: Sequence[tuple[str, float]], width: int = WIDE) -> Markup:
    """How latencies are spread: a histogram on a line, with named percentiles."""
    if not seconds:
        return Markup('<p class="quiet">nothing yet</p>')
    longest = _round_up(max(seconds))
    count = 40
    buckets = [0] * count
    for value in seconds:
        buckets[min(count - 1, int(value / longest * count))] += 1
    step = longest / count
    drawn = bars(
        title,
        [
            Bar(f"{index * step:g}–{(index + 1) * step:g} s", (("bar-a", number),))
            for index, number in enumerate(buckets)
        ],
        "messages",
        width,
    )
    words = ", ".join(f"{name} {value:g} s" for name, value in marks)
    return drawn + Markup('<p class="quiet marks">{}</p>').format(words)


def _figure(label: str, content: Markup, width: int) -> Markup:
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, _HEIGHT, label, content
    )


def _round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, so that the axis has round numbers."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next((power * step for step in (1, 2, 5) if power * step >= value), power * 10)
