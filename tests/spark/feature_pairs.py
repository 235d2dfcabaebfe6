"""Tables that cover every pair of table features: the features, the tables, and their expected rows."""

import datetime as dt
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_delta.core.schema import StructType
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct

MOST_FEATURES = 12
ROWS_OF_FILE = 3
"""Rows of each first file, partitioned or not, so that a statement on the remainder by 3 changes every file."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """What a feature adds to a table.

    Attributes:
        columns: Additional columns, in DDL.
        values: SQL for the columns that written rows contain.
        seen: Expected Python value of each compared column, given ``v`` of the row.
        metadata: Metadata of a column.
        clusters: Whether the table gets clustering columns.
    """

    properties: Mapping = field(default_factory=dict)
    constraints: Mapping = field(default_factory=dict)
    columns: tuple = ()
    values: Mapping = field(default_factory=dict)
    seen: Mapping = field(default_factory=dict)
    metadata: Mapping = field(default_factory=dict)
    clusters: bool = False


def switched_on(*names):
    return Feature(properties={f"delta.{name}": "true" for name in names})


def supported(name):
    return Feature(properties={f"delta.feature.{name}": "supported"})


MOMENT = dt.datetime.fromisoformat("2024-02-29T01:02:03.456789")
INVARIANT = '{"expression":{"expression":"kept > 0"}}'
FEATURES = {
    "appendOnly": switched_on("appendOnly"),
    "notNull": Feature(columns=("needed BIGINT NOT NULL",), values={"needed": "id"}),
    "invariants": Feature(
        columns=("kept BIGINT",),
        values={"kept": "7L"},
        seen={"kept": lambda _: 7},
        metadata={"kept": {"delta.invariants": INVARIANT}},
    ),
    "checkConstraints": Feature(constraints={"positive": "v >= 0"}),
    "changeDataFeed": switched_on("enableChangeDataFeed"),
    "generatedColumns": Feature(columns=("twice BIGINT GENERATED ALWAYS AS (v * 2)",), seen={"twice": lambda v: v * 2}),
    "mappingByName": Feature(properties={"delta.columnMapping.mode": "name"}),
    "mappingById": Feature(properties={"delta.columnMapping.mode": "id"}),
    "identityColumns": Feature(columns=("number BIGINT GENERATED ALWAYS AS IDENTITY",)),
    "allowColumnDefaults": Feature(columns=("five INT DEFAULT 5",), seen={"five": lambda _: 5}),
    "deletionVectors": switched_on("enableDeletionVectors"),
    "timestampNtz": Feature(
        columns=("at TIMESTAMP_NTZ",), values={"at": f"TIMESTAMP_NTZ'{MOMENT}'"}, seen={"at": lambda _: MOMENT}
    ),
    "v2Checkpoint": Feature(properties={"delta.checkpointPolicy": "v2"}),
    "structStatistics": Feature(
        properties={"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    ),
    "domainMetadata": supported("domainMetadata"),
    "clustering": Feature(clusters=True),
    "rowTracking": switched_on("enableRowTracking"),
    "inCommitTimestamp": switched_on("enableInCommitTimestamps"),
    "vacuumProtocolCheck": supported("vacuumProtocolCheck"),
    "typeWidening": Feature(
        properties={"delta.enableTypeWidening": "true"}, columns=("wide INT",), values={"wide": "3"}, seen={"wide": lambda _: 3}
    ),
    "charVarchar": Feature(
        columns=("letters CHAR(3)", "text VARCHAR(4)"),
        values={"letters": "'abc'", "text": "'de'"},
        seen={"letters": lambda _: "abc", "text": lambda _: "de"},
    ),
}
"""The features that Spark writes, except those in ``write/test_table_features.py`` and ``write/test_variants.py``."""

EXCLUSIVE = (frozenset({"mappingByName", "mappingById"}),)

SHAPES = tuple(itertools.product((False, True), (1, 2, 30)))
"""Whether the table is partitioned, and the number of files of its first rows."""


def fit(names, *, partitioned):
    """Whether one table can have all these features."""
    return not any(pair <= set(names) for pair in EXCLUSIVE) and not (partitioned and "clustering" in names)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table shape with some features."""

    features: tuple
    partitioned: bool
    files: int

    def __str__(self):
        layout = "partitioned" if self.partitioned else "plain"
        return f"{layout}-{self.files}-{'+'.join(self.features)}"

    @property
    def parts(self):
        return [FEATURES[name] for name in self.features]

    @property
    def is_append_only(self):
        return "appendOnly" in self.features

    def definition(self):
        """The definition of the empty table."""
        columns = ["id BIGINT", "p INT", "v BIGINT", "s STRING", *(column for part in self.parts for column in part.columns)]
        schema = parse_struct(", ".join(columns))
        metadata = {name: values for part in self.parts for name, values in part.metadata.items()}
        fields = (replace(field, metadata={**field.metadata, **metadata.get(field.name, {})}) for field in schema.fields)
        return NewTable(
            schema=StructType(tuple(fields)),
            partition_columns=("p",) if self.partitioned else (),
            clustering_columns=("id",) if any(part.clusters for part in self.parts) else (),
            properties={name: value for part in self.parts for name, value in part.properties.items()},
            constraints={name: sql for part in self.parts for name, sql in part.constraints.items()},
        )

    def query(self, numbers, v):
        """SQL for rows with this range of ids, in as many tasks as files unless the table is partitioned."""
        values = {name: sql for part in self.parts for name, sql in part.values.items()}
        more = "".join(f", {sql} AS {name}" for name, sql in values.items())
        tasks = 1 if self.partitioned else self.files
        return (
            f"SELECT id, CAST(id DIV {ROWS_OF_FILE} % {self.files} AS INT) AS p, {v} AS v, concat('s', id) AS s{more} "
            f"FROM range({numbers.start}, {numbers.stop}, {numbers.step}, {tasks})"
        )

    def row(self, number, v, p=None):
        """The row with this id as readers should return it."""
        row = {"id": number, "p": number // ROWS_OF_FILE % self.files if p is None else p, "v": v, "s": f"s{number}"}
        return row | {name: value(v) for part in self.parts for name, value in part.seen.items()}


def covering():
    """Cases that cover every pair of compatible features in each shape; deterministic.

    Cases with ``appendOnly`` are separate, as their rows are never changed.
    """
    pairs = list(itertools.combinations(FEATURES, 2))
    groups = [[pair for pair in pairs if ("appendOnly" in pair) is appends] for appends in (False, True)]
    return [
        Case(features=tuple(sorted(features)), partitioned=partitioned, files=files)
        for partitioned, files in SHAPES
        for group in groups
        for features in _covering([pair for pair in group if fit(pair, partitioned=partitioned)], partitioned=partitioned)
    ]


def _covering(missing, *, partitioned):
    """Sets of features that cover all these pairs, each greedily made as large as possible."""
    while missing:
        chosen = set(missing[0])
        while len(chosen) < MOST_FEATURES:
            candidates = (name for name in FEATURES if name not in chosen and fit([*chosen, name], partitioned=partitioned))
            gains = {name: sum(name in pair and bool(chosen & set(pair)) for pair in missing) for name in candidates}
            best = max(gains, key=gains.get, default=None)
            if best is None or not gains[best]:
                break
            chosen.add(best)
        missing = [pair for pair in missing if not set(pair) <= chosen]
        yield chosen
