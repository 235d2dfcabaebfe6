"""Maintenance does what is due and nothing else, also when it is run again or a step fails."""

import json

import pytest

from airflow_delta.core.actions import Metadata, Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, MissingDataFileError, TableNotFoundError
from airflow_delta.core.log.file_names import checkpoint_path, commit_path, compacted_path
from airflow_delta.core.statements import MaintenanceStatement, OperationResult
from airflow_delta.core.statements.health import STEPS
from airflow_delta.core.statements.json_form import statement_from_json, to_json
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.errors import JobFailedError, MaintenanceFailedError
from airflow_delta.jobs.maintenance import Maintenance
from tests.core.builders import HandmadeLog, add, metadata, remove

DAY = 86_400_000
LAST_VACUUM = "_delta_log/_last_vacuum_info"
COUNTED = json.dumps({"numRecords": 1})
MANUAL = {"delta.checkpointInterval": "1000"}
KEPT = {"delta.enableExpiredLogCleanup": "false"}


def small(number, **fields):
    return add(f"f{number}", stats=COUNTED, **fields)


def run(log, optimizer=None, origin=None, start_version=None, **arguments):
    statement = MaintenanceStatement(table=log.table_uri, **arguments)
    given = {} if origin is None else {"origin": origin}
    return Maintenance(log=log, statement=statement, optimizer=optimizer, start_version=start_version, **given).run()


def steps(result, key="done"):
    return {step["step"]: step[key] for step in result.details["steps"]}


class Optimizer:
    """Records the requested statements; commits nothing."""

    def __init__(self, error=None):
        self.requested = []
        self.error = error

    def __call__(self, statement):
        self.requested.append(statement)
        if self.error:
            raise self.error
        return OperationResult(table="t", version=7, read_version=6, operation="OPTIMIZE", committed=True, metrics={"a": 1})


def test_with_nothing_due_nothing_is_done():
    log = HandmadeLog().create(small(1))
    log.store.write("f1", b"x")
    before = {file.path for file in log.store.list_all()}
    optimizer = Optimizer()
    result = run(log.log, optimizer)
    assert steps(result) == steps(result, "due") == dict.fromkeys(STEPS, False)
    assert (result.version, result.committed, result.operation, optimizer.requested) == (0, False, "MAINTENANCE", [])
    assert {file.path for file in log.store.list_all()} - {LAST_VACUUM} == before


def test_ten_small_files_in_one_partition_are_compacted():
    days = [{"p": "a"}] * 10 + [{"p": "b"}] * 9
    log = HandmadeLog().create(*(small(n, partitionValues=day) for n, day in enumerate(days)), partition_columns=["p"])
    optimizer = Optimizer()
    result = run(log.log, optimizer, steps=["optimize"])
    (requested,) = optimizer.requested
    assert (requested.min_files, requested.small_file_size) == (10, 16 << 20)
    (step,) = result.details["steps"]
    assert (step["due"], step["done"], step["version"], step["metrics"]) == (True, True, 7, {"a": 1})
    assert step["why"] == "10 files (10 bytes) in partitions that have 10 or more files below 16,777,216 bytes"
    assert (result.version, result.committed, result.metrics) == (7, True, {"a": 1})


def test_two_small_files_always_fit_into_one_so_that_an_optimize_that_is_due_does_something():
    log = HandmadeLog().create(*(small(n, size=60) for n in range(12))).log
    result = run(log, Optimizer(), steps=["optimize"], target_file_size=100)
    assert steps(result, "due") == {"optimize": False}


def clustered(*files):
    """A table that is clustered by its column ``id``, with these files."""
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    features = {"writerFeatures": ["clustering", "domainMetadata"], "minReaderVersion": 1, "minWriterVersion": 7}
    return HandmadeLog().commit({"protocol": features}, metadata(), {"domainMetadata": domain}, *files).log


def in_cube(number, cube, **fields):
    tags = {"ZCUBE_ID": cube, "ZCUBE_ZORDER_BY": '["id"]'}
    return small(number, tags=tags, clusteringProvider="liquid", **fields)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([in_cube(n, "one") for n in range(30)], None),
        ([in_cube(n, "one") for n in range(30)] + [small(n) for n in range(30, 39)], None),
        ([small(n, size=16 << 30) for n in range(9)], "9 files (154,618,822,656 bytes) not clustered yet"),
        ([in_cube(n, "one") for n in range(30)] + [small(n) for n in range(30, 40)], "10 files (10 bytes) not"),
        ([in_cube(n, f"cube{n % 2}") for n in range(4)], "2 small cubes can become one"),
        ([in_cube(n, f"large{n}", size=101 << 30) for n in range(12)], None),
    ],
    ids=["in-order", "few-new", "large-new", "new", "cubes", "large-cubes"],
)
def test_a_clustered_table_is_optimized_for_files_that_are_in_no_order_yet_however_small_the_others_are(files, why):
    optimizer = Optimizer()
    (step,) = run(clustered(*files), optimizer, steps=["optimize"]).details["steps"]
    assert (step["due"], len(optimizer.requested)) == (why is not None, int(why is not None))
    assert step["why"].startswith(why or ("9 files (9 bytes) not" if len(files) == 39 else "all files are in their order"))


def test_without_spark_an_optimize_is_only_reported_as_due():
    log = HandmadeLog().create(*map(small, range(10)))
    (step,) = run(log.log, steps=["optimize"]).details["steps"]
    assert (step["due"], step["done"]) == (True, False)
    assert step["why"].endswith("not done: it needs Spark")


def test_an_optimize_that_an_earlier_try_committed_is_not_done_again():
    log = HandmadeLog().create(*map(small, range(10))).log
    origin = Origin(token="0" * 32)
    log.start_transaction().commit(operation=Operation(name="OPTIMIZE", changes_data=False), origin=origin, allow_empty=True)
    optimizer = Optimizer()
    result = run(log, optimizer, origin=origin, start_version=0, steps=["optimize", "checkpoint"], max_commits=1)
    assert optimizer.requested == []
    assert steps(result, "version") == {"optimize": 1, "checkpoint": None}
    assert steps(result) == {"optimize": True, "checkpoint": True}


def test_a_checkpoint_is_due_when_readers_read_more_commits_than_the_table_wants():
    log = HandmadeLog().create(**{"delta.checkpointInterval": "3"}, **KEPT)
    log.commit().commit()
    assert steps(run(log.log)) == dict.fromkeys(STEPS, False)
    log.commit()
    result = run(log.log)
    assert [name for name, done in steps(result).items() if done] == ["checkpoint"]
    assert log.store.exists(checkpoint_path(3))
    assert (result.version, result.committed) == (3, False)


def test_a_checkpoint_that_cannot_be_read_is_replaced():
    log = HandmadeLog().create(small(1)).commit()
    log.store.write(checkpoint_path(1), b"no Parquet")
    result = run(log.log, steps=["checkpoint"])
    assert steps(result, "why") == {"checkpoint": "1 checkpoint cannot be read"}
    log.remove_commits(0)
    assert log.paths() == ["f1"]


def test_many_commits_without_checkpoint_are_compacted_where_the_table_wants_few_checkpoints():
    log = HandmadeLog().create(**MANUAL)
    for _ in range(4):
        log.commit()
    result = run(log.log, max_uncompacted_commits=4)
    assert [name for name, done in steps(result).items() if done] == ["compact_log"]
    assert log.store.exists(compacted_path(0, 4))
    assert steps(run(log.log, max_uncompacted_commits=4)) == dict.fromkeys(STEPS, False)


def test_a_checkpoint_leaves_nothing_to_compact():
    log = HandmadeLog().create(**MANUAL, **KEPT).commit().commit()
    result = run(log.log, max_commits=1, max_uncompacted_commits=1)
    assert [name for name, done in steps(result).items() if done] == ["checkpoint"]


@pytest.fixture
def aged():
    """A table in memory: a file removed ten days ago that is still there, forty days of log."""
    now = 20_000 * DAY
    store = InMemoryLogStore("memory://aged", clock=lambda: now)
    log = DeltaLog(store, clock=lambda: now)
    schema = '{"type":"struct","fields":[]}'
    log.create_transaction(Metadata(id="m", schema_string=schema, configuration=MANUAL)).commit(operation=Operation(name="A"))
    for _ in range(3):
        log.start_transaction().commit(operation=Operation(name="A"), allow_empty=True)
    log.checkpoint(2)
    store.write("gone.parquet", b"123")
    actions = [add("gone.parquet", stats=COUNTED), remove("gone.parquet", deletionTimestamp=now)]
    for version, action in enumerate(actions, start=4):
        store.write(commit_path(version), json.dumps(action).encode())
    now += 40 * DAY
    log.start_transaction().commit(operation=Operation(name="A"), allow_empty=True)
    return log


def test_vacuum_and_cleanup_delete_what_retention_allows(aged):
    result = run(aged)
    assert [name for name, done in steps(result).items() if done] == ["vacuum", "clean_up_log"]
    assert not aged.store.exists("gone.parquet")
    assert not aged.store.exists(commit_path(0))
    assert aged.store.exists(commit_path(3))
    vacuum = next(step for step in result.details["steps"] if step["step"] == "vacuum")
    assert vacuum["why"] == "1 file (3 bytes) of no version within the retention, and of no pinned one"
    assert vacuum["metrics"] == {"numDeletedFiles": 1, "sizeOfDataToDelete": 3}
    assert vacuum["version"] == result.version == 8
    assert steps(run(aged), "due") == dict.fromkeys(STEPS, False)


def test_a_dry_run_reports_what_is_due_and_changes_nothing(aged):
    before = {file.path for file in aged.store.list_all()}
    result = run(aged, dry_run=True)
    assert [name for name, due in steps(result, "due").items() if due] == ["vacuum", "clean_up_log"]
    assert steps(result) == dict.fromkeys(STEPS, False)
    assert {file.path for file in aged.store.list_all()} == before
    assert not result.committed


def test_a_table_that_wants_to_keep_its_log_keeps_it(aged):
    aged.alter().set_properties({"delta.enableExpiredLogCleanup": "false"})
    result = run(aged, steps=["clean_up_log"])
    assert steps(result, "why") == {"clean_up_log": "delta.enableExpiredLogCleanup is false"}
    assert aged.store.exists(commit_path(0))


def test_a_step_that_fails_does_not_keep_the_others():
    log = HandmadeLog().create(*(add(f"f{n}") for n in range(10)), **MANUAL, **KEPT).commit()
    optimizer = Optimizer(JobFailedError(table="t", operation="OPTIMIZE", error="Oops", detail="no memory"))
    with pytest.raises(MaintenanceFailedError) as failure:
        run(log.log, optimizer, max_commits=1)
    assert [text.split(":")[0] for text in failure.value.failed] == ["optimize", "statistics"]
    assert "no memory" in failure.value.failed[0]
    assert MissingDataFileError.code in failure.value.failed[1]
    assert failure.value.done == ("checkpoint (every reader reads 2 commits; more than 1 are too many)",)
    assert failure.value.retryable
    assert log.store.exists(checkpoint_path(1))


def test_what_is_not_foreseen_is_in_the_log_with_its_traceback_and_no_secret(caplog):
    log = HandmadeLog().create(*(add(f"f{n}") for n in range(10)), **MANUAL, **KEPT)
    with pytest.raises(MaintenanceFailedError, match="see the traceback in the task log"):
        run(log.log, Optimizer(OSError("sas_token=planted")), steps=["optimize"])
    assert "Traceback" in caplog.text
    assert "planted" not in caplog.text


def test_where_there_is_no_table_no_step_is_tried():
    with pytest.raises(TableNotFoundError):
        run(HandmadeLog().log)


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps": ["zorder"]},
        {"min_small_files": 1},
        {"max_commits": -1},
        {"retention_hours": -1.0},
        {"retention_hours": float("nan")},
        {"small_file_size": 0},
        {"table": " "},
    ],
)
def test_a_maintenance_that_cannot_be_meant_is_refused(arguments):
    with pytest.raises(InvalidStatementError):
        MaintenanceStatement(**({"table": "t"} | arguments))


def test_the_statement_goes_through_json_unchanged():
    statement = MaintenanceStatement(table="t", steps=("vacuum",), where="p = 1", retention_hours=200.0, dry_run=True)
    assert statement_from_json(json.loads(json.dumps(to_json(statement)))) == statement
