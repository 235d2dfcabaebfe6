"""Random tables and writes: what a table holds afterwards is what the mode says of its rows, one by one."""

import shutil
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError

RANGES = {
    "v > 2": lambda row: row["v"] is not None and row["v"] > 2,
    "v IS NULL": lambda row: row["v"] is None,
    "p = 'a'": lambda row: row["p"] == "a",
    "p <=> NULL": lambda row: row["p"] is None,
    "p = 'b' AND v % 2 = 0": lambda row: row["p"] == "b" and row["v"] is not None and row["v"] % 2 == 0,
}

ROW = st.fixed_dictionaries(
    {"id": st.integers(0, 99), "v": st.none() | st.integers(0, 5), "p": st.sampled_from(["a", "b", None])}
)
WRITE = st.one_of(
    st.tuples(st.sampled_from(["append", "overwrite", "dynamic_overwrite"]), st.none()),
    st.tuples(st.just("replace_where"), st.sampled_from(sorted(RANGES))),
)
CASES = {
    "first": st.lists(ROW, min_size=1, max_size=12),
    "writes": st.lists(st.tuples(WRITE, st.lists(ROW, max_size=5)), min_size=1, max_size=2),
    "partitioned": st.booleans(),
    "mapping": st.sampled_from(["none", "name", "id"]),
    "deletion_vectors": st.booleans(),
    "feed": st.booleans(),
}
RUN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate], deadline=None)


def literal(value):
    return "NULL" if value is None else repr(value)


def query(rows):
    """The rows as SQL, in one task."""
    values = ", ".join(f"({row['id']}, {literal(row['v'])}, {literal(row['p'])})" for row in rows) or "(0, 0, 'a')"
    typed = "CAST(id AS BIGINT) AS id, CAST(v AS BIGINT) AS v, CAST(p AS STRING) AS p"
    return f"SELECT /*+ COALESCE(1) */ {typed} FROM VALUES {values} AS t(id, v, p)" + ("" if rows else " WHERE false")


def counted(rows):
    return Counter((row["id"], row["v"], row["p"]) for row in rows)


def after(held, new, mode, where, *, partitioned):
    """The rows of the table after a write."""
    partitions = {row["p"] for row in new}
    stays = {
        "append": lambda _row: True,
        "overwrite": lambda _row: False,
        "dynamic_overwrite": lambda row: partitioned and row["p"] not in partitions,
        "replace_where": lambda row: not RANGES[where](row),
    }[mode]
    return [row for row in held if stays(row)] + new


def check(write_rows, table, seen, *, first, writes, partitioned, mapping, deletion_vectors, feed):
    shutil.rmtree(table, ignore_errors=True)
    properties = {"delta.columnMapping.mode": mapping, "delta.enableChangeDataFeed": str(feed).lower()}
    if deletion_vectors:
        properties["delta.enableDeletionVectors"] = "true"
    write_rows(query(first), partition_by=["p"] if partitioned else (), properties=properties)
    held = first
    for (mode, where), new in writes:
        arguments = {"mode": mode, "replace_where": where}
        if where is not None and not all(map(RANGES[where], new)):
            with pytest.raises(ConstraintViolatedError) as caught:
                write_rows(query(new), **arguments)
            assert caught.value.rows == sum(not RANGES[where](row) for row in new)
            new = list(filter(RANGES[where], new))  # noqa: PLW2901 - those that are right
        result = write_rows(query(new), **arguments)
        expected = after(held, new, mode, where, partitioned=partitioned)
        log = DeltaLog.for_table(table)
        assert counted(log.snapshot().to_arrow().read_all().to_pylist()) == counted(expected)
        if mapping == "none":  # duckdb gives NULL for partition columns that are mapped
            assert Counter(seen("id, v, p")) == counted(expected)
        if feed:
            changes = log.changes(result.version, result.version).read_all().to_pylist()
            come = counted(row for row in changes if row["_change_type"] == "insert")
            gone = counted(row for row in changes if row["_change_type"] == "delete")
            assert counted(held) + come - gone == counted(expected)
            assert len(changes) == come.total() + gone.total()
        held = expected


@given(**CASES)
@settings(RUN, max_examples=6)
def test_a_table_holds_what_the_modes_of_its_writes_say(write_rows, table, seen, **case):
    check(write_rows, table, seen, **case)


@pytest.mark.slow
@given(**CASES)
@settings(RUN, max_examples=80)
def test_tables_hold_what_the_modes_of_their_writes_say(write_rows, table, seen, **case):
    check(write_rows, table, seen, **case)
