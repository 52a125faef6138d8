"""Plots as inline SVG: no script, no style attributes, colours by class so that they follow light and dark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDE, NARROW = 640, 400
"""Widths of plots, in the units in which a letter is 13 high."""

_HEIGHT = 150
_LEFT, _BOTTOM, _TOP = 60, 24, 14
_SAID, _ROW, _LETTER = 170, 46, 8
"""Of horizontal bars: the room for values on the right, the height of one with its name above it, and of a name's letter its width."""

_BUCKETS, _FEWEST_BUCKETS = 40, 10
"""Of a histogram, at most and at least."""

_NAME_ROOM = 90
"""What the names of percentiles take beside a line, also in the larger letters of a narrow screen."""


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


def spread(
    title: str, counted: Sequence[tuple[int, int]], marks: Sequence[tuple[str, float]], width: int = WIDE
) -> Markup:
    """How latencies are spread: a histogram on a line, with named percentiles.

    Args:
        title: says it in words.
        counted: whole seconds, ascending, and how many messages took them.
        marks: names of percentiles, and their seconds.
        width: of the plot.
    """
    if not counted:
        return Markup('<p class="quiet">nothing yet</p>')
    longest = max(0, *(seconds for seconds, _ in counted))
    step = next(size for size in _whole_steps() if longest < size * _BUCKETS)
    buckets = [0] * max(_FEWEST_BUCKETS, longest // step + 1)
    for seconds, number in counted:
        buckets[max(0, seconds) // step] += number
    values = [
        Bar(f"{first} s" if step == 1 else f"{first}–{first + step - 1} s", (("bar-a", number),))
        for first, number in zip(range(0, len(buckets) * step, step), buckets, strict=True)
    ]
    lines = [(name, (value // step + 0.5) / len(buckets)) for name, value in marks]
    return bars(title, values, "messages", width, lines)


def _whole_steps() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 and so on: buckets of whole seconds, since blocks have no other times."""
    for power in itertools.count():
        yield from (one * 10**power for one in (1, 2, 5))


def _marks(lines: Sequence[tuple[str, float]], width: int) -> Markup:
    """Dashed lines with a name each, at a share of the width; of those too close for two names, the first has all names."""
    places: list[tuple[list[str], list[float]]] = []
    for name, share in lines:
        x = round(_LEFT + share * (width - _LEFT), 1)
        if places and x - places[-1][1][0] < _NAME_ROOM:
            places[-1][0].append(name)
            places[-1][1].append(x)
        else:
            places.append(([name], [x]))
    drawn = []
    for names, (first, *others) in places:
        on_the_right = first > width * 0.75
        drawn += [
            Markup('<line class="mark" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, _TOP, _HEIGHT - _BOTTOM)
            for x in dict.fromkeys((first, *others))
        ]
        drawn.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                first - 4 if on_the_right else max([first, *others]) + 4,
                _TOP + 11,
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
    """The next round number for an axis: no bar is less than two thirds as high as the highest could be."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next((power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8) if power * step >= value), power * 10)
