"""Which rows share a file: the leaves of a k-d tree over the clustering columns, built from a sample. Pure numpy.

A query that names a value of one column reads every file whose range of that column holds it, so the ranges of all files, in
all columns, should be narrow alike. A space-filling curve gets there by interleaving bits: it halves columns, some of them once
more than others. A k-d tree may also cut into three. Of 120 files over four uniform columns its leaves let an equality skip
69 % (in the worst column 67 %), a Z-order curve 57 % (45 %), and the limit is 1 - 120 ** -0.25 = 70 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.integer]
"""The values of one column as numbers from 0 that are ordered like them."""

_MAX_WAYS = 8
_SMALLEST_FILE, _LARGEST_FILE = 0.6, 1.5
"""Rows of a file, as a share of what they would be if all were equal: values that are frequent make files uneven."""
_TINY_FILE = 0.1
"""The same where no cut leaves larger ones: better a small file than rows in no order."""

_COARSE_FIRST = 0.1
"""Of cuts that do about the same, the one between frequent values comes first: later it may not fit into a file's size."""

_STEPS = 30  # of a bisection: far more exact than what it decides needs
_FREQUENCY_SAMPLE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A node that is not cut further.

    Attributes:
        first_bucket: Its first bucket.
        buckets: How many buckets take its rows in turn, which are alike in all columns then; mostly one.
    """

    first_bucket: int
    buckets: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A node that is cut along one column.

    Attributes:
        column: Ordinal of the column.
        begins: The code at which each part but the first begins, ascending.
        parts: The nodes below.
    """

    column: int
    begins: Codes
    parts: tuple[Node, ...]


Node = Leaf | Cut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTree:
    """A k-d tree whose leaves are numbered buckets of rows.

    Attributes:
        root: The node that holds all rows.
        buckets: How many buckets there are.
    """

    root: Node
    buckets: int

    def buckets_of(self, codes: Sequence[Codes], rows: int) -> npt.NDArray[np.int32]:
        """The number of each row's bucket.

        Args:
            codes: One array for each column.
            rows: Their length.
        """
        buckets = np.zeros(rows, np.int32)
        _assign_buckets(self.root, codes, np.arange(rows), buckets)
        return buckets

    def begins(self, column: int) -> Codes:
        """The codes at which a column is cut anywhere, ascending."""
        found = [cut.begins for cut in _cuts(self.root) if cut.column == column]
        return np.unique(np.concatenate(found)) if found else np.array([], np.int64)

    def with_codes(self, begins: Sequence[Codes]) -> PartitionTree:
        """The same tree where the code of a value is how many of its column's ``begins`` are not above it."""
        return PartitionTree(root=_recoded(self.root, begins), buckets=self.buckets)


SINGLE_LEAF = PartitionTree(root=Leaf(0), buckets=1)


def build_partition_tree(codes: Sequence[Codes], files: int, buckets_per_file: int = 1) -> PartitionTree:
    """Cut the sample into about as many leaves as files are wanted, of about as many rows each.

    Args:
        codes: The sample: one array for each column, dense from 0.
        files: How many; it becomes a few more or less where frequent values cannot be cut.
        buckets_per_file: Into how many buckets, numbered one after the other, the rows of a file are cut again.
    """
    rows = len(codes[0])
    if files * buckets_per_file == 1 or not rows:
        return SINGLE_LEAF
    builder = _TreeBuilder(codes=codes, shares=tuple(np.bincount(column) / rows for column in codes))
    root = builder.build(np.arange(rows), files, rows / files, buckets_per_file)
    return PartitionTree(root=root, buckets=builder.buckets)


class _TreeBuilder:
    """Numbers the buckets as it goes."""

    def __init__(self, *, codes: Sequence[Codes], shares: Sequence[npt.NDArray[np.float64]]) -> None:
        self.buckets = 0
        self._codes = codes
        self._shares = shares  # of each code in all rows
        self._below = [np.concatenate([[0.0], np.cumsum(column)]) for column in shares]

    def build(self, rows: npt.NDArray[np.intp], leaves: int, rows_per_leaf: float, buckets_per_leaf: int) -> Node:
        """The node of these rows of the sample, cut into ``leaves``, and each of these into ``buckets_per_leaf``."""
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
        """The cut after which the leaves are expected to be narrowest; None where no cut leaves parts of the least size."""
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
        """The sum of all widths of all leaves that the parts can be cut into, if columns were independent."""
        parts = len(cut.leaves)
        all_widths, all_floors = (np.tile(array, (parts, 1)) for array in (widths, floors))
        for part in range(parts):
            piece = ordered[cut.bounds[part] : cut.bounds[part + 1]]
            all_widths[part, cut.column] = self._width(cut.column, piece[0], piece[-1])
            all_floors[part, cut.column] = min(all_widths[part, cut.column], self._frequency(cut.column, piece))
        return float(np.sum(cut.leaves * _narrowest(all_widths, all_floors, cut.leaves)))

    def _width(self, column: int, low: int, high: int) -> float:
        """The share of all rows whose value lies in the range: so many queries for a row's value read a file that has it."""
        return float(self._below[column][high + 1] - self._below[column][low])

    def _frequency(self, column: int, ordered: Codes) -> float:
        """The share in all rows of the value of a row, on average: no leaf of one value can be narrower."""
        return float(self._shares[column][ordered[:: max(1, len(ordered) // _FREQUENCY_SAMPLE)]].mean())


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A cut that may be made.

    Attributes:
        bounds: Positions in the ordered rows where the parts begin and where the last one ends.
        leaves: How many leaves each part is to become.
    """

    column: int
    begins: Codes
    bounds: npt.NDArray[np.intp]
    leaves: npt.NDArray[np.int64]


def _candidate(
    column: int, ordered: Codes, ways: int, leaves: int, *, rows_per_leaf: float, least_rows: float
) -> _Candidate | None:
    """A column cut between distinct values, near where parts are of equal rows; None where none would be large enough."""
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
    """For each row of ``widths``: the least sum of widths of a leaf when it is cut into so many, no width below its floor.

    The least sum has one width for all columns, but for those that are narrower already or cannot become as narrow.
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
    """Write the buckets of these rows."""
    match node:
        case Leaf(first_bucket, count):
            buckets[rows] = first_bucket if count == 1 else first_bucket + rows % count
        case Cut(column, begins, parts):
            values = codes[column][rows]
            part_of = np.zeros(len(rows), np.uint8)
            for begin in begins:
                part_of += values >= begin
            order = np.argsort(part_of, kind="stable")  # of bytes: linear
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
