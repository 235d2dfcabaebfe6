"""The most time that each statement may take, and what Delta-Spark 4.4 took on a machine like this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.spark_ops.inputs import Size

_SMALL_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The most time of an operation: a multiple of plain Spark's time, plus a number of seconds.

    Attributes:
        ratio: Multiple of plain Spark's time.
        seconds: For small tables, where plain Spark's time means little.
        delta: What Delta-Spark took, in the unit of the larger of these two; None if not measured.
    """

    ratio: float = 0.0
    seconds: float = 0.0
    delta: float | None = None

    def limit(self, plain: float) -> float:
        """The most seconds, given those of plain Spark."""
        return self.ratio * plain + self.seconds

    def __str__(self) -> str:
        parts = [f"{self.ratio:.2f} x plain"] * bool(self.ratio) + [f"{self.seconds:.2f} s"] * bool(self.seconds)
        unit = " x plain" if self.ratio else " s"
        return f"{' + '.join(parts)}; Delta-Spark {'not measured' if self.delta is None else f'{self.delta:.2f}{unit}'}"


def _ratios(**ratios: tuple[float, float | None]) -> dict[str, Target]:
    return {name.replace("_", "-"): Target(ratio=ratio, delta=delta) for name, (ratio, delta) in ratios.items()}


def _seconds(**seconds: tuple[float, float | None]) -> dict[str, Target]:
    return {name.replace("_", "-"): Target(seconds=most, delta=delta) for name, (most, delta) in seconds.items()}


_SCAN = Target(ratio=1.1, seconds=0.5)
_FLIGHTS = {
    **_ratios(
        append=(1.10, 1.30),
        overwrite=(1.10, None),
        merge_spread=(1.2, 3.26),
        merge_spread_dv=(0.5, 1.20),
        merge_range=(0.35, 0.90),
        delete=(0.9, 1.65),
        delete_dv=(0.25, 0.53),
        update=(1.1, 2.14),
        compaction=(0.9, 2.77),
        z_order=(2.0, 4.02),
    ),
    "scan": _SCAN,
}
# Three times Delta-Spark's speed for everything that rewrites files. Its seconds are divided by those of a plain copy, 8.1.
_UNIQUE_STRINGS = {
    **_ratios(
        append=(1.10, 9.8 / 8.1),
        overwrite=(1.10, None),
        merge_spread=(0.80, 21.3 / 8.1),
        merge_spread_dv=(0.26, 7.6 / 8.1),
        merge_range=(0.20, 4.5 / 8.1),
        delete=(0.50, 10.1 / 8.1),
        delete_dv=(0.06, 1.32 / 8.1),
        update=(0.50, 10.2 / 8.1),
        compaction=(0.60, 19.3 / 8.1),
        z_order=(1.2, 27.1 / 8.1),
    ),
    "scan": _SCAN,
}
# With only three targets set, the others are a third of Delta-Spark's time, too.
_SMALL = _seconds(
    append=(0.87, 0.87),
    overwrite=(0.87, None),
    merge_spread=(0.9, 2.64),
    merge_spread_dv=(0.8, 3.04),
    merge_range=(0.6, 2.16),
    delete=(1.57 / 3, 1.57),
    delete_dv=(1.50 / 3, 1.50),
    update=(1.54 / 3, 1.54),
    compaction=(1.75 / 3, 1.75),
    z_order=(2.78 / 3, 2.78),
    scan=(0.27, 0.27),
)


def targets(size: Size) -> Mapping[str, Target]:
    """The targets by name of the case."""
    if size.rows <= _SMALL_ROWS:
        return _SMALL
    return _UNIQUE_STRINGS if size.data == "unique-strings" else _FLIGHTS
