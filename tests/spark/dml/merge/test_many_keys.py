"""Sources of more keys than every worker gets: a filter of them keeps most of the other rows of the target out of the JVM."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import MultipleSourceRowsMatchedError
from airflow_delta.core.statements import (
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    SqlSource,
)
from airflow_delta.spark.dml import key_filter
from airflow_delta.spark.dml.key_filter import KeyFilter
from airflow_delta.spark.dml.merge import join as merge_join
from airflow_delta.spark.dml.merge import source as merge_source
from airflow_delta.spark.dml.merge.plan import plan_merge
from airflow_delta.spark.dml.staged_changes import scan_positions
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.shared_bytes import CarriedBytes
from tests.slow_cases import slow_after

UPSERT = [MatchedUpdate(condition="source.v % 2 = 0"), MatchedDelete(), NotMatchedInsert()]
WITH_UNMATCHED = [
    MatchedUpdate(assignments={"v": "source.v"}),
    NotMatchedBySourceUpdate(condition="target.id % 3 = 0", assignments={"v": "-1"}),
    NotMatchedBySourceDelete(condition="target.id IS NULL"),
]
ALL_UNMATCHED = [MatchedUpdate(assignments={"v": "source.v"}), NotMatchedBySourceDelete()]
ON = {
    "a number": "target.id = source.id",
    "a shorter number": "target.short = source.short",
    "a text": "target.t = source.t",
    "a day": "target.day = source.day",
    "an instant": "target.ts = source.ts",
    "a decimal": "target.d = source.d",
    "bytes": "target.raw = source.raw",
    "two keys and more": "target.t = source.t AND target.id = source.id + 0L AND target.v < 900",
    "a fraction, which is no key": "target.f = source.f",
}
COLUMNS = """
    id, CAST(id % 300 AS SMALLINT) AS short, IF(id % 7 = 0, NULL, concat('text ', id)) AS t, DATE'2020-01-01' + CAST(id AS INT) AS day,
    timestamp_seconds(id) AS ts, CAST(id / 4 AS DECIMAL(12, 2)) AS d, CAST(CAST(id AS STRING) AS BINARY) AS raw, id / 3 AS f, id + 1000 AS v
"""  # noqa: E501 - one line for each row of columns
SOURCE = f"SELECT {COLUMNS} FROM (SELECT IF(id % 50 = 9, NULL, id * 3) AS id FROM range(90))"


@pytest.fixture
def only_filters(monkeypatch):
    """Even a single key is one too many to be sent to the workers, and even a small filter is broadcast."""
    monkeypatch.setattr("airflow_delta.spark.dml.merge.source._MAX_KEYS", 0)
    monkeypatch.setattr("airflow_delta.spark.io.shared_bytes._CARRIED_BYTES", 0)


@pytest.fixture
def target(spark, table):
    """Two files of rows, some of them with NULL keys."""
    for first in (0, 150):
        ids = f"SELECT IF(id % 40 = 1, NULL, id) AS id FROM range({first}, {first + 150})"
        rows = spark.sql(f"SELECT {COLUMNS.replace('+ 1000', '* 4')} FROM ({ids})").toArrow()
        write_deltalake(table, rows, mode="append")
    return table


QUICK = {("a text", "all unmatched"), ("two keys and more", "some unmatched")}
CLAUSES = {"upsert": UPSERT, "some unmatched": WITH_UNMATCHED, "all unmatched": ALL_UNMATCHED}
CASES = [
    pytest.param(on, clauses, id=f"{name}-{kind}", marks=() if (name, kind) in QUICK else pytest.mark.slow)
    for name, on in ON.items()
    for kind, clauses in CLAUSES.items()
]


@pytest.mark.parametrize(("on", "clauses"), CASES)
def test_a_filter_of_keys_changes_no_result(run_merge, reference_rows, target, request, on, clauses):
    unique = f"SELECT * FROM ({SOURCE}) WHERE id BETWEEN 0 AND 299"  # where several ids share a key
    source = unique if "short" in on else SOURCE
    expected = run_merge(source, on=on, clauses=clauses)
    rows = reference_rows(order="v, id")
    DeltaLog.for_table(target).restore(version=1)
    request.getfixturevalue("only_filters")

    result = run_merge(source, on=on, clauses=clauses)

    assert reference_rows(order="v, id") == rows
    counts = [name for name in expected.metrics if "Rows" in name]
    assert [result.metrics[name] for name in counts] == [expected.metrics[name] for name in counts]


@pytest.mark.parametrize(
    ("on", "clauses"), slow_after(1, [("a day", ALL_UNMATCHED[:1]), ("a number", UPSERT), ("an instant", UPSERT)])
)
def test_hashing_the_rows_of_the_target_changes_no_result(run_merge, reference_rows, target, monkeypatch, on, clauses):
    expected = run_merge(SOURCE, on=ON[on], clauses=clauses)
    rows = reference_rows(order="v, id")
    DeltaLog.for_table(target).restore(version=1)
    hints = []
    for bound in ("_BROADCAST_BYTES", "_TASK_BYTES"):
        monkeypatch.setattr(merge_join, bound, 0)
    monkeypatch.setattr(merge_join, "task_memory", lambda _: hints.append("hashed") or 1 << 30)

    result = run_merge(SOURCE, on=ON[on], clauses=clauses)

    assert (hints, reference_rows(order="v, id")) == (["hashed"], rows)
    counts = [name for name in expected.metrics if "Rows" in name]
    assert [result.metrics[name] for name in counts] == [expected.metrics[name] for name in counts]


def test_a_driver_and_workers_make_the_same_filter(spark, target, monkeypatch):
    keys, schema = (
        spark.read.parquet(target).select("id", "d").dropna(),
        pa.schema({"id": pa.int64(), "d": pa.decimal128(12, 2)}),
    )
    with RowCache(None) as cache:
        of_driver = key_filter.build(keys, schema, 300, 1 << 20, cache.at_end)
        monkeypatch.setattr(key_filter, "_MOST_KEY_BYTES", 0)
        of_workers = key_filter.build(keys, schema, 300, 1 << 20, cache.at_end)

        assert np.count_nonzero(np.frombuffer(of_driver.words.value, np.uint64)) > 50
        assert of_driver.words.value == of_workers.words.value
        assert (of_driver.are_keys_unique, of_workers.are_keys_unique) == (True, True)


@pytest.mark.parametrize(("shareable", "how"), [(2_000, "keys"), (300, "filter"), (20, "all")])
def test_keys_that_cannot_reach_the_workers_of_so_many_files_become_a_filter(
    run_merge, reference_rows, target, monkeypatch, shareable, how
):
    expected = run_merge(SOURCE, on=ON["a day"], clauses=UPSERT)
    rows = reference_rows(order="v, id")
    DeltaLog.for_table(target).restore(version=1)
    shared, scan = [], merge_join.scan_positions
    monkeypatch.setattr(merge_source, "shareable_bytes", lambda *_: shareable)
    monkeypatch.setattr(
        merge_join,
        "scan_positions",
        lambda *values, keys=None, **named: shared.append(keys) or scan(*values, keys=keys, **named),
    )
    monkeypatch.setattr(merge_join, "jvm_positions", lambda *_: None)

    result = run_merge(SOURCE, on=ON["a day"], clauses=UPSERT)

    kinds = ["filter" if isinstance(keys, KeyFilter) else "all" if keys is None else "keys" for keys in shared]
    assert (kinds, reference_rows(order="v, id")) == ([how], rows)
    assert [len(keys.words.value) <= shareable for keys in shared if isinstance(keys, KeyFilter)] == [True] * (how == "filter")
    counts = [name for name in expected.metrics if "Rows" in name]
    assert [result.metrics[name] for name in counts] == [expected.metrics[name] for name in counts]


def test_several_matches_are_found_though_keys_are_not_known_to_be_unique(run_merge, target, only_filters):
    with pytest.raises(MultipleSourceRowsMatchedError, match="matched by 2 rows"):
        run_merge("SELECT id % 20 AS id, 1L AS v FROM range(40)", clauses=MatchedUpdate(assignments={"v": "source.v"}))


@pytest.mark.classic(reason="looks for files of this process's SparkContext")
@pytest.mark.parametrize("has_filter", [True, False], ids=["filter", "keys"])
def test_what_workers_shared_is_gone_from_the_driver_at_the_end(spark, run_merge, target, monkeypatch, has_filter):
    if has_filter:
        monkeypatch.setattr("airflow_delta.spark.dml.merge.source._MAX_KEYS", 0)
    monkeypatch.setattr("airflow_delta.spark.io.shared_bytes._CARRIED_BYTES", 0)
    folder, shared = Path(spark.sparkContext._temp_dir), []
    broadcast = spark.sparkContext.broadcast
    monkeypatch.setattr(spark.sparkContext, "broadcast", lambda content: (shared.append(len(content)), broadcast(content))[1])
    before = {*folder.iterdir()}

    run_merge("SELECT id, 1L AS v FROM range(40)", clauses=MatchedUpdate(assignments={"v": "source.v"}))

    assert len(shared) == 2  # the keys, and the files to be rewritten
    assert {*folder.iterdir()} == before


def planned_keys(spark, target, query):
    """What workers are given to tell rows without match by, and the scan of the target with it."""
    snapshot = DeltaLog.for_table(target).snapshot()
    statement = MergeStatement(table=target, source=SqlSource(query), on=ON["a text"], clauses=UPSERT)
    with RowCache(snapshot.store) as cache:
        plan = plan_merge(snapshot, (), spark=spark, statement=statement, origin=Origin(), cache=cache)
        keys = plan.source.keys_for(snapshot.files(), cache)
        return keys, scan_positions(spark, snapshot, snapshot.files(), snapshot.schema, keys=keys).toArrow()


def test_most_rows_without_match_stay_out_of_the_jvm(spark, target, only_filters):
    keys, rows = planned_keys(spark, target, SOURCE)

    wanted = {f"text {id_}" for id_ in range(0, 270, 3) if id_ // 3 % 50 != 9 and id_ % 7 and id_ % 40 != 1}
    assert isinstance(keys, KeyFilter)
    assert wanted <= set(rows["t"].to_pylist())
    assert len(wanted) <= len(rows) <= len(wanted) + 12
    assert not pc.any(rows["t"].is_null()).as_py()


@pytest.mark.parametrize(
    ("query", "hashes", "expected"),
    [(SOURCE, 1 << 24, True), (f"({SOURCE}) UNION ALL SELECT {COLUMNS} FROM range(6, 7)", 1 << 24, False), (SOURCE, 80, False)],
    ids=["no key twice", "one key twice", "too many to look at"],
)
def test_a_filter_knows_that_no_key_occurs_twice(spark, target, only_filters, monkeypatch, query, hashes, expected):
    monkeypatch.setattr("airflow_delta.spark.dml.key_filter._MOST_HASHES", hashes)
    keys, _ = planned_keys(spark, target, query)

    assert keys.are_keys_unique is expected


def test_there_is_no_filter_where_the_target_has_fewer_rows_than_the_source(spark, target, only_filters):
    keys, rows = planned_keys(spark, target, f"SELECT {COLUMNS} FROM range(301)")

    assert keys is None
    assert len(rows) == 300


def test_keys_that_the_driver_does_not_take_go_into_a_filter_that_it_does(target, run_merge, reference_rows, monkeypatch):
    expected = run_merge(SOURCE, on=ON["a number"], clauses=UPSERT)
    rows = reference_rows(order="v, id")
    DeltaLog.for_table(target).restore(version=1)
    filters = []
    monkeypatch.setattr(merge_source, "_FEW_BYTES", 0)
    for module in (merge_source, key_filter):
        monkeypatch.setattr(module, "result_bytes", lambda _: 512)
    monkeypatch.setattr(key_filter, "share", lambda _, words, __: filters.append(len(words)) or CarriedBytes(words))

    result = run_merge(SOURCE, on=ON["a number"], clauses=UPSERT)

    assert (filters, reference_rows(order="v, id")) == ([64], rows)
    counts = [name for name in expected.metrics if "Rows" in name]
    assert [result.metrics[name] for name in counts] == [expected.metrics[name] for name in counts]
