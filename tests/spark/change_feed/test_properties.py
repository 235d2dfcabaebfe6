"""Whatever statements run on whatever table: the feed is the difference of the versions, and rows that stay keep their ids."""

import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_delta.core.statements import (
    UPSERT,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    OptimizeStatement,
)
from airflow_delta.spark.optimize.optimize import optimize

conditions = st.sampled_from(["id % 3 = 0", "v < 6", "id IN (2, 11)", "p = 'p1'", "p = 'p0' AND id > 8", "TRUE"])
assignments = st.sampled_from([{"v": "v + 1000"}, {"p": "CONCAT(p, 'x')"}, {"v": "v - 1000", "p": "'p1'"}])
updates = st.tuples(st.just("update"), conditions, assignments)
deletes = st.tuples(st.just("delete"), conditions)
clauses = st.sampled_from(
    [
        UPSERT,
        (MatchedDelete(condition="source.id % 2 = 0"), *UPSERT),
        (MatchedDelete(condition="target.v < 5"), NotMatchedInsert()),
        (MatchedUpdate(assignments={"v": "target.v + source.v"}, condition="source.id > 3"), MatchedDelete()),
        (NotMatchedBySourceDelete(condition="target.v > 9"), *UPSERT),
        (NotMatchedInsert(), NotMatchedBySourceUpdate(assignments={"v": "target.v + 1", "p": "'p2'"})),
    ]
)
merges = st.tuples(st.just("merge"), st.sets(st.integers(0, 20), min_size=1, max_size=8), clauses)
tables = st.fixed_dictionaries(
    {"deletion_vectors": st.booleans(), "partitioned": st.booleans(), "mapping": st.sampled_from(["none", "name", "id"])}
)


def ids(table):
    """For each row its id and the version that last changed it."""
    rows = table.log.refresh().to_arrow(with_row_ids=True).read_all().to_pylist()
    return {row["id"]: (row["__row_id"], row["__row_commit_version"]) for row in rows}


def run(table, statement):
    kind, *rest = statement
    if kind == "delete":
        return table.delete(*rest)
    if kind == "update":
        return table.update(rest[0], **rest[1])
    keys, given_clauses = rest
    values = 100_000 * table.log.refresh().version  # new ones each time: an update that leaves a row as it is is recorded, too
    source = " UNION ALL ".join(f"SELECT {key}L AS id, 'p{key % 3}' AS p, {values + key}L AS v" for key in sorted(keys))
    return table.merge(source, given_clauses)


def check_ids(table, before, known):
    """Rows keep their ids; those that changed have the new version, and new rows have new ids."""
    rows, found = table.rows(), ids(table)
    version = table.log.refresh().version
    assert len({row_id for row_id, _ in found.values()}) == len(found)
    for key, (row_id, changed_in) in found.items():
        if key not in before:
            assert (row_id > max(known.values(), default=(-1, 0))[0], changed_in) == (True, version)
        elif rows[key] == before[key]:
            assert (row_id, changed_in) == known[key]
        else:
            assert (row_id, changed_in) == (known[key][0], version)


def check(recorded, uri, *, options, statements):
    shutil.rmtree(uri, ignore_errors=True)
    properties = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": options["mapping"]}
    if options["deletion_vectors"]:
        properties["delta.enableDeletionVectors"] = "true"
    table = recorded(properties, partitioned=options["partitioned"], uri=uri)
    for first in (0, 8):
        table.insert(f"SELECT id, CONCAT('p', id % 2) AS p, id AS v FROM range({first}, {first + 8}, 1, 1)")
    for statement in statements:
        before, known = table.rows(), ids(table)
        result = run(table, statement)
        if result.committed:
            table.check(table.by_spark)
            check_ids(table, before, known)
    known = ids(table)
    optimize(table.spark, table.log, OptimizeStatement(table=uri))
    assert ids(table) == known


@given(options=tables, statements=st.lists(st.one_of(updates, deletes, merges), min_size=1, max_size=2))
@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_feed_is_the_difference_and_rows_keep_their_ids(recorded, table, options, statements):
    check(recorded, table, options=options, statements=statements)


@pytest.mark.slow
@given(options=tables, statements=st.lists(st.one_of(updates, deletes, merges), min_size=1, max_size=4))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_feeds_of_many_statements_are_the_difference_and_rows_keep_their_ids(recorded, table, options, statements):
    check(recorded, table, options=options, statements=statements)
