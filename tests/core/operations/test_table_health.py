import json
import shutil

import pyarrow as pa
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, checkpoint_path, checksum_path, commit_path
from airflow_delta.core.log.version_checksum import VersionChecksum
from airflow_delta.core.operations.table_health import Severity, check_health
from tests.core.builders import HandmadeLog, add, deletion_vector, metadata, protocol, remove

COUNTED = json.dumps({"numRecords": 1})
WEEK = 7 * 86_400_000


def file(path, **fields):
    return add(path, stats=COUNTED, **fields)


def handmade(*actions, **configuration):
    """A table whose named data files are there, each of one byte."""
    log = HandmadeLog().create(*actions, **configuration)
    for action in actions:
        log.store.write(action["add"]["path"], b"x")
    return log


def codes(log, **options):
    return [(finding.severity, finding.code) for finding in check_health(log.log, **options).findings]


def only(log, code):
    (found,) = (finding for finding in check_health(log.log).findings if finding.code == code)
    return found


def test_a_sound_table_has_no_findings_and_its_figures():
    health = check_health(handmade(file("a"), file("b")).log)
    assert (health.version, health.findings, health.is_sound) == (0, (), True)
    assert health.figures == {
        "files": 2,
        "bytes": 2,
        "small_files": 2,
        "deletion_vectors": 0,
        "commits_since_checkpoint": 1,
        "unneeded_files": 0,
        "unneeded_bytes": 0,
    }


def test_where_there_is_no_table_nothing_can_be_examined():
    with pytest.raises(TableNotFoundError):
        check_health(HandmadeLog().log)


def test_where_there_is_no_table_nothing_is_listed(monkeypatch):
    log = HandmadeLog()
    list_all = log.store.list_all

    def refuse_root(directory="", start=""):
        return list_all(directory, start) if directory else pytest.fail("listed")

    monkeypatch.setattr(log.store, "list_all", refuse_root)
    with pytest.raises(TableNotFoundError):
        check_health(log.log)


def test_a_commit_that_comes_while_files_are_listed_loses_none(monkeypatch):
    log = handmade(file("a"))
    list_all = log.store.list_all

    def busy(directory="", start=""):
        listed = [*list_all(directory, start)]
        if not directory:
            log.store.write("b", b"x")
            log.commit(file("b"))
        return iter(listed)

    monkeypatch.setattr(log.store, "list_all", busy)
    assert codes(log) == []


def test_a_table_that_does_not_open_is_an_error_with_the_readers_own_words():
    log = handmade(file("a")).commit("{not JSON", "{}")
    found = only(log, "DELTA_CORRUPT_LOG")
    assert (found.severity, found.files) == (Severity.ERROR, (commit_path(1),))
    assert check_health(log.log).version == 1


def test_a_table_that_can_only_be_read_is_a_warning():
    log = HandmadeLog().commit(protocol(1, 7, writerFeatures=["novelty"]), metadata())
    assert codes(log) == [(Severity.WARNING, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE")]


def test_live_files_that_are_missing_or_were_changed_are_named_decoded():
    log = handmade(file("a")).commit(file("lost%20one"), file("grown"))
    log.store.write("grown", b"more")
    assert only(log, "MISSING_DATA_FILES").files == ("lost one",)
    assert only(log, "DATA_FILES_CHANGED").files == ("grown",)
    assert not check_health(log.log).is_sound


def test_a_missing_file_of_deletion_vectors_is_named_and_one_that_is_there_may_have_any_size():
    name = "deletion_vector_a7662111-e622-43dc-b3a2-c65286cb99a9.bin"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log = HandmadeLog().commit(protocol(3, 7, **features), metadata())
    log.commit(*(file(path, deletionVector=deletion_vector("R!d7:<%0gFV.CDqHrD0:", 1)) for path in ("a", "b")), file("c"))
    for path in ("a", "b", "c"):
        log.store.write(path, b"x")
    found = only(log, "MISSING_DATA_FILES")
    assert (found.severity, found.files) == (Severity.ERROR, (name,))
    assert found.text.startswith("1 of 4 live data files and files of deletion vectors are missing")
    log.store.write(name, b"as large as it may be")
    assert codes(log) == []


def test_files_behind_a_link_to_a_directory_are_missing_only_where_no_reader_finds_them(real_table, tmp_path):
    table = real_table()
    table.commit(adds=pa.concat_tables([table.add(f"p={part}/0.parquet", 1, part) for part in "xy"]))
    shutil.move(table.root / "p=x", tmp_path / "elsewhere")
    (table.root / "p=x").symlink_to(tmp_path / "elsewhere")
    readable = DeltaLog.for_table(str(table.root), allowed_prefixes=[f"{tmp_path}/elsewhere"])
    assert check_health(readable).findings == ()
    (missing,) = check_health(table.log).findings
    assert (missing.code, missing.files) == ("MISSING_DATA_FILES", ("p=x/0.parquet",))


def test_a_file_whose_name_no_file_can_have_is_missing(real_table):
    table, name = real_table(), "x" * 300
    table.commit(adds=table.add("0.parquet", 1, "x"))
    actions = [json.dumps(add(name, stats=COUNTED, partitionValues={"p": "x"}))]
    (table.root / commit_path(2)).write_text("\n".join(actions))
    (missing,) = check_health(table.log).findings
    assert (missing.code, missing.files) == ("MISSING_DATA_FILES", (name,))


def test_without_a_listing_files_are_not_looked_for():
    log = handmade(file("a")).commit(file("lost"))
    assert codes(log, list_files=False) == []


def test_files_elsewhere_are_not_looked_for():
    assert codes(handmade().commit(file("file:///somewhere/else"), file("/somewhere"))) == []


def test_a_file_with_two_deletion_vectors_is_an_error():
    log = handmade(file("a")).commit(remove("a"), file("a", deletionVector=deletion_vector("x"))).commit(file("a"))
    found = [finding.code for finding in check_health(log.log).findings]
    assert found[0] in {"DOUBLED_DATA_FILES", "DELTA_CORRUPT_LOG"}
    assert not check_health(log.log).is_sound


def test_missing_commits_are_named():
    log = handmade(file("a")).commit().commit()
    log.checkpoint(2, protocol(), metadata(), file("a")).commit()
    log.remove_commits(1)
    assert only(log, "COMMITS_MISSING").files == (commit_path(1),)


def test_missing_commits_before_a_commit_of_any_number_are_counted_and_a_few_named():
    log = handmade(file("a"))
    log.store.write(commit_path(10**15), log.store.read(commit_path(0)))
    found = only(log, "COMMITS_MISSING")
    assert found.text.startswith(f"{10**15 - 1:,} commits missing")
    assert found.files == tuple(map(commit_path, range(1, 6)))


def test_a_checkpoint_that_was_passed_over_is_named():
    log = handmade(file("a")).commit()
    log.checkpoint(1, protocol(), metadata(), file("a"))
    path = "_delta_log/00000000000000000001.checkpoint.parquet"
    log.store.write(path, b"PAR1 garbage")
    assert only(log, "CHECKPOINT_UNREADABLE").files == (path,)


def test_a_checkpoint_that_is_broken_where_its_files_are_is_named_too():
    log = handmade(file("a")).commit()
    log.checkpoint(1, protocol(), metadata(), {"add": {"size": 1}})
    assert only(log, "CHECKPOINT_UNREADABLE").files == (checkpoint_path(1),)


def test_a_wrong_checksum_is_a_warning():
    log = handmade(file("a"))
    snapshot = log.log.snapshot()
    says = VersionChecksum(num_files=1, table_size=100, protocol=snapshot.protocol, metadata=snapshot.metadata)
    log.store.write(checksum_path(0), json.dumps(says.to_json()).encode())
    size = snapshot.files()["size"][0].as_py()
    assert f"table_size is {size}, not 100" in only(log, "CHECKSUM_WRONG").text
    log.store.write(checksum_path(0), json.dumps({**says.to_json(), "tableSizeBytes": size}).encode())
    assert codes(log) == []


@pytest.mark.parametrize(
    ("hint", "text"), [(b"{", "cannot be read"), (b'{"version":9,"size":1}', "version 9"), (b'{"version":9999}', "9999")]
)
def test_a_hint_that_lies_is_a_warning_and_its_remedy_mends_it(hint, text):
    log = handmade(file("a"))
    log.store.write(LAST_CHECKPOINT, hint)
    found = only(log, "HINT_WRONG")
    assert text in found.text
    assert found.remedy.startswith("write a checkpoint")
    log.log.checkpoint()
    assert codes(log) == []


def test_a_checkpoint_is_overdue_after_ten_intervals():
    log = handmade(file("a"), **{"delta.checkpointInterval": "2"})
    for _ in range(19):
        log.commit()
    assert codes(log) == []
    assert codes(log.commit()) == [(Severity.HINT, "CHECKPOINT_OVERDUE")]


def test_files_without_statistics_are_counted():
    log = handmade(file("a"), add("b"))
    assert only(log, "STATISTICS_MISSING").files == ("b",)


def test_many_small_files_are_a_hint():
    assert codes(handmade(*(file(f"f{number}") for number in range(99)))) == []
    assert codes(handmade(*(file(f"f{number}") for number in range(100)))) == [(Severity.HINT, "SMALL_FILES")]


def test_what_a_vacuum_would_delete_is_counted_by_the_tables_own_retention():
    log = handmade(file("a"))
    log.store.write("orphan", b"12345")
    log.log.clock = lambda: log.now
    assert check_health_at(log, log.now + WEEK + 1_000).figures["unneeded_bytes"] == 5
    assert check_health_at(log, log.now + WEEK - 1_000).figures["unneeded_bytes"] == 0


def check_health_at(log, now):
    delta_log = log.log
    delta_log.clock = lambda: now
    return check_health(delta_log)


def test_a_retention_of_minutes_is_a_warning():
    log = handmade(file("a"), **{"delta.deletedFileRetentionDuration": "interval 30 minutes"})
    assert codes(log) == [(Severity.WARNING, "RETENTION_SHORT")]


def test_many_strangers_in_the_log_are_a_hint():
    log = handmade(file("a"))
    for number in range(101):
        log.store.write(f"_delta_log/.part-{number}.tmp", b"x")
    assert codes(log) == [(Severity.HINT, "STRAY_LOG_FILES")]


def test_the_result_is_json():
    log = handmade(file("a")).commit(file("lost"))
    document = json.loads(json.dumps(check_health(log.log).to_json()))
    assert document["findings"][0]["severity"] == "error"


@pytest.mark.parametrize("name", ["delta.deletedFileRetentionDuration", "delta.logRetentionDuration"])
def test_a_retention_that_is_not_understood_is_a_warning(name):
    log = handmade(file("a"), **{name: "a month"})
    found = only(log, "DELTA_INVALID_TABLE_PROPERTY")
    assert found.severity is Severity.WARNING
    assert name in found.text
    assert "'a month'" in found.text
