"""Charts as SVG, drawn by hand: bars side by side, and lines over powers of ten."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["bars", "lines"]

COLOURS = {
    "penstock": "#0b6e8f",
    "flink": "#e4572e",
    "spark": "#f3a712",
    "quix": "#a8c686",
    "bytewax": "#669bbc",
    "pathway": "#8d6a9f",
    "realtime": "#0b6e8f",
    "micro-batch": "#7fb7c9",
}
_GREY = "#777"
_WIDTH, _LEFT, _TOP, _BOTTOM = 860, 70, 46, 56
_HEIGHT = 300


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A group of bars for each query, a bar for each engine."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    top = max((value for group in groups.values() for value in group.values()), default=1.0) * 1.05
    wide = (_WIDTH - _LEFT - 10) / max(1, len(groups))
    bar = wide * 0.8 / max(1, len(names))
    drawn = [*_grid(top), *_legend(names)]
    for at, (group, values) in enumerate(groups.items()):
        left = _LEFT + at * wide + wide * 0.1
        for place, name in enumerate(names):
            if name in values:
                high = values[name] / top * _HEIGHT
                drawn.append(_bar(left + place * bar, _TOP + _HEIGHT - high, bar * 0.92, high, name, values[name]))
        drawn.append(_text(left + wide * 0.4, _TOP + _HEIGHT + 18, group, "middle"))
    return _chart(f"{title}, {unit}", drawn)


def lines(title: str, unit: str, across: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line for each engine over a scale of powers of ten."""
    every = [point for points in series.values() for point in points]
    top = max((y for _, y in every), default=1.0) * 1.15
    least, most = min(x for x, _ in every), max(x for x, _ in every)
    span = max(math.log10(most / least), 1e-9)

    def placed(x: float, y: float) -> tuple[float, float]:
        return _LEFT + 20 + math.log10(x / least) / span * (_WIDTH - _LEFT - 60), _TOP + _HEIGHT * (1 - y / top)

    drawn = [*_grid(top), *_legend(list(series))]
    for name, points in series.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (placed(*point) for point in points))
        colour = COLOURS.get(name, _GREY)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for point in points:
            x, y = placed(*point)
            drawn.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{point[1]:.2f}</title></circle>'
            )
    marks = sorted({x for x, _ in every})
    drawn += [_text(placed(x, 0)[0], _TOP + _HEIGHT + 18, f"{x:,.0f}", "middle") for x in marks]
    drawn.append(_text(_WIDTH / 2, _TOP + _HEIGHT + 38, across, "middle"))
    return _chart(f"{title}, {unit}", drawn)


def _chart(title: str, drawn: Sequence[str]) -> str:
    high = _TOP + _HEIGHT + _BOTTOM
    shown = escape(title)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" role="img" aria-label="{shown}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{high}" fill="#fff"/>',
            f'<text x="{_LEFT}" y="18" font-size="15" font-weight="bold" fill="#222">{shown}</text>',
            *drawn,
            "</svg>\n",
        ]
    )


def _grid(top: float) -> list[str]:
    """Lines across at round values."""
    step = 10 ** math.floor(math.log10(top))
    step = step / 5 if top / step < 2 else step / 2 if top / step < 5 else step
    drawn = []
    for number in range(int(top / step) + 1):
        y = _TOP + _HEIGHT * (1 - number * step / top)
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        drawn.append(_text(_LEFT - 8, y + 4, f"{number * step:g}", "end"))
    return drawn


def _legend(names: Sequence[str]) -> list[str]:
    drawn = []
    for at, name in enumerate(names):
        x = _LEFT + at * 110
        drawn.append(f'<rect x="{x}" y="26" width="12" height="12" fill="{COLOURS.get(name, _GREY)}"/>')
        drawn.append(_text(x + 17, 36, name, "start"))
    return drawn


def _bar(x: float, y: float, wide: float, high: float, name: str, value: float) -> str:
    told = f"<title>{escape(name)}: {value:,.1f}</title>"
    colour = COLOURS.get(name, _GREY)
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}">{told}</rect>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444">{escape(text)}</text>'
