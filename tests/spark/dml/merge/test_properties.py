"""Random tables, sources and clauses: a merge gives what a computation row by row gives."""

import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_delta.core.errors import MultipleSourceRowsMatchedError
from airflow_delta.core.statements import (
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
WIDER = SCHEMA.append(pa.field("extra", pa.int64()))

# Conditions and assignments as SQL, and as functions of the two rows.
ON_ID = ("target.id = source.id", lambda t, s: t["id"] == s["id"])
ON_BOTH = (
    "target.p = source.p AND target.id = source.id",
    lambda t, s: t["id"] == s["id"] and t["p"] == s["p"] is not None,
)
ON_SUM = ("target.id = source.id + 1 AND target.v IS NOT NULL", lambda t, s: t["id"] == s["id"] + 1 and t["v"] is not None)
MATCHED_CONDITIONS = [
    (None, lambda _t, _s: True),
    ("source.v > 2", lambda _t, s: s["v"] is not None and s["v"] > 2),
    ("target.v IS NULL", lambda t, _s: t["v"] is None),
    ("target.p <> source.p", lambda t, s: None not in (t["p"], s["p"]) and t["p"] != s["p"]),
]
SOURCE_CONDITIONS = [(None, lambda _s: True), ("source.v < 4", lambda s: s["v"] is not None and s["v"] < 4)]
ASSIGNMENTS = [
    (None, lambda _t, s: dict(s)),
    ({"v": "coalesce(target.v, 0) + 10"}, lambda t, _s: t | {"v": (t["v"] or 0) + 10}),
    ({"p": "source.p"}, lambda t, s: t | {"p": s["p"]}),
    ({"v": "source.v", "id": "-target.id"}, lambda t, s: t | {"v": s["v"], "id": -t["id"]}),
]
TARGET_CONDITIONS = [
    (None, lambda _t: True),
    ("target.id > 3", lambda t: t["id"] is not None and t["id"] > 3),
    ("v IS NULL OR p = 'a'", lambda t: t["v"] is None or t["p"] == "a"),
    ("coalesce(target.v, 0) % 2 = 0", lambda t: (t["v"] or 0) % 2 == 0),
]
TARGET_ASSIGNMENTS = [
    ({"v": "coalesce(v, 0) - 10"}, lambda t: t | {"v": (t["v"] or 0) - 10}),
    ({"p": "'b'", "v": "target.id"}, lambda t: t | {"p": "b", "v": t["id"]}),
]
INSERTS = [
    (None, dict),
    ({"id": "source.id", "v": "source.v * 2"}, lambda s: {"id": s["id"], "p": None, "v": s["v"] and s["v"] * 2}),
]
KINDS = ["update", "delete", "insert", "update_alone", "delete_alone"]
NOT_MATCHED_BY_SOURCE = {"update_alone", "delete_alone"}


def rows(keys):
    row = {"id": keys, "p": st.sampled_from(["a", "b", None]), "v": st.none() | st.integers(0, 5)}
    return st.lists(st.fixed_dictionaries(row), max_size=8)


def with_unique_keys(found):
    return list({row["id"]: row for row in found}.values())


@st.composite
def clauses(draw):
    """Clauses as the statement takes them, and as (kind, condition, effect)."""
    statement, meaning = [], []
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)):
        if kind in NOT_MATCHED_BY_SOURCE:
            (condition, holds), (values, effect) = (
                draw(st.sampled_from(TARGET_CONDITIONS)),
                draw(st.sampled_from(TARGET_ASSIGNMENTS)),
            )
            update = NotMatchedBySourceUpdate(condition=condition, assignments=values)
            clause = update if kind == "update_alone" else NotMatchedBySourceDelete(condition=condition)
        elif kind == "insert":
            (condition, holds), (values, effect) = draw(st.sampled_from(SOURCE_CONDITIONS)), draw(st.sampled_from(INSERTS))
            clause = NotMatchedInsert(condition=condition, assignments=values)
        else:
            (condition, holds), (values, effect) = draw(st.sampled_from(MATCHED_CONDITIONS)), draw(st.sampled_from(ASSIGNMENTS))
            update = MatchedUpdate(condition=condition, assignments=values)
            clause = update if kind == "update" else MatchedDelete(condition=condition)
        former = [clause for clause, (other, *_) in zip(statement, meaning, strict=True) if about(other) == about(kind)]
        if not former or former[-1].condition is not None:
            statement.append(clause)
            meaning.append((kind, holds, effect))
    return statement, meaning


def about(kind):
    """Which rows a clause is about."""
    return "insert" if kind == "insert" else "alone" if kind in NOT_MATCHED_BY_SOURCE else "matched"


def merged(target, source, matches, meaning):
    """The rows afterwards; None when a row has several matches that matter."""
    matched = [clause for clause in meaning if about(clause[0]) == "matched"]
    alone = [clause for clause in meaning if clause[0] in NOT_MATCHED_BY_SOURCE]
    inserts = [clause for clause in meaning if clause[0] == "insert"]
    only_a_delete = len(matched) == 1 and matched[0][0] == "delete" and matched[0][1] is MATCHED_CONDITIONS[0][1]
    after, met = [], set()
    for row in target:
        partners = [i for i, other in enumerate(source) if None not in (row["id"], other["id"]) and matches(row, other)]
        met.update(partners)
        if len(partners) > 1 and matched and not only_a_delete:
            return None
        seen = (row, source[partners[0]]) if partners else (row,)
        taken = next((clause for clause in (matched if partners else alone) if clause[1](*seen)), None)
        if taken is None:
            after.append(row)
        elif taken[0] in {"update", "update_alone"}:
            after.append(taken[2](*seen))
    for i, row in enumerate(source):
        taken = next((clause for clause in inserts if i not in met and clause[1](row)), None)
        if taken is not None:
            after.append(taken[2](row))
    return after


def as_counts(found):
    return Counter(tuple(row.get(name) for name in WIDER.names) for row in found)


def check(run_merge, check_statistics, table, tmp_path, *, target, source, on, both, partitioned, evolves):
    statement, meaning = both
    shutil.rmtree(table, ignore_errors=True)
    for part in (target[::2], target[1::2]):
        data = pa.Table.from_pylist(part, schema=SCHEMA)
        write_deltalake(table, data, partition_by=["p"] if partitioned else None, mode="append")
    if evolves:
        source = [row | {"extra": number} for number, row in enumerate(source)]
    rows = pa.Table.from_pylist(source, schema=WIDER if evolves else SCHEMA)
    pq.write_table(rows, tmp_path / "source.parquet")
    expected = merged(target, source, on[1], meaning)
    merge = {
        "source": FileSource(str(tmp_path / "source.parquet"), format="parquet"),
        "on": on[0],
        "clauses": statement,
        "schema_evolution": evolves,
    }
    if expected is None:
        with pytest.raises(MultipleSourceRowsMatchedError):
            run_merge(**merge)
        expected = target
    else:
        result = run_merge(**merge)
        counts = {name: result.metrics[f"numTargetRows{name}"] for name in ("Inserted", "Deleted")}
        assert len(expected) == len(target) + counts["Inserted"] - counts["Deleted"]
    assert as_counts(DeltaTable(table).to_pyarrow_table().to_pylist()) == as_counts(expected)
    check_statistics()


CASES = {
    "target": rows(st.none() | st.integers(0, 6)),
    "source": rows(st.none() | st.integers(0, 9)) | rows(st.integers(0, 9)).map(with_unique_keys),
    "on": st.sampled_from([ON_ID, ON_BOTH, ON_SUM]),
    "both": clauses(),
    "partitioned": st.booleans(),
    "evolves": st.booleans(),
}
RUN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate], deadline=None)


@given(**CASES)
@settings(RUN, max_examples=8)
def test_a_merge_is_what_its_clauses_say_row_by_row(run_merge, check_statistics, table, tmp_path, **case):
    check(run_merge, check_statistics, table, tmp_path, **case)


@pytest.mark.slow
@given(**CASES)
@settings(RUN, max_examples=150)
def test_many_merges_are_what_their_clauses_say_row_by_row(run_merge, check_statistics, table, tmp_path, **case):
    check(run_merge, check_statistics, table, tmp_path, **case)
