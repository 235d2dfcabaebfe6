"""Which rows share a file: the leaves of a k-d tree over the clustering columns, built from a sample. Uses only numpy.

A query for a value of one column reads every file whose range in that column includes the value, so the ranges of all files
should be equally narrow in all columns. A space-filling curve achieves that by interleaving bits: it halves columns, some of
them once more often than others. A k-d tree may also cut into three parts. With 120 files and four uniform columns, its leaves
let an equality skip 69 % of files (67 % for the worst column), a Z-order curve 57 % (45 %); the limit is 1 - 120 ** -0.25 = 70
%.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.integer]
"""The values of one column as integers from 0 in the same order."""

_MAX_WAYS = 8
_SMALLEST_FILE, _LARGEST_FILE = 0.6, 1.5
"""Smallest and largest number of rows in a file, as a fraction of the average: frequent values make files uneven."""
_TINY_FILE = 0.1
"""The smallest fraction if no cut leaves larger files: a small file is better than unclustered rows."""

_COARSE_FIRST = 0.1
"""Among cuts of similar cost, one between frequent values comes first: later it may no longer fit a file's size."""

_STEPS = 30  # of a bisection; far more exact than needed
_FREQUENCY_SAMPLE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A node that is not cut further.

    Attributes:
        first_bucket: Its first bucket.
        buckets: Number of buckets over which its rows are distributed in turn, if they are equal in all columns; mostly 1.
    """

    first_bucket: int
    buckets: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A node that is cut along one column.

    Attributes:
        column: Index of the column.
        begins: The code at which each part except the first begins, ascending.
        parts: The child nodes.
    """

    column: int
    begins: Codes
    parts: tuple[Node, ...]


Node = Leaf | Cut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTree:
    """A k-d tree whose leaves are numbered buckets of rows.

    Attributes:
        root: The node of all rows.
        buckets: Number of buckets.
    """

    root: Node
    buckets: int

    def buckets_of(self, codes: Sequence[Codes], rows: int) -> npt.NDArray[np.int32]:
        """The number of each row's bucket.

        Args:
            codes: One array for each column.
            rows: Length of the arrays.
        """
        buckets = np.zeros(rows, np.int32)
        _assign_buckets(self.root, codes, np.arange(rows), buckets)
        return buckets

    def begins(self, column: int) -> Codes:
        """The codes at which a column is cut anywhere in the tree, ascending."""
        found = [cut.begins for cut in _cuts(self.root) if cut.column == column]
        return np.unique(np.concatenate(found)) if found else np.array([], np.int64)

    def with_codes(self, begins: Sequence[Codes]) -> PartitionTree:
        """The same tree for other codes: a value's code is how many of its column's ``begins`` are not greater."""
        return PartitionTree(root=_recoded(self.root, begins), buckets=self.buckets)


SINGLE_LEAF = PartitionTree(root=Leaf(0), buckets=1)


def build_partition_tree(codes: Sequence[Codes], files: int, buckets_per_file: int = 1) -> PartitionTree:
    """Cut the sample into about as many leaves as there should be files, with about the same number of rows each.

    Args:
        codes: The sample: one array for each column, dense from 0.
        files: Number of files; there may be a few more or less if frequent values cannot be cut.
        buckets_per_file: Number of consecutive buckets into which the rows of a file are cut further.
    """
    rows = len(codes[0])
    if files * buckets_per_file == 1 or not rows:
        return SINGLE_LEAF
    builder = _TreeBuilder(codes=codes, shares=tuple(np.bincount(column) / rows for column in codes))
    root = builder.build(np.arange(rows), files, rows / files, buckets_per_file)
    return PartitionTree(root=root, buckets=builder.buckets)


class _TreeBuilder:
    """Builds the tree, numbering buckets in order."""

    def __init__(self, *, codes: Sequence[Codes], shares: Sequence[npt.NDArray[np.float64]]) -> None:
        self.buckets = 0
        self._codes = codes
        self._shares = shares  # share of each code in all rows
        self._below = [np.concatenate([[0.0], np.cumsum(column)]) for column in shares]

    def build(self, rows: npt.NDArray[np.intp], leaves: int, rows_per_leaf: float, buckets_per_leaf: int) -> Node:
        """The node of these sampled rows, cut into ``leaves``, and each leaf into ``buckets_per_leaf``."""
        if leaves == 1:
            if buckets_per_leaf > 1 and len(rows) > buckets_per_leaf:
                return self.build(rows, buckets_per_leaf, len(rows) / buckets_per_leaf, 1)
            self.buckets += buckets_per_leaf
            return Leaf(self.buckets - buckets_per_leaf)
        best = self._best_cut(rows, leaves, rows_per_leaf, _SMALLEST_FILE * rows_per_leaf) or self._best_cut(
            rows, leaves, rows_per_leaf, max(1, _TINY_FILE * rows_per_leaf)
        )
        if best is None:
            self.buckets += leaves * buckets_per_leaf
            return Leaf(self.buckets - leaves * buckets_per_leaf, leaves * buckets_per_leaf)
        parts = np.searchsorted(best.begins, self._codes[best.column][rows], side="right")
        smaller = [
            self.build(rows[parts == part], count, rows_per_leaf, buckets_per_leaf)
            for part, count in enumerate(best.leaves.tolist())
        ]
        return Cut(best.column, best.begins, tuple(smaller))

    def _best_cut(self, rows: npt.NDArray[np.intp], leaves: int, rows_per_leaf: float, least_rows: float) -> _Candidate | None:
        """The cut with the narrowest expected leaves; None if every cut leaves a part below the least size."""
        values = [np.sort(column_codes[rows]) for column_codes in self._codes]
        widths = np.array(
            [self._width(column, column_values[0], column_values[-1]) for column, column_values in enumerate(values)]
        )
        floors = np.minimum(widths, [self._frequency(column, column_values) for column, column_values in enumerate(values)])
        best = None
        for column, ordered in enumerate(values):
            for ways in range(2, min(_MAX_WAYS, leaves) + 1) if ordered[0] < ordered[-1] else ():
                candidate = _candidate(column, ordered, ways, leaves, rows_per_leaf=rows_per_leaf, least_rows=least_rows)
                if candidate is None:
                    continue
                cost = self._cost(candidate, ordered, widths, floors) * (1 - _COARSE_FIRST * floors[column] / widths[column])
                if best is None or cost < best[0] * (1 - 1e-9):
                    best = cost, candidate
        return None if best is None else best[1]

    def _cost(self, cut: _Candidate, ordered: Codes, widths: npt.NDArray[np.float64], floors: npt.NDArray[np.float64]) -> float:
        """The sum of all widths of all leaves into which the parts can be cut, assuming independent columns."""
        parts = len(cut.leaves)
        all_widths, all_floors = (np.tile(array, (parts, 1)) for array in (widths, floors))
        for part in range(parts):
            piece = ordered[cut.bounds[part] : cut.bounds[part + 1]]
            all_widths[part, cut.column] = self._width(cut.column, piece[0], piece[-1])
            all_floors[part, cut.column] = min(all_widths[part, cut.column], self._frequency(cut.column, piece))
        return float(np.sum(cut.leaves * _narrowest(all_widths, all_floors, cut.leaves)))

    def _width(self, column: int, low: int, high: int) -> float:
        """The share of all rows with a value in the range, which is that of lookups that read a file with this range."""
        return float(self._below[column][high + 1] - self._below[column][low])

    def _frequency(self, column: int, ordered: Codes) -> float:
        """The average share of all rows that have a row's value: no leaf of one value can be narrower."""
        return float(self._shares[column][ordered[:: max(1, len(ordered) // _FREQUENCY_SAMPLE)]].mean())


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A possible cut.

    Attributes:
        bounds: Positions in the sorted rows where each part begins, and where the last one ends.
        leaves: Number of leaves for each part.
    """

    column: int
    begins: Codes
    bounds: npt.NDArray[np.intp]
    leaves: npt.NDArray[np.int64]


def _candidate(
    column: int, ordered: Codes, ways: int, leaves: int, *, rows_per_leaf: float, least_rows: float
) -> _Candidate | None:
    """A cut of a column between distinct values, close to equal parts; None if no cut leaves parts that are large enough."""
    wanted = np.full(ways, leaves // ways)
    wanted[: leaves % ways] += 1
    places = np.cumsum(wanted)[:-1] * len(ordered) / leaves
    at = ordered[np.minimum(places.astype(np.intp), len(ordered) - 1)]
    left, right = np.searchsorted(ordered, at), np.searchsorted(ordered, at, side="right")
    ends = np.where(places - left < right - places, left, right)
    bounds = [0]
    for end in np.unique(ends).tolist():
        if min(end - bounds[-1], len(ordered) - end) >= least_rows:
            bounds.append(end)
    if len(bounds) == 1:
        return None
    sizes = np.diff([*bounds, len(ordered)])
    return _Candidate(
        column, ordered[bounds[1:]], np.array([*bounds, len(ordered)]), _apportioned(sizes, leaves, rows_per_leaf)
    )


def _apportioned(sizes: npt.NDArray[np.intp], leaves: int, rows_per_leaf: float) -> npt.NDArray[np.int64]:
    """The leaves apportioned to parts of these sizes: by largest remainder, within the limits of a file's size."""
    ideal = sizes * (leaves / sizes.sum())
    counts = np.floor(ideal).astype(np.int64)
    rest = leaves - int(counts.sum())
    counts[np.argsort(counts - ideal, kind="stable")[:rest]] += 1
    most = np.maximum(1, np.floor(sizes / (_SMALLEST_FILE * rows_per_leaf))).astype(np.int64)
    least = np.maximum(1, np.ceil(sizes / (_LARGEST_FILE * rows_per_leaf))).astype(np.int64)
    return np.minimum(np.maximum(counts, least), np.maximum(least, most))


def _narrowest(
    widths: npt.NDArray[np.float64], floors: npt.NDArray[np.float64], leaves: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """For each row of ``widths``, the least sum of widths of a leaf if it is cut into ``leaves``, no width below its floor.

    The least sum has the same width for all columns, except those that are already narrower or cannot become as narrow.
    """
    high_logs, low_logs = np.log(widths), np.log(floors)
    wanted = np.log(leaves)
    low, high = low_logs.min(axis=1), high_logs.max(axis=1)
    for _ in range(_STEPS):
        level = (low + high) / 2
        cut = np.sum(high_logs - np.clip(level[:, None], low_logs, high_logs), axis=1)
        low, high = np.where(cut > wanted, level, low), np.where(cut > wanted, high, level)
    return np.exp(np.clip(high[:, None], low_logs, high_logs)).sum(axis=1)


def _assign_buckets(node: Node, codes: Sequence[Codes], rows: npt.NDArray[np.intp], buckets: npt.NDArray[np.int32]) -> None:
    """Set the buckets of these rows."""
    match node:
        case Leaf(first_bucket, count):
            buckets[rows] = first_bucket if count == 1 else first_bucket + rows % count
        case Cut(column, begins, parts):
            values = codes[column][rows]
            part_of = np.zeros(len(rows), np.uint8)
            for begin in begins:
                part_of += values >= begin
            order = np.argsort(part_of, kind="stable")  # of bytes, so it takes linear time
            bounds = np.searchsorted(part_of[order], np.arange(len(parts) + 1))
            for part, (first, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
                if first < end:
                    _assign_buckets(parts[part], codes, rows[order[first:end]], buckets)


def _cuts(node: Node) -> Iterator[Cut]:
    if isinstance(node, Cut):
        yield node
        for part in node.parts:
            yield from _cuts(part)


def _recoded(node: Node, begins: Sequence[Codes]) -> Node:
    if isinstance(node, Leaf):
        return node
    coded = np.searchsorted(begins[node.column], node.begins) + 1
    return Cut(node.column, coded, tuple(_recoded(part, begins) for part in node.parts))
