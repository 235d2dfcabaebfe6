"""A checkpoint that Spark's workers replay and write, beside the one that the core writes of the same table."""

import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core.actions import Protocol, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError, DeltaError, InvalidStatementError, VersionNotFoundError
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_part_path, commit_path, sidecar_path
from airflow_delta.core.log.json_checksum import json_checksum
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.checkpoints import CheckpointKind, write_checkpoint
from airflow_delta.core.statements import CheckpointStatement, SqlSource, WriteStatement
from airflow_delta.core.table_features.feature import reader_features, writer_features
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.distributed import checkpoint as shared_checkpoint
from airflow_delta.spark.distributed.checkpoint import MANY_ACTIONS_SETTING, allowed_kind, checkpoint
from airflow_delta.spark.write.write import write
from tests.core.builders import add, deletion_vector, metadata, protocol, remove, schema_string
from tests.core.conftest import RealTable
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures
from tests.core.operations.conftest import golden_table  # noqa: F401 - fixture
from tests.spark.stores.conftest import S3Table

MULTI_PART, V2_JSON, V2_PARQUET = CheckpointKind.MULTI_PART, CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET
V2_FEATURES = frozenset({"v2Checkpoint"})
V2 = Protocol(min_reader_version=3, min_writer_version=7, reader_features=V2_FEATURES, writer_features=V2_FEATURES)
WRITE = Operation(name="WRITE")
NOW = 40 * 86_400_000
TABLES = [
    "column_mapping_name",
    "dv_basic",
    "partitioned_all_types",
    "v2_checkpoint_parquet",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "checkpoint_struct_stats",
            "dv_optimized",
            "log_compaction",
            "multipart_checkpoint",
            "partitioned_special",
            "row_tracking",
            "stats_config",
        )
    ),
]


def shared(spark, log, version=None, *, kind=None, actions_of_file=3):
    """The checkpoint that Spark writes, however small the table is."""
    return checkpoint(spark, log, version, kind=kind, many=0, actions_of_file=actions_of_file)


def described(store, result):
    """All that the files of a checkpoint say, by kind of action; where they lie left out."""
    files = next(checkpoint.files for checkpoint in list_log(store).checkpoints if checkpoint.files[0].path == result.path)
    rows = [row for file in files for row in rows_of(store, file.path)]
    names = [row["sidecar"]["path"] for row in rows if row.get("sidecar")]
    rows += [row for name in names for row in rows_of(store, sidecar_path(name))]
    found = {}
    for row in rows:
        for kind, action in row.items():
            if action is not None and kind not in ("sidecar", "checkpointMetadata"):
                found.setdefault(kind, []).append(json.dumps(action, sort_keys=True, default=repr))
    return {kind: sorted(actions) for kind, actions in found.items()}


def rows_of(store, path):
    if path.endswith(".json"):
        return list(map(json.loads, store.read(path).splitlines()))
    with store.open_input(path) as stream:
        return pq.read_table(stream).to_pylist()


def hint_of(store):
    hint = json.loads(store.read(LAST_CHECKPOINT))
    assert hint["checksum"] == json_checksum(hint)
    return hint


def with_v2(root):
    """Let the table allow checkpoints of version 2, whatever it is otherwise."""
    snapshot = DeltaLog.for_table(str(root)).snapshot()
    features = {
        "readerFeatures": sorted(reader_features(snapshot.protocol) | V2_FEATURES),
        "writerFeatures": sorted(writer_features(snapshot.protocol) | V2_FEATURES),
    }
    text = json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    snapshot.store.write(commit_path(snapshot.version + 1), text.encode())


@pytest.fixture
def table(tmp_path):
    """A table of seven live files, a tombstone and an application, whose commits have no checkpoint."""
    table = RealTable(tmp_path / "table", lambda: 1_700_000_000_000, {"delta.checkpointInterval": "100"})
    for number, partition in enumerate(["a b%", None, "é", "x", "x", "x=1/y", "x", "y"]):
        table.commit(adds=table.add(f"part/f{number}.parquet", number, partition))
    table.commit(transactions=[SetTransaction(app_id="app", version=3, last_updated=table.log.clock())])
    gone = table.log.refresh().files("n = 0")
    table.commit(removes=removes_of(gone, deletion_timestamp=table.log.clock(), data_change=True))
    return table


ROWS = [(1, None), (2, "é"), (3, "x"), (4, "x"), (5, "x=1/y"), (6, "x"), (7, "y")]


def only_the_checkpoint(source, target, version, kept):
    """A copy without commits, and without other checkpoints than the one whose files' names hold ``kept``."""
    shutil.copytree(source, target)
    for path in (target / "_delta_log").glob("0*"):
        if "checkpoint" not in path.name or not path.name.startswith(f"{version:020d}") or kept not in path.name:
            path.unlink()
    (target / LAST_CHECKPOINT).unlink(missing_ok=True)
    return target


@pytest.mark.parametrize("kind", [MULTI_PART, V2_JSON, V2_PARQUET])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_delta_spark_get_the_checkpoint_that_the_core_writes(spark, golden_table, tmp_path, name, kind):  # noqa: F811
    root = golden_table(name)
    if kind.is_v2:
        with_v2(root)
    elif name == "v2_checkpoint_parquet":
        pytest.skip("a table with the feature takes no parts")
    copy = shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copyfile)
    now = 1_800_000_000_000
    log = DeltaLog.for_table(str(root), clock=lambda: now)
    by_core = write_checkpoint(DeltaLog.for_table(str(copy)).snapshot(), now=now, kind=kind)
    by_spark = shared(spark, log, kind=kind)
    assert described(log.store, by_spark) == described(DeltaLog.for_table(str(copy)).store, by_core)
    if kind is not V2_JSON:
        assert pq.read_schema(root / by_spark.path) == pq.read_schema(copy / by_core.path)
    fields = ("version", "kind", "actions" if kind is MULTI_PART else "files", "files", "table_size")
    assert [getattr(by_spark, field) for field in fields] == [getattr(by_core, field) for field in fields]


@pytest.mark.parametrize("kind", [MULTI_PART, V2_JSON, V2_PARQUET])
def test_other_engines_read_the_table_from_the_checkpoint_alone(spark, table, tmp_path, duckdb_connection, kind):
    if kind.is_v2:
        transaction = table.log.start_transaction()
        transaction.set_protocol(V2)
        transaction.commit(operation=WRITE)
    result = shared(spark, table.log, kind=kind)
    assert (result.files, result.table_size) == (7, sum(table.log.refresh().files()["size"].to_pylist()))
    hint = hint_of(table.log.store)
    assert (hint["version"], hint["size"], hint["numOfAddFiles"]) == (result.version, result.actions, 7)
    copy = only_the_checkpoint(table.root, tmp_path / "copy", result.version, ".checkpoint.")
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{copy}') ORDER BY n").fetchall() == ROWS
    other = DeltaTable(copy)
    files = pa.table(other.get_add_actions(flatten=True)).select(["path", "partition.p"]).to_pydict()
    assert sorted(zip(*files.values(), strict=True)) == [(f"part/f{n}.parquet", p) for n, p in ROWS]
    assert other.transaction_version("app") == 3
    ours = DeltaLog.for_table(str(copy)).snapshot()
    assert sorted(zip(*ours.to_arrow().read_all().to_pydict().values(), strict=True)) == ROWS
    assert ours.tombstones()["path"].to_pylist() == ["part/f0.parquet"]


def test_each_action_is_in_the_part_in_which_any_writer_puts_it(spark, golden_table, tmp_path):  # noqa: F811
    root = golden_table("dv_basic")
    copy = shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copyfile)
    log, other = DeltaLog.for_table(str(root), clock=lambda: 0), DeltaLog.for_table(str(copy))
    shared(spark, log, kind=MULTI_PART)
    parts = hint_of(log.store)["parts"]
    snapshot = other.snapshot()
    actions = len(snapshot.files()) + len(snapshot.tombstones())
    write_checkpoint(snapshot, now=0, kind=MULTI_PART, rows_of_part=-(-actions // parts))
    assert hint_of(other.store) | {"sizeInBytes": 0, "checksum": ""} == hint_of(log.store) | {"sizeInBytes": 0, "checksum": ""}

    def paths(store, part):
        rows = rows_of(store, checkpoint_part_path(snapshot.version, part + 1, parts))
        return sorted(str((row["add"] or row["remove"] or {}).get("path")) for row in rows)

    assert [paths(log.store, part) for part in range(parts)] == [paths(other.store, part) for part in range(parts)]


def test_a_part_without_actions_is_there_too(spark, tmp_path, duckdb_connection):
    table = RealTable(tmp_path / "table", lambda: NOW, {})
    for number in range(4):
        table.commit(adds=table.add(f"f{number}.parquet", number, "x"))
    gone = table.log.refresh().files("n < 3")
    table.commit(removes=removes_of(gone, deletion_timestamp=1, data_change=True))  # so long ago that it is forgotten
    result = checkpoint(spark, table.log, many=0, actions_of_file=1)
    assert (result.kind, result.actions) == (MULTI_PART, 3)
    assert hint_of(table.log.store)["parts"] > 3
    copy = only_the_checkpoint(table.root, tmp_path / "copy", 5, ".checkpoint.")
    assert duckdb_connection.sql(f"SELECT n, p FROM delta_scan('{copy}')").fetchall() == [(3, "x")]


def test_a_table_without_files_gets_a_manifest_without_sidecars(spark, tmp_path):
    table = RealTable(tmp_path / "table", lambda: 1, {})
    with_v2(table.root)
    result = shared(spark, table.log)
    assert (result.kind, result.files, result.actions) == (V2_JSON, 0, 3)
    assert not (table.root / "_delta_log" / "_sidecars").exists()
    assert len(DeltaLog.for_table(str(table.root)).snapshot().files()) == 0


def test_a_checkpoint_goes_on_from_the_one_before_and_forgets_old_tombstones(spark, table):
    now = table.log.clock()
    shared(spark, table.log)
    gone = table.log.refresh().files("n = 3")
    table.commit(removes=removes_of(gone, deletion_timestamp=now + 1, data_change=True))
    table.commit(adds=table.add("part/f0.parquet", 0, "a b%"))  # removed before, and here again
    later = DeltaLog.for_table(str(table.root), clock=lambda: now + 7 * 86_400_000)
    result = shared(spark, later)
    assert (result.version, result.files) == (12, 7)
    found = described(later.store, result)
    assert [json.loads(line)["path"] for line in found["remove"]] == ["part/f3.parquet"]
    assert "part/f0.parquet" in {json.loads(line)["path"] for line in found["add"]}
    snapshot = DeltaLog.for_table(str(table.root)).snapshot()
    assert len(snapshot.segment.checkpoint.files) == hint_of(later.store)["parts"]
    assert sorted(snapshot.to_arrow().read_all()["n"].to_pylist()) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["header", "files"])
def test_a_broken_checkpoint_is_made_up_for_by_what_is_left(spark, table, damage):
    log = table.log
    with_v2(table.root)
    log.checkpoint(kind=V2_PARQUET)
    found = list((table.root / "_delta_log").glob("*.checkpoint.*")) + list((table.root / "_delta_log" / "_sidecars").iterdir())
    manifest, sidecar = found
    if damage == "header":
        manifest.write_bytes(b"PAR1 no more")
    else:  # the footer is whole, the pages are not
        content = sidecar.read_bytes()
        sidecar.write_bytes(content[:4] + bytes(len(content) // 2 - 4) + content[len(content) // 2 :])
    table.log.store.write(commit_path(12), json.dumps(add("g", partitionValues={"p": None})).encode())
    result = shared(spark, DeltaLog.for_table(str(table.root)))
    assert (result.version, result.files) == (12, 8)
    assert min(DeltaLog.for_table(str(table.root)).snapshot().files()["path"].to_pylist()) == "g"


def test_a_broken_checkpoint_that_nothing_replaces_is_an_error(spark, table):
    table.log.checkpoint()
    path = next((table.root / "_delta_log").glob("*.checkpoint.*"))
    for commit in (table.root / "_delta_log").glob("*.json"):
        commit.unlink()
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(CorruptLogError) as caught:
        shared(spark, DeltaLog.for_table(str(table.root)))
    assert caught.value.file == f"_delta_log/{path.name}"


def test_two_live_files_of_one_path_are_an_error(spark, tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "table"))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    commits = [
        [protocol(3, 7, **features), metadata()],
        [add("a", deletionVector=deletion_vector("v1"), stats='{"numRecords": 2}')],
        [add("a", deletionVector=deletion_vector("v2"), stats='{"numRecords": 2}')],
    ]
    for version, actions in enumerate(commits):
        log.store.write(commit_path(version), "\n".join(map(json.dumps, actions)).encode())
    with pytest.raises(CorruptLogError, match="two live files of version 2 have the path 'a'"):
        shared(spark, log)
    assert list_log(log.store).checkpoints == ()


@pytest.mark.slow
def test_a_commit_that_is_not_json_is_an_error(spark, table):
    table.log.store.write(commit_path(11), b'{"add": {"path": \n')
    with pytest.raises(CorruptLogError) as caught:
        shared(spark, DeltaLog.for_table(str(table.root)))
    assert caught.value.file == commit_path(11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MULTI_PART, V2_JSON])
def test_a_task_that_dies_leaves_the_checkpoint_before_in_force(spark, table, monkeypatch, kind):
    if kind.is_v2:
        with_v2(table.root)
    before = table.log.checkpoint(9, kind=None)
    hint = table.log.store.read(LAST_CHECKPOINT)

    class Dying(shared_checkpoint.FileWriter):
        """Writes what it should, and is killed before one of the files."""

        def _written(self, batches):
            for batch in batches:
                if batch["bucket"][0].as_py() == 1:
                    raise KeyboardInterrupt
                yield from super()._written(iter([batch]))

    monkeypatch.setattr(shared_checkpoint, "FileWriter", Dying)
    with pytest.raises(Exception, match="KeyboardInterrupt"):
        shared(spark, table.log, kind=kind)
    log = DeltaLog.for_table(str(table.root))
    assert log.store.read(LAST_CHECKPOINT) == hint
    snapshot = log.snapshot()
    assert [file.path for file in snapshot.segment.checkpoint.files] == [before.path]
    assert len(snapshot.files()) == 7
    monkeypatch.undo()
    assert shared(spark, log, kind=kind).files == 7


def test_a_small_log_and_the_kind_classic_are_left_to_the_core(spark, table):
    assert checkpoint(spark, table.log).kind is CheckpointKind.CLASSIC
    assert shared(spark, table.log, kind=CheckpointKind.CLASSIC).kind is CheckpointKind.CLASSIC
    spark.conf.set(MANY_ACTIONS_SETTING, "1")
    try:
        assert checkpoint(spark, table.log).kind is MULTI_PART
    finally:
        spark.conf.unset(MANY_ACTIONS_SETTING)


def test_a_job_asks_the_setting(spark, table):
    spec = JobSpec(statement=CheckpointStatement(table=str(table.root)))
    assert run(spark, spec).outcome.metrics["numFiles"] == 7
    assert not list((table.root / "_delta_log").glob("*.checkpoint.0*"))
    spark.conf.set(MANY_ACTIONS_SETTING, "1")
    try:
        outcome = run(spark, spec).outcome
    finally:
        spark.conf.unset(MANY_ACTIONS_SETTING)
    assert (outcome.version, outcome.metrics["numFiles"], outcome.committed) == (10, 7, False)
    assert len(list((table.root / "_delta_log").glob("*.checkpoint.0*"))) == 2


@pytest.mark.slow
def test_an_older_version_gets_its_checkpoint_unless_the_table_protects_it(spark, table):
    assert (shared(spark, table.log, 4).version, hint_of(table.log.store)["version"]) == (4, 4)
    shared(spark, table.log, 9)
    shared(spark, table.log, 5)
    assert hint_of(table.log.store)["version"] == 9
    configuration = {"delta.requireCheckpointProtectionBeforeVersion": "8"}
    changed = metadata(schema_string(n="long", p="string"), ("p",), **configuration)
    features = protocol(3, 7, readerFeatures=[], writerFeatures=["checkpointProtection"])
    table.log.store.write(commit_path(11), "\n".join(map(json.dumps, [changed, features])).encode())
    with pytest.raises(InvalidStatementError, match="no checkpoint may be added before version 8"):
        shared(spark, DeltaLog.for_table(str(table.root)), 7)
    with pytest.raises(VersionNotFoundError):
        shared(spark, DeltaLog.for_table(str(table.root)), 12)


def test_the_kind_is_one_that_the_table_allows():
    plain = Protocol(min_reader_version=1, min_writer_version=2)
    assert (allowed_kind(None, plain), allowed_kind(None, V2)) == (MULTI_PART, V2_JSON)
    assert allowed_kind(V2_PARQUET, V2) is V2_PARQUET
    with pytest.raises(InvalidStatementError, match="does not have the feature v2Checkpoint"):
        allowed_kind(V2_JSON, plain)
    with pytest.raises(InvalidStatementError, match="which forbids it"):
        allowed_kind(MULTI_PART, V2)


@pytest.mark.slow
def test_tables_in_s3_are_written_by_workers(spark, s3, monkeypatch):  # noqa: F811 - the fixture
    table = S3Table(spark, s3)
    for number in range(5):
        table.write_rows(f"SELECT {number}L AS id, {number % 2}L AS p", partition_by=("p",))
    monkeypatch.setattr(DeltaLog, "checkpoint", None)  # the driver does not do it instead
    result = shared(spark, table.log)
    assert (result.kind, result.files) == (MULTI_PART, 5)
    table.log.store.delete([commit_path(version) for version in range(result.version)])
    assert table.by_core() == table.by_deltalake() == [(number, number % 2) for number in range(5)]


def test_tables_out_of_the_workers_reach_are_written_by_the_driver(spark, table, monkeypatch):
    monkeypatch.setattr(type(table.log.store), "table_uri", "hdfs://name-node/table")
    assert shared(spark, table.log).kind is CheckpointKind.CLASSIC


def test_where_workers_have_disks_of_their_own_the_driver_writes(spark, table, monkeypatch):
    monkeypatch.setattr(type(table.log.store), "status", lambda *_: None)
    result = shared(spark, table.log)
    assert (result.kind, result.files) == (CheckpointKind.CLASSIC, 7)


def test_rows_that_spark_wrote_are_read_after_it(spark, tmp_path, duckdb_connection):
    uri = str(tmp_path / "table")
    log = DeltaLog.for_table(uri)
    for number in range(3):
        write(spark, log, WriteStatement(table=uri, source=SqlSource(f"SELECT {number}L AS id, 'v{number}' AS v")))
    shared(spark, log)
    expected = [(number, f"v{number}") for number in range(3)]
    assert duckdb_connection.sql(f"SELECT * FROM delta_scan('{uri}') ORDER BY id").fetchall() == expected
    frame = DeltaTable(uri).to_pyarrow_table().sort_by("id").to_pydict()
    assert list(zip(*frame.values(), strict=True)) == expected


PATHS = st.sampled_from(["a", "b", "p=%20x/c", "file:/x/d", "/x/d", "e"])
DELETION_VECTORS = st.sampled_from([None, deletion_vector("v1"), deletion_vector("v1", 4), deletion_vector("v2", 9)])
TIMES = st.sampled_from([1, NOW - 8 * 86_400_000, NOW - 1])


def file_action(kind, path, deletion_vector, time, text):
    fields = {} if deletion_vector is None else {"deletionVector": deletion_vector}
    if kind == "remove":
        return remove(path, deletionTimestamp=time, partitionValues={"p": text}, size=3, **fields)
    stats = json.dumps({"numRecords": 5, "minValues": {"id": time}, "maxValues": {"id": time}, "nullCount": {"id": 0}})
    return add(path, partitionValues={"p": text}, stats=stats, tags={"t": text}, modificationTime=time, **fields)


ACTIONS = st.one_of(
    st.builds(
        file_action,
        st.sampled_from(["add", "add", "remove"]),
        PATHS,
        DELETION_VECTORS,
        TIMES,
        st.sampled_from(["", "ü", "x/y"]),
    ),
    st.builds(lambda app, version: {"txn": {"appId": app, "version": version, "lastUpdated": NOW}}, PATHS, st.integers(0, 9)),
    st.builds(
        lambda domain, removed: {"domainMetadata": {"domain": domain, "configuration": "{}", "removed": removed}},
        PATHS,
        st.booleans(),
    ),
)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    commits=st.lists(st.lists(ACTIONS, max_size=6), min_size=1, max_size=6),
    earlier=st.none() | st.integers(0, 5),
    as_struct=st.booleans(),
    is_v2=st.booleans(),
)
def test_whatever_the_history_both_write_the_same_or_find_the_same_fault(spark, commits, earlier, as_struct, is_v2):
    features = ["deletionVectors", *(["v2Checkpoint"] if is_v2 else [])]
    configuration = {"delta.checkpoint.writeStatsAsStruct": str(as_struct).lower()}
    schema = metadata(schema_string("p", id="long"), ("p",), **configuration)
    first = [protocol(3, 7, readerFeatures=features, writerFeatures=[*features, "domainMetadata"]), schema]
    with tempfile.TemporaryDirectory() as root:
        log = DeltaLog.for_table(root, clock=lambda: NOW)
        for version, actions in enumerate([first, *commits]):
            log.store.write(commit_path(version), "\n".join(map(json.dumps, actions)).encode())
        if earlier is not None and earlier < len(commits):
            outcome_of(lambda: log.checkpoint(earlier))
        copy = shutil.copytree(root, Path(root) / "copy")
        other = DeltaLog.for_table(str(copy), clock=lambda: NOW)
        kind = V2_JSON if is_v2 else MULTI_PART

        def by_core():
            snapshot = other.snapshot()
            snapshot.files()  # two live files of one path are only found when all are known
            return described(other.store, write_checkpoint(snapshot, now=NOW, kind=kind))

        expected = outcome_of(by_core)
        assert outcome_of(lambda: described(log.store, shared(spark, log))) == expected


def outcome_of(action):
    try:
        return action()
    except DeltaError as error:
        # Of several shared paths each names the first it meets, which of Spark's workers is a matter of time.
        return error.code, error.detail.partition(" have the path ")[0]


@pytest.mark.parametrize("kind", [MULTI_PART, V2_PARQUET])
def test_workers_and_driver_write_the_codec_of_the_table(spark, tmp_path, kind):
    table = RealTable(tmp_path / "table", lambda: 1_700_000_000_000, {"delta.parquet.compression.codec": "zstd"})
    if kind.is_v2:
        with_v2(table.root)
    for number in range(4):
        table.commit(adds=table.add(f"part/f{number}.parquet", number, "x"))
    shared(spark, table.log, kind=kind)

    files = [pq.read_metadata(file) for file in (table.root / "_delta_log").rglob("*.parquet")]
    assert {file.row_group(0).column(0).compression for file in files if file.num_row_groups} == {"ZSTD"}
