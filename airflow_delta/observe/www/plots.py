"""Plots as inline SVG, without scripts and requests. Colors come from the page's style, by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_SPARK = (84, 22)
_CHART = (420, 150)
_LEFT, _BOTTOM, _TOP, _RIGHT = 66, 22, 12, 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram.

    Attributes:
        label: Text below the bar.
        count: The bar's value, which decides its height.
        kind: CSS class of the bar, such as ``small``.
    """

    label: str
    count: int
    kind: str = ""


def sparkline(values: Sequence[int], description: str) -> Markup:
    """A small line without axes; empty for fewer than two values.

    Args:
        values: The values, the oldest first.
        description: Text for screen readers, and the tooltip.
    """
    if len(values) < 2:  # noqa: PLR2004 - one point is no line
        return Markup("")
    width, height = _SPARK
    points = _scaled(values, (3, width - 4), (height - 4, 4))
    x, y = points[-1].split(",")
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{d}"><title>{d}</title>'
        '<polyline points="{p}"/><circle cx="{x}" cy="{y}" r="2.5"/></svg>'
    ).format(w=width, h=height, d=description, p=" ".join(points), x=x, y=y)


def histogram(bars: Sequence[Bar], description: str) -> Markup:
    """Bars with their counts above and their labels below."""
    width, height = _CHART
    most = max((bar.count for bar in bars), default=0) or 1
    step = width / max(1, len(bars))
    parts = []
    for position, bar in enumerate(bars):
        x = position * step
        tall = (height - _BOTTOM - 18) * bar.count / most
        tall = max(tall, 2) if bar.count else 0
        y = height - _BOTTOM - tall
        parts.append(
            Markup(
                '<rect class="bar {kind}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{tall:.1f}" rx="2"/>'
                '<text class="count" x="{mid:.1f}" y="{above:.1f}">{count}</text>'
                '<text class="tick" x="{mid:.1f}" y="{below}">{label}</text>'
            ).format(
                kind=bar.kind,
                x=x + 3,
                y=y,
                w=step - 6,
                tall=tall,
                mid=x + step / 2,
                above=y - 4,
                below=height - 6,
                count=f"{bar.count:,}" if bar.count else "",
                label=bar.label,
            )
        )
    return _chart(Markup("").join(parts), description)


def line_chart(values: Sequence[int], *, ends: tuple[str, str], levels: tuple[str, str], description: str) -> Markup:
    """A line from the oldest value to the newest, over the range of the values.

    Args:
        values: The values, the oldest first; at least two.
        ends: Labels below the first and the last point.
        levels: Labels for the least and the greatest value.
        description: Text for screen readers.
    """
    width, height = _CHART
    top, bottom, right = _TOP, height - _BOTTOM - 4, width - _RIGHT
    points = _scaled(values, (_LEFT, right), (bottom, top))
    area = [f"{_LEFT},{bottom}", *points, f"{right},{bottom}"]
    low, high = levels
    grid = [(top, high)] if low == high else [(top, high), (bottom, low)]
    lines = Markup("").join(
        Markup(
            '<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>'
            '<text class="level" x="{label}" y="{text}">{level}</text>'
        ).format(left=_LEFT, right=right, y=y, label=_LEFT - 8, text=y + 4, level=level)
        for y, level in grid
    )
    x, y = points[-1].split(",")
    body = Markup(
        '{lines}<polygon class="area" points="{area}"/><polyline class="line" points="{points}"/>'
        '<circle cx="{x}" cy="{y}" r="3"/>'
        '<text class="first" x="{left}" y="{below}">{first}</text><text class="last" x="{right}" y="{below}">{last}</text>'
    ).format(
        lines=lines,
        area=" ".join(area),
        points=" ".join(points),
        x=x,
        y=y,
        left=_LEFT,
        right=right,
        below=height - 5,
        first=ends[0],
        last=ends[1],
    )
    return _chart(body, description)


def share_bar(share: float, description: str) -> Markup:
    """A bar that is filled to a share between 0 and 1."""
    return Markup(
        '<svg class="share" viewBox="0 0 100 8" width="100" height="8" role="img" aria-label="{d}"><title>{d}</title>'
        '<rect class="track" width="100" height="8" rx="2"/><rect class="bar" width="{w:.1f}" height="8" rx="2"/></svg>'
    ).format(d=description, w=max(1.0, 100 * share))


def _chart(body: Markup, description: str) -> Markup:
    width, height = _CHART
    return Markup('<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{d}"><title>{d}</title>{body}</svg>').format(
        w=width, h=height, d=escape(description), body=body
    )


def _scaled(values: Sequence[int], across: tuple[int, int], down: tuple[int, int]) -> list[str]:
    """The points of a line; equal values give a horizontal line in the middle."""
    low, high = min(values), max(values)
    left, right = across
    bottom, top = down
    step = (right - left) / (len(values) - 1)
    share = [0.5 if low == high else (value - low) / (high - low) for value in values]
    return [f"{left + number * step:.1f},{bottom + (top - bottom) * part:.1f}" for number, part in enumerate(share)]
