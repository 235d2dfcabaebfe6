"""Hypothesis strategies for tables and statements: difficult values, files and features in every combination."""

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("x", pa.float64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("n", pa.decimal128(12, 3)),
        ("g", pa.struct({"a": pa.int64(), "b": pa.string(), "h": pa.struct({"x": pa.float64(), "d": pa.date32()})})),
        ("l", pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()}))),
        ("m", pa.map_(pa.string(), pa.float64())),
        ("k", pa.int64()),
    ]
)
"""``k`` makes rows distinct in tables with row tracking; elsewhere it is 0, so that rows repeat."""

PARTITIONS = ["a", "b c/d=%41+é:'", "__HIVE_DEFAULT_PARTITION", None]
DAYS = ["0001-01-01", "1500-02-28", "1582-10-04", "1890-01-01", "2024-02-29"]
VALUES = {
    "id": st.none() | st.integers(0, 7),
    "p": st.sampled_from(PARTITIONS),
    "x": st.sampled_from([None, 0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf"), float("-inf")]),
    "d": st.sampled_from([None, *map(dt.date.fromisoformat, DAYS)]),
    "t": st.sampled_from(
        [
            None,
            dt.datetime(1400, 1, 1, 12, 30, tzinfo=dt.UTC),
            dt.datetime(1850, 6, 1, 0, 0, 0, 123456, tzinfo=dt.UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
            dt.datetime(2024, 7, 1, 10, 0, 0, 1, tzinfo=dt.UTC),
        ]
    ),
    "s": st.sampled_from([None, "", "a'b\\c", "ä" * 40, "\U0001f600" * 20, "z" * 33, "plain"]),
    "n": st.sampled_from([None, Decimal("0.000"), Decimal("-12.345"), Decimal("99999.999")]),
    "g": st.sampled_from(
        [
            None,
            {"a": None, "b": None, "h": None},
            {"a": 1, "b": "a", "h": {"x": None, "d": None}},
            {"a": 7, "b": None, "h": {"x": float("nan"), "d": dt.date(1500, 2, 28)}},
            {"a": None, "b": "z" * 33, "h": {"x": -0.0, "d": dt.date(2024, 2, 29)}},
        ]
    ),
    "l": st.sampled_from([None, [], [None], [{"a": None, "b": None}], [{"a": 2, "b": "x"}, None, {"a": -1, "b": ""}]]),
    "m": st.sampled_from([None, [], [("a", 1.5), ("b", None)], [("", float("inf"))]]),
}
CONDITIONS = [
    "{0}id % 2 = 0",
    "{0}id > 4 OR {0}id IS NULL",
    "{0}x > 1.0",
    "{0}x = CAST('NaN' AS DOUBLE)",
    "{0}p IS NULL",
    "{0}p = 'a'",
    "{0}d < DATE '1582-10-15'",
    "{0}s >= 'z' AND {0}n < 100",
    "{0}n IS NOT NULL",
    "{0}g.a > 2",
    "{0}g.b IS NULL",
    "{0}g.h.d < DATE '2000-01-01'",
    "{0}g IS NULL",
    "{0}l IS NULL",
]
ASSIGNMENTS = [
    {"x": "{0}x + 1"},
    {"p": "'a'"},
    {"p": "NULL", "s": "{0}s || '!'"},
    {"d": "DATE '1300-05-06'", "n": "{0}n * 2"},
    {"id": "{0}id + 100"},
    {"g.a": "{0}g.a + 1"},
    {"g.h.x": "{0}x", "s": "{0}g.b"},
    {"g": "NULL", "l": "NULL"},
]
FROM_SOURCE = [
    {"x": "source.x"},
    {"p": "source.p", "s": "source.s"},
    {"t": "source.t", "n": "source.n", "d": "source.d"},
    {"g": "source.g", "l": "source.l", "m": "source.m"},
    {"g.h": "source.g.h", "g.b": "source.s"},
]
MATCHES = [
    "target.id = source.id",
    "target.id = source.id AND target.p = source.p",
    "target.id = source.id AND target.g.a = source.g.a",
    "target.id = source.id AND target.s <=> source.s",
]


@dataclass(frozen=True, kw_only=True)
class TableKind:
    """How a table is made, and which features it has.

    Attributes:
        maker: ``spark`` (our write), ``deltalake``, or ``int96``: Parquet files of plain Spark, converted.
    """

    maker: str
    partitioned: bool
    mapping: str
    deletion_vectors: bool
    tracking: bool
    feed: bool

    @property
    def properties(self):
        wanted = {
            "delta.columnMapping.mode": self.mapping if self.mapping != "none" else None,
            "delta.enableDeletionVectors": "true" if self.deletion_vectors else None,
            "delta.enableRowTracking": "true" if self.tracking else None,
            "delta.enableChangeDataFeed": "true" if self.feed else None,
        }
        return {key: value for key, value in wanted.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One statement.

    Attributes:
        name: A mode of a write, ``delete``, ``update``, ``merge`` or ``optimize``.
        rows: What is written, or the source of a merge.
    """

    name: str
    rows: list = field(default_factory=list)
    where: str | None = None
    assignments: dict = field(default_factory=dict)
    on: str | None = None
    clauses: tuple = ()
    z_order: bool = False


def conditions(side=""):
    return st.sampled_from([condition.format(side) for condition in CONDITIONS])


def assignments(side=""):
    return st.sampled_from([{name: value.format(side) for name, value in assignments.items()} for assignments in ASSIGNMENTS])


def rows(min_size=0, max_size=8):
    return st.lists(st.fixed_dictionaries(VALUES), min_size=min_size, max_size=max_size)


kinds = st.builds(
    TableKind,
    maker=st.sampled_from(["spark", "deltalake", "int96"]),
    partitioned=st.booleans(),
    mapping=st.sampled_from(["none", "name", "id"]),
    deletion_vectors=st.booleans(),
    tracking=st.booleans(),
    feed=st.booleans(),
).filter(lambda kind: kind.mapping != "id" or kind.maker == "spark")  # an existing table cannot be mapped by id


@st.composite
def clauses(draw):
    """Clauses of a merge; a clause without a condition is the last of its kind."""
    found = []
    chosen = draw(st.lists(st.sampled_from(["update", "delete", "insert", "old update", "old delete"]), min_size=1, max_size=4))
    closed = set()
    for name in chosen:
        kind = {"update": "matched", "delete": "matched", "insert": "insert"}.get(name, "old")
        if kind in closed:
            continue
        side = "source." if name == "insert" else "target."
        condition = draw(st.none() | conditions(side))
        if condition is None:
            closed.add(kind)
        match name:
            case "update":
                values = draw(st.none() | assignments("target.") | st.sampled_from(FROM_SOURCE))
                found.append(MatchedUpdate(condition=condition, assignments=values))
            case "delete":
                found.append(MatchedDelete(condition=condition))
            case "insert":
                values = draw(st.none() | st.just({"id": "source.id", "p": "source.p", "x": "source.x * 2", "k": "source.k"}))
                found.append(NotMatchedInsert(condition=condition, assignments=values))
            case "old update":
                found.append(NotMatchedBySourceUpdate(condition=condition, assignments=draw(assignments("target."))))
            case "old delete":
                found.append(NotMatchedBySourceDelete(condition=condition))
    return tuple(found)


def with_unique_keys(found):
    return list({row["id"]: row for row in found}.values())


writes = st.builds(Step, name=st.sampled_from(["append", "overwrite", "dynamic_overwrite"]), rows=rows()) | st.builds(
    Step, name=st.just("replace_where"), rows=rows(), where=conditions()
)
changes = st.builds(Step, name=st.just("delete"), where=st.none() | conditions()) | st.builds(
    Step, name=st.just("update"), where=st.none() | conditions(), assignments=assignments()
)
merges = st.builds(
    Step, name=st.just("merge"), rows=rows().map(with_unique_keys), on=st.sampled_from(MATCHES), clauses=clauses()
)
rearrangements = st.builds(Step, name=st.just("optimize"), z_order=st.booleans())
