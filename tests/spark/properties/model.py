"""The expected rows of a table after statements, computed by duckdb from the same input."""

from collections import Counter

import pyarrow as pa

from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from tests.spark.properties.generated import SCHEMA

_WHEN = {
    MatchedUpdate: "MATCHED",
    MatchedDelete: "MATCHED",
    NotMatchedInsert: "NOT MATCHED BY TARGET",
    NotMatchedBySourceUpdate: "NOT MATCHED BY SOURCE",
    NotMatchedBySourceDelete: "NOT MATCHED BY SOURCE",
}


def counted(table):
    """The rows as a multiset; NaN equals itself, and 0.0 differs from -0.0."""
    table = table.select(SCHEMA.names).cast(SCHEMA)
    return Counter(tuple(map(repr, row.values())) for row in table.to_pylist())


class Model:
    """A duckdb table beside the Delta table."""

    def __init__(self, connection, *, partitioned):
        self._connection = connection
        self._partitioned = partitioned
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", SCHEMA.empty_table())
        connection.execute("CREATE OR REPLACE TABLE target AS SELECT * FROM given")

    def rows(self):
        """The rows, as returned by ``counted``."""
        return counted(self._connection.table("target").to_arrow_table())

    def run(self, step, given):
        """Run a statement whose rows (or source) are an Arrow table."""
        self._connection.register("given", given)
        self._connection.execute("CREATE OR REPLACE TABLE source AS SELECT * FROM given")
        for statement in self._statements(step):
            self._connection.execute(statement)

    def _statements(self, step):
        where = "" if step.where is None else f" WHERE ({step.where})"
        match step.name:
            case "append":
                yield "INSERT INTO target FROM source"
            case "overwrite":
                yield "DELETE FROM target"
                yield "INSERT INTO target FROM source"
            case "dynamic_overwrite":
                touched = " WHERE EXISTS (FROM source WHERE source.p IS NOT DISTINCT FROM target.p)"
                yield f"DELETE FROM target{touched if self._partitioned else ''}"
                yield "INSERT INTO target FROM source"
            case "replace_where":
                yield f"DELETE FROM target{where}"
                yield f"INSERT INTO target FROM source{where}"
            case "delete":
                yield f"DELETE FROM target{where}"
            case "update":
                yield f"UPDATE target SET {_assigned(step.assignments)}{where}"
            case "merge":
                on = step.on.replace("<=>", "IS NOT DISTINCT FROM")
                yield f"MERGE INTO target USING source ON {on} " + " ".join(map(_clause, step.clauses))


def _clause(clause):
    condition = "" if clause.condition is None else f" AND ({clause.condition})"
    when = f"WHEN {_WHEN[type(clause)]}{condition} THEN"
    if isinstance(clause, MatchedDelete | NotMatchedBySourceDelete):
        return f"{when} DELETE"
    values = clause.assignments or {name: f"source.{name}" for name in SCHEMA.names}
    if isinstance(clause, NotMatchedInsert):
        return f"{when} INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    return f"{when} UPDATE SET {_assigned(values)}"


def _assigned(values):
    """Assignments in the form that duckdb accepts: to whole columns."""
    columns, members = {}, {}
    for name, value in values.items():
        column, *path = name.split(".")
        if path:
            members.setdefault(column, {})[tuple(path)] = value
        else:
            columns[column] = value
    columns |= {column: _struct(SCHEMA.field(column).type, f"target.{column}", given) for column, given in members.items()}
    return ", ".join(f"{name} = {value}" for name, value in columns.items())


def _struct(kind, place, given, path=()):
    """The struct at a path with members replaced; a NULL struct first becomes a struct of NULLs."""
    values = {}
    for member in kind:
        inner, here = (*path, member.name), f"{place}.{member.name}"
        is_above = any(other[: len(inner)] == inner != other for other in given)
        values[member.name] = _struct(member.type, here, given, inner) if is_above else given.get(inner, here)
    return "{" + ", ".join(f"'{name}': {value}" for name, value in values.items()) + "}"


def as_arrow(rows, keys):
    """Generated rows with their ``k``."""
    return pa.Table.from_pylist([{**row, "k": next(keys)} for row in rows], schema=SCHEMA)
