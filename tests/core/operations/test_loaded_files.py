"""A table's record of loaded files: it takes effect with the commit, and survives checkpoints and vacuums."""

import io

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.actions import SetTransaction
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import AccessDeniedError, LoadedFilesLostError, StorageAccessError, StorageUnavailableError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.operations.loaded_files import (
    APP_ID,
    KEPT_MILLISECONDS,
    LOADED_FILE,
    LOADED_FOLDER,
    LoadedFiles,
    copy_loaded_files,
    part_path,
    read_loaded_files,
    sweep_loaded_files,
    write_loaded_files,
)
from airflow_delta.core.schema.schema_json import parse_schema
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.transaction.operation import Operation

SCHEMA = parse_schema('{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}')


def rows(*names, time=1):
    count = len(names)
    columns = [[f"file:/in/{name}" for name in names], [10] * count, [time] * count, [time] * count]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, LOADED_FILE, strict=True)], LOADED_FILE)


def remember(log, loaded, *names):
    """A commit that names what is written."""
    transaction = log.start_transaction()
    transaction.transaction_version(APP_ID)
    after = write_loaded_files(log.store, loaded, rows(*names))
    transaction.commit(
        transactions=[SetTransaction(app_id=APP_ID, version=after.head)], operation=Operation(name="COPY INTO", parameters={})
    )
    return after


def names_of(loaded):
    return sorted(path.removeprefix("file:/in/") for path in loaded.files["path"].to_pylist())


@pytest.fixture
def log(tmp_path):
    log = DeltaLog.for_table(str(tmp_path / "table"))
    log.create(NewTable(schema=SCHEMA))
    return log


def test_files_count_from_the_commit_that_names_them_and_not_before(log):
    first = remember(log, LoadedFiles(), "a", "b")
    write_loaded_files(log.store, first, rows("never committed"))
    found = read_loaded_files(log.store, log.refresh())
    assert (names_of(found), found.head) == (["a", "b"], first.head)


def test_a_table_that_is_not_there_yet_remembers_nothing(log):
    assert len(read_loaded_files(log.store, None).files) == 0
    assert read_loaded_files(log.store, log.refresh()).head is None


def test_two_attempts_at_one_load_never_share_a_file(log):
    first = remember(log, LoadedFiles(), "a")
    ours, theirs = (write_loaded_files(log.store, first, rows(name)) for name in ("b", "c"))
    assert ours.head != theirs.head
    assert min(ours.head, theirs.head) > first.head  # the number of an application grows


def test_it_survives_checkpoints_log_cleanup_and_vacuum_of_another_engine(log, tmp_path):
    remember(log, LoadedFiles(), "a")
    log.checkpoint()
    for version in (0, 1):
        (tmp_path / "table" / "_delta_log" / f"{version:020d}.json").unlink()
    other = deltalake.DeltaTable(str(tmp_path / "table"))
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    other.create_checkpoint()
    assert other.transaction_version(APP_ID) > 0
    fresh = DeltaLog.for_table(str(tmp_path / "table"))
    log.vacuum(retention_hours=0, dry_run=False, enforce_retention=False)
    assert names_of(read_loaded_files(fresh.store, fresh.snapshot())) == ["a"]


def test_restore_does_not_change_what_was_loaded(log):
    remember(log, LoadedFiles(), "a")
    before = read_loaded_files(log.store, log.refresh())
    remember(log, before, "b")
    log.restore(version=1)
    assert names_of(read_loaded_files(log.store, log.refresh())) == ["a", "b"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_every_file_is_remembered_in_a_few_parts(sizes):
    store, loaded, expected = InMemoryLogStore(), LoadedFiles(), []
    for load, size in enumerate(sizes):
        names = [f"{load}-{number}" for number in range(size)]
        expected += names
        loaded = write_loaded_files(store, loaded, rows(*names))
    assert names_of(loaded) == sorted(expected)
    assert len(loaded.parts) <= 2 + sum(sizes).bit_length()
    assert [len(part.files) for part in loaded.parts] == sorted((len(part.files) for part in loaded.parts), reverse=True)


def test_a_file_that_was_loaded_again_is_found_as_it_was_last(log):
    first = write_loaded_files(log.store, LoadedFiles(), rows("a", time=1))
    for again in (write_loaded_files(log.store, first, rows("a", time=2)), LoadedFiles(parts=(*first.parts, *first.parts))):
        (position,) = again.positions(pa.chunked_array([["file:/in/a"]])).to_pylist()
        assert again.files["loaded_at"][position].as_py() == max(again.files["loaded_at"].to_pylist())


@pytest.mark.parametrize("content", [None, b"", b"no Parquet"])
def test_a_part_that_is_lost_ends_the_load_instead_of_doubling_rows(log, content):
    first = remember(log, LoadedFiles(), "a")
    log.store.delete([part_path(first.head)])
    if content is not None:
        log.store.write(part_path(first.head), content)
    with pytest.raises(LoadedFilesLostError, match="reload=True"):
        read_loaded_files(log.store, log.refresh())


def part_bytes(table, named):
    content = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"airflow_delta.parts": named}), content, use_dictionary=False)
    return content.getvalue()


def broken_page():
    content = bytearray(part_bytes(rows(*map(str, range(1000))), b"[]"))
    content[4:200] = b"\xff" * 196
    return bytes(content)


NOT_TEXT = pa.array([b"\xff\xfe"]).view(pa.string())


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(part_bytes(rows("a"), b"[" * 100_000), id="names too deep"),
        pytest.param(part_bytes(rows("a"), b'{"a": 1}'), id="names an object"),
        pytest.param(part_bytes(rows("a"), b"[1, 1]"), id="names one part twice"),
        pytest.param(part_bytes(rows("a"), b"[9223372036854775807]"), id="names a later part"),
        pytest.param(part_bytes(rows("a"), b"[true]"), id="names no number"),
        pytest.param(part_bytes(rows("a").drop_columns(["size"]), b"[]"), id="lacks a column"),
        pytest.param(part_bytes(rows("a").set_column(0, "path", [["a"]]).slice(0, 0), b"[1.5]"), id="names a fraction"),
        pytest.param(
            part_bytes(pa.table({**{name: [1] for name in LOADED_FILE.names}, "path": NOT_TEXT}), b"[]"), id="no text"
        ),
        pytest.param(part_bytes(pa.table({name: [None] for name in LOADED_FILE.names}), b"[]"), id="no paths"),
        pytest.param(broken_page(), id="broken page"),
    ],
)
def test_a_part_of_a_stranger_ends_the_load_with_the_file_in_the_error(log, content):
    first = remember(log, LoadedFiles(), "a")
    log.store.write(part_path(first.head), content)
    with pytest.raises(LoadedFilesLostError, match=part_path(first.head)):
        read_loaded_files(log.store, log.refresh())


@pytest.mark.parametrize("number", [-1, (1 << 63) - 1])
def test_a_number_that_no_load_can_have_written_ends_the_load(log, number):
    transaction = log.start_transaction()
    transaction.commit(
        transactions=[SetTransaction(app_id=APP_ID, version=number)], operation=Operation(name="COPY INTO", parameters={})
    )
    log.store.write(part_path(number), part_bytes(rows("a"), b"[]"))
    with pytest.raises(LoadedFilesLostError, match="which no load has written"):
        read_loaded_files(log.store, log.refresh())


def test_a_storage_that_does_not_answer_is_no_lost_part(log):
    first = remember(log, LoadedFiles(), "a")

    class Unavailable:
        table_uri = log.table_uri

        def open_input(self, path):
            raise StorageUnavailableError(uri=self.table_uri, detail=path)

    with pytest.raises(StorageUnavailableError, match=part_path(first.head)):
        read_loaded_files(Unavailable(), log.refresh())


def test_a_log_that_forgot_its_loads_is_noticed(log, tmp_path):
    remember(log, remember(log, LoadedFiles(), "a"), "b")
    again = DeltaLog.for_table(str(tmp_path / "table"))
    for commit in (tmp_path / "table" / "_delta_log").iterdir():
        commit.unlink()
    again.create(NewTable(schema=SCHEMA))
    with pytest.raises(LoadedFilesLostError, match="the log names none"):
        read_loaded_files(again.store, again.snapshot())


@pytest.mark.parametrize("cleaned_up", [False, True])
def test_a_table_that_forgot_its_only_load_while_it_might_is_noticed_when_it_must_not_any_more(log, tmp_path, cleaned_up):
    remember(log, LoadedFiles(), "a")
    log.alter().set_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})
    DeltaLog.for_table(str(tmp_path / "table"), clock=lambda: log.clock() + 2 * 24 * 3_600_000).checkpoint()
    log.alter().unset_properties("delta.setTransactionRetentionDuration")
    if cleaned_up:
        for version in range(3):
            (tmp_path / "table" / commit_path(version)).unlink()
    again = DeltaLog.for_table(str(tmp_path / "table"))
    assert APP_ID not in again.snapshot().transactions
    with pytest.raises(LoadedFilesLostError, match="has forgotten"):
        read_loaded_files(again.store, again.snapshot())


def test_the_first_load_that_was_killed_before_its_commit_is_none(log):
    write_loaded_files(log.store, LoadedFiles(), rows("a"))
    log.alter().set_properties({"user.key": "value"})
    assert read_loaded_files(log.store, log.refresh()).head is None


def test_a_table_that_may_forget_is_refused(log):
    log.alter().set_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})
    with pytest.raises(LoadedFilesLostError, match="setTransactionRetentionDuration"):
        read_loaded_files(log.store, log.refresh())


@pytest.mark.parametrize(
    "error",
    [
        AccessDeniedError(table="t", detail="the catalog denied new keys"),  # of a catalog that gives the keys
        StorageAccessError(uri="t", detail="no"),
        OSError("no answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_sweep_that_is_refused_behind_the_commit_does_not_fail_the_load(error, caplog):
    class Refusing(InMemoryLogStore):
        def list_from(self, directory, start=""):
            raise error

    sweep_loaded_files(Refusing(), [LoadedFiles()], 0)
    assert str(error) in caplog.text


def test_a_deep_clone_remembers_what_its_version_had_loaded_in_one_part(log, tmp_path):
    first = remember(log, remember(log, LoadedFiles(), "a"), "b", "c", "d", "e")
    remember(log, first, "late")
    target = tmp_path / "clone"
    log.deep_clone(str(target), version=2)
    clone = DeltaLog.for_table(str(target))
    cloned = read_loaded_files(clone.store, clone.snapshot())
    assert (names_of(cloned), len(cloned.parts)) == (["a", "b", "c", "d", "e"], 1)
    assert clone.history(1)[0].commit_info.operation == "CLONE"
    assert names_of(remember(clone, cloned, "f")) == ["a", "b", "c", "d", "e", "f"]
    log.deep_clone(str(target), mode="replace")  # the rows of f are gone, and those of late there
    assert names_of(read_loaded_files(clone.store, clone.refresh())) == ["a", "b", "c", "d", "e", "late"]


def test_a_deep_clone_of_a_table_without_loads_leaves_the_memory_of_the_one_that_it_replaces(log, tmp_path):
    other = DeltaLog.for_table(str(tmp_path / "other"))
    other.create(NewTable(schema=SCHEMA))
    remember(log, LoadedFiles(), "a")
    other.deep_clone(str(tmp_path / "table"), mode="replace")
    assert names_of(read_loaded_files(log.store, log.refresh())) == ["a"]


def test_a_deep_clone_of_a_table_whose_memory_is_lost_refuses_loads_as_that_does(log, tmp_path, caplog):
    first = remember(log, LoadedFiles(), "a")
    log.store.delete([part_path(first.head)])
    result = log.deep_clone(str(tmp_path / "clone"))
    clone = DeltaLog.for_table(str(tmp_path / "clone"))
    assert result.created
    assert "reload=True" in caplog.text
    with pytest.raises(LoadedFilesLostError, match=part_path(first.head)):
        read_loaded_files(clone.store, clone.snapshot())


def test_the_memory_of_a_deep_clone_that_was_killed_before_its_commit_counts_for_nothing(log, tmp_path):
    remember(log, remember(log, LoadedFiles(), "a"), "b")
    other = DeltaLog.for_table(str(tmp_path / "other"))
    (said,) = copy_loaded_files(log.refresh(), other.store, 1)
    other.create(NewTable(schema=SCHEMA))
    assert other.store.exists(part_path(said.version))
    assert names_of(read_loaded_files(other.store, other.snapshot())) == []


def test_what_no_commit_names_goes_after_a_week(log):
    first = remember(log, LoadedFiles(), "a")
    killed = write_loaded_files(log.store, first, rows("killed"))
    time = log.store.status(part_path(killed.head)).modification_time
    sweep_loaded_files(log.store, [first], time + KEPT_MILLISECONDS)
    sweep_loaded_files(log.store, [first], time + 2 * KEPT_MILLISECONDS, keep_for=3 * KEPT_MILLISECONDS)  # it may be staged
    assert len(list(log.store.list_from(LOADED_FOLDER))) == 2
    sweep_loaded_files(log.store, [first], time + KEPT_MILLISECONDS + 60_000)
    assert [status.path for status in log.store.list_from(LOADED_FOLDER)] == [part_path(first.head)]
