"""Plots as inline SVG: no script, no style attributes, colours by class so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDE, NARROW = 640, 400
"""Widths of plots, in the units in which a letter is 13 high."""

_HEIGHT = 150
_LEFT, _BOTTOM, _TOP = 60, 24, 14
_SAID, _ROW, _LETTER = 170, 46, 8
"""Of horizontal bars: the room for values on the right, the height of one with its name above it, and of a name's letter its width."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it is of, and its parts from the bottom up as (class, height)."""

    label: str
    parts: tuple[tuple[str, float], ...]

    @property
    def height(self) -> float:
        """Of all parts together."""
        return sum(height for _, height in self.parts)


def bars(
    title: str,
    values: Sequence[Bar],
    unit: str,
    width: int = WIDE,
    lines: Sequence[tuple[str, float]] = (),
    *,
    at_least: float = 0,
) -> Markup:
    """A bar chart that says itself in words to those who can't see it; `lines` are named, at shares of its width.

    Charts that stand beside each other can be compared if they are told the same height `at_least`.
    """
    highest = _round_up(max([at_least, *(bar.height for bar in values)]))
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
    drawn += [_marks(lines, width), _ends(values, width)]
    total = f"{title}: {len(values)} bars, the highest {max((bar.height for bar in values), default=0):g} {unit}"
    return _figure(total, Markup("").join(drawn), width)


def _axis(highest: float, unit: str, width: int) -> Markup:
    lines = []
    for share in (0.0, 0.5, 1.0) if highest % 2 == 0 else (0.0, 1.0):  # half a message is none
        y = _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, width, y, y)
            + Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
                _LEFT - 6, y + 4, _short(highest * share)
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


@dataclass(frozen=True, slots=True)
class Row:
    """One horizontal bar: its name, its parts from the left as (class, length), and what it says at its end."""

    label: str
    parts: tuple[tuple[str, float], ...]
    said: str


def rows(title: str, values: Sequence[Row], width: int = WIDE) -> Markup:
    """Horizontal bars under one another, each with its name above it and its value behind it; wider if a name is."""
    width = max([width, *(_LETTER * len(row.label) for row in values)])
    longest = max((sum(length for _, length in row.parts) for row in values), default=0) or 1
    room = width - _SAID
    drawn = []
    for number, row in enumerate(values):
        top = number * _ROW + 4
        left = 0.0
        shapes = [Markup('<text class="name" x="0" y="{}">{}</text>').format(top + 13, row.label)]
        for kind, length in row.parts:
            wide = length / longest * room
            if wide > 0:
                shapes.append(
                    Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="18" rx="2"/>').format(
                        kind, left, top + 19, max(wide, 1)
                    )
                )
            left += wide
        shapes.append(Markup('<text class="said" x="{:.1f}" y="{}">{}</text>').format(left + 8, top + 33, row.said))
        drawn.append(Markup("<g><title>{}: {}</title>{}</g>").format(row.label, row.said, Markup("").join(shapes)))
    words = f"{title}: " + "; ".join(f"{row.label} {row.said}" for row in values)
    return _figure(words, Markup("").join(drawn), width, len(values) * _ROW + 4)


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
    values = [
        Bar(f"{index * step:g}–{(index + 1) * step:g} s", (("bar-a", number),)) for index, number in enumerate(buckets)
    ]
    lines = [(name, value / longest) for name, value in marks]
    return bars(title, values, "messages", width, lines)


def _marks(lines: Sequence[tuple[str, float]], width: int) -> Markup:
    """Dashed lines with a name each, at a share of the width; where several fall together, all names stand at one."""
    places: dict[float, list[str]] = {}
    for name, share in lines:
        places.setdefault(round(_LEFT + share * (width - _LEFT), 1), []).append(name)
    drawn = []
    for number, (x, names) in enumerate(places.items()):
        on_the_right = x > width * 0.75
        drawn.append(
            Markup('<line class="mark" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, _TOP, _HEIGHT - _BOTTOM)
            + Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                x - 4 if on_the_right else x + 4,
                _TOP + 11 + 15 * number,
                "end" if on_the_right else "start",
                ", ".join(names),
            )
        )
    return Markup("").join(drawn)


def _figure(label: str, content: Markup, width: int, height: int = _HEIGHT) -> Markup:
    shape = "plot wide" if width > NARROW else "plot"
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        shape, width, height, label, content
    )


def _short(value: float) -> str:
    """A round number that fits on the left of a narrow screen's plot: 2500, 25k, 5M."""
    for letter, power in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= max(power, 10_000):
            return f"{value / power:g}{letter}"
    return f"{value:g}"


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
