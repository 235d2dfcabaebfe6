"""The conflict rules, one by one, each with what its error says; then the attempt after being rebased over a winner."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_delta.core.actions import CommitActions, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainMetadataError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.predicate import TRUE, parse_predicate
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.conflict_checker import check_conflicts
from airflow_delta.core.transaction.isolation_level import IsolationLevel
from airflow_delta.core.transaction.winning_commit import WinningCommit

SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT_ISOLATION = IsolationLevel
LEGACY = Protocol(min_reader_version=1, min_writer_version=2)
JOB = {"jobName": "flights_daily", "jobRunId": "scheduled__2013-01-01"}


@pytest.fixture
def attempt(metadata):
    """An attempt on the partitioned table, read at version 4; keyword arguments are its fields."""
    return make_attempt(metadata)


@pytest.fixture
def flat_attempt(flat_metadata):
    return make_attempt(flat_metadata)


def make_attempt(metadata):
    def make(where=None, **values):
        schema = parse_schema(metadata.schema_string)
        if where:
            values["read_predicates"] = (parse_predicate(where, schema, "t"),)
        values = {"actions": CommitActions(), "protocol": LEGACY, **values}
        return CommitAttempt(table="t", read_version=4, metadata=metadata, schema=schema, **values)

    return make


def winner(version=5, **actions):
    info = CommitInfo(timestamp=1, operation="WRITE", fields={"operation": "WRITE", "job": JOB})
    return WinningCommit(version=version, actions=CommitActions(**{"commit_info": info, **actions}))


def blind(**actions):
    info = CommitInfo(timestamp=1, operation="WRITE", is_blind_append=True, fields={"operation": "WRITE"})
    return WinningCommit(version=5, actions=CommitActions(commit_info=info, **actions))


def files(*paths):
    return pa.array(paths, pa.string())


# -- protocol


def test_a_new_protocol_that_keeps_all_features_is_taken_over(attempt):
    newer = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset({"timestampNtz"}),
        writer_features=frozenset({"timestampNtz", "appendOnly", "invariants"}),
    )
    assert check_conflicts(attempt(), winner(protocol=newer)).protocol == newer


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(LEGACY, LEGACY, id="both-set-it"),
        pytest.param(None, Protocol(min_reader_version=1, min_writer_version=1), id="features-implied-before-are-gone"),
        pytest.param(
            None,
            Protocol(min_reader_version=1, min_writer_version=7, writer_features=frozenset({"appendOnly"})),
            id="a-feature-is-gone",
        ),
    ],
)
def test_a_changed_protocol_conflicts(attempt, ours, theirs):
    with pytest.raises(ProtocolChangedError) as caught:
        check_conflicts(attempt(actions=CommitActions(protocol=ours)), winner(protocol=theirs))
    assert (caught.value.table, caught.value.read_version, caught.value.winning_version) == ("t", 4, 5)


@pytest.mark.parametrize(
    ("reader", "writer", "error", "features"),
    [
        ({"futureFeature"}, {"futureFeature"}, UnsupportedReaderFeatureError, ("futureFeature",)),
        (set(), {"futureFeature"}, UnsupportedWriterFeatureError, ("futureFeature",)),
    ],
)
def test_a_protocol_that_is_not_known_here_is_refused(attempt, reader, writer, error, features):
    known = {"appendOnly", "invariants"}
    theirs = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=frozenset(reader),
        writer_features=frozenset(writer | known),
    )
    with pytest.raises(error) as caught:
        check_conflicts(attempt(), winner(protocol=theirs))
    assert caught.value.features == features


# -- metadata, domains, applications


@pytest.mark.parametrize("level", IsolationLevel)
def test_new_metadata_conflicts_with_everything_also_with_a_blind_append(attempt, metadata, added, level):
    ours = attempt(isolation_level=level, actions=CommitActions(adds=added(("new", "1", None))))
    for changed in (replace(metadata, partition_columns=()), replace(metadata, id="another table")):
        with pytest.raises(MetadataChangedError) as caught:
            check_conflicts(ours, winner(metadata=changed))
        assert caught.value.winning_version == 5
        assert caught.value.winner["job"] == JOB


def test_one_domain_set_twice_conflicts_and_two_domains_do_not(attempt):
    ours = attempt(actions=CommitActions(domains=(DomainMetadata(domain="a", configuration="1"),)))
    check_conflicts(ours, winner(domains=(DomainMetadata(domain="b", configuration="2"),)))
    with pytest.raises(ConcurrentDomainMetadataError) as caught:
        check_conflicts(ours, winner(domains=(DomainMetadata(domain="a", configuration="2"),)))
    assert caught.value.domain == "a"


@pytest.mark.parametrize(
    ("read", "conflicts"),
    [
        pytest.param({"app"}, True, id="requested-for"),
        pytest.param({"other"}, False, id="another-application"),
        pytest.param(set(), False, id="written-without-a-request"),
    ],
)
def test_progress_of_an_application_conflicts_where_it_was_read(attempt, read, conflicts):
    written = CommitActions(transactions=(SetTransaction(app_id="app", version=2),))
    ours, theirs = attempt(read_app_ids=frozenset(read), actions=written), winner(transactions=written.transactions)
    if not conflicts:
        check_conflicts(ours, theirs)
        return
    with pytest.raises(ConcurrentTransactionError) as caught:
        check_conflicts(ours, theirs)
    assert caught.value.app_id == "app"


# -- added files


@pytest.mark.parametrize(
    ("level", "blind_winner", "conflicts"),
    [
        pytest.param(SERIALIZABLE, True, True, id="serializable-sees-blind-append"),
        pytest.param(SERIALIZABLE, False, True, id="serializable-sees-rewrite"),
        pytest.param(WRITE_SERIALIZABLE, True, False, id="write-serializable-lets-blind-append-pass"),
        pytest.param(WRITE_SERIALIZABLE, False, True, id="write-serializable-sees-rewrite"),
        pytest.param(SNAPSHOT_ISOLATION, True, False, id="snapshot-isolation-ignores-appends"),
        pytest.param(SNAPSHOT_ISOLATION, False, False, id="snapshot-isolation-ignores-rewrites"),
    ],
)
def test_an_append_into_what_the_attempt_read(attempt, added, level, blind_winner, conflicts):
    ours = attempt("day = '1'", isolation_level=level)
    theirs = (blind if blind_winner else winner)(adds=added(("other", "2", (0, 9)), ("b", "1", (0, 9))))
    if not conflicts:
        check_conflicts(ours, theirs)
        return
    with pytest.raises(ConcurrentAppendError) as caught:
        check_conflicts(ours, theirs)
    error = caught.value
    assert (error.table, error.read_version, error.winning_version) == ("t", 4, 5)
    assert (error.path, error.partition) == ("b", {"day": "1"})
    assert error.winner["operation"] == "WRITE"


def test_a_schema_change_at_write_serializable_does_not_let_blind_appends_pass(attempt, added, metadata):
    ours = attempt("day = '1'", isolation_level=WRITE_SERIALIZABLE, actions=CommitActions(metadata=metadata))
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(ours, blind(adds=added(("b", "1", None))))


@pytest.mark.parametrize(
    ("where", "file", "conflicts"),
    [
        pytest.param("day = '1'", ("b", "2", None), False, id="another-partition"),
        pytest.param("day = '1'", ("b", None, None), False, id="null-partition-is-no-match"),
        pytest.param("day = '1' AND key = 5", ("b", "1", (6, 9)), False, id="statistics-exclude-the-key"),
        pytest.param("day = '1' AND key = 5", ("b", "1", (5, 9)), True, id="statistics-admit-the-key"),
        pytest.param("day = '1' AND key = 5", ("b", "1", None), True, id="no-statistics"),
        pytest.param("key BETWEEN 3 AND 4", ("b", "7", (5, 9)), False, id="data-predicate-only"),
        pytest.param("rand() < 0.5 AND day = '1'", ("b", "1", (5, 9)), True, id="undecidable-part-may-hold"),
        pytest.param("rand() < 0.5 AND day = '1'", ("b", "2", (5, 9)), False, id="decidable-part-excludes"),
    ],
)
def test_an_added_file_conflicts_only_if_it_may_hold_a_row_that_was_looked_for(attempt, added, where, file, conflicts):
    ours, theirs = attempt(where), winner(adds=added(file))
    if not conflicts:
        check_conflicts(ours, theirs)
        return
    with pytest.raises(ConcurrentAppendError) as caught:
        check_conflicts(ours, theirs)
    assert caught.value.path == "b"


def test_any_of_several_predicates_counts(flat_attempt, added):
    schema = flat_attempt().schema
    ours = flat_attempt(read_predicates=tuple(parse_predicate(f"key = {key}", schema, "t") for key in (1, 5)))
    check_conflicts(ours, winner(adds=added(("b", None, (2, 4)))))
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(ours, winner(adds=added(("b", None, (2, 5)))))


def test_disjoint_keys_of_an_unpartitioned_table_do_not_conflict(flat_attempt, added, removed):
    ours = flat_attempt("key >= 0 AND key <= 9", read_files=files("f0"), actions=CommitActions(removes=removed("f0")))
    check_conflicts(ours, winner(adds=added(("f1b", None, (10, 19))), removes=removed("f1")))


@pytest.mark.parametrize("read", [{"read_predicates": (TRUE,)}, {"read_whole_table": True}])
def test_whoever_read_everything_conflicts_with_every_file(attempt, added, read):
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(attempt(**read), winner(adds=added(("b", "2", (0, 0)))))


def test_two_blind_appends_pass_each_other(flat_attempt, added):
    ours = flat_attempt(actions=CommitActions(adds=added(("a", None, (0, 9)))))
    check_conflicts(ours, winner(adds=added(("b", None, (0, 9)))))


# -- removed files


@pytest.mark.parametrize("level", IsolationLevel)
def test_a_removed_file_that_was_read_conflicts_at_every_level(attempt, removed, level):
    ours = attempt(isolation_level=level, read_files=files("x", "f2"))
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        check_conflicts(ours, winner(removes=removed("f1", "f2")))
    assert (caught.value.path, caught.value.winning_version) == ("f2", 5)


def test_a_removed_file_that_was_not_read_does_not_conflict(attempt, removed):
    check_conflicts(attempt(read_files=files("f1")), winner(removes=removed("f2")))


def test_any_removed_file_conflicts_with_whoever_read_the_whole_table(attempt, removed):
    with pytest.raises(ConcurrentDeleteReadError):
        check_conflicts(attempt(read_whole_table=True), winner(removes=removed("f2")))


@pytest.mark.parametrize("data_change", [True, False])
def test_a_file_removed_twice_conflicts_even_when_neither_changed_data(attempt, added, removed, data_change):
    ours = attempt(actions=CommitActions(removes=removed("f1", data_change=data_change)))
    theirs = winner(adds=added(("b", "1", None), data_change=data_change), removes=removed("f1", data_change=data_change))
    with pytest.raises(ConcurrentDeleteDeleteError) as caught:
        check_conflicts(ours, theirs)
    assert caught.value.path == "f1"


# -- winners that only rearrange


def test_a_compaction_of_what_was_read_passes_and_its_files_count_as_read_from_then_on(attempt, added, removed):
    ours = attempt("day = '1' AND key = 3", read_files=files("f1"), actions=CommitActions(adds=added(("new", "9", (3, 3)))))
    compaction = winner(5, adds=added(("f2", "1", (0, 9)), data_change=False), removes=removed("f1", data_change=False))

    ours = check_conflicts(ours, compaction)

    assert ours.read_files.to_pylist() == ["f1", "f2"]
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        check_conflicts(ours, winner(6, adds=added(("f3", "1", (4, 9))), removes=removed("f2")))
    assert (caught.value.path, caught.value.winning_version) == ("f2", 6)


def test_a_compaction_of_other_files_leaves_the_attempt_as_it_was(attempt, added, removed):
    ours = attempt("day = '1'", read_files=files("f1"))
    compaction = winner(adds=added(("g2", "1", (0, 9)), data_change=False), removes=removed("g1", data_change=False))
    assert check_conflicts(ours, compaction) is ours


def test_an_add_without_data_change_but_without_any_removal_is_taken_for_new_rows(attempt, added):
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(attempt("day = '1'"), winner(adds=added(("f2", "1", (0, 9)), data_change=False)))


def test_a_winner_that_rearranges_and_changes_in_one_commit_is_taken_for_a_change(attempt, added, removed):
    theirs = winner(adds=added(("f2", "1", (0, 9)), data_change=False), removes=removed("f1", data_change=True))
    with pytest.raises(ConcurrentDeleteReadError):
        check_conflicts(attempt(read_files=files("f1")), theirs)


@pytest.mark.parametrize(("ours", "theirs"), [("/lake/f", "file:/lake/f"), ("file:///lake/f", "/lake/f")])
def test_a_file_is_one_file_however_two_engines_spell_its_place(attempt, removed, ours, theirs):
    with pytest.raises(ConcurrentDeleteReadError):
        check_conflicts(attempt(read_files=files(ours)), winner(removes=removed(theirs)))
    with pytest.raises(ConcurrentDeleteDeleteError):
        check_conflicts(attempt(actions=CommitActions(removes=removed(ours))), winner(removes=removed(theirs)))


# -- what can be proved of added files beyond their partition


@pytest.mark.parametrize(
    ("where", "stats", "conflicts"),
    [
        pytest.param("key = 5", {"minValues": {"key": 0}, "maxValues": {"key": 4}}, False, id="wide-bounds-exclude"),
        pytest.param("key = 5", {"minValues": {"key": 0}, "maxValues": {"key": 9}}, True, id="wide-bounds-admit"),
        pytest.param("key IS NULL", {"nullCount": {"key": 0}}, False, id="no-nulls-even-if-bounds-are-wide"),
        pytest.param("key IS NULL", {"nullCount": {"key": 1}}, True, id="some-nulls"),
        pytest.param("key IS NULL", {}, True, id="nulls-unknown"),
        pytest.param("key = 5", {"nullCount": {"key": 2}}, False, id="nothing-but-nulls"),
        pytest.param(
            "key = 5 OR key IS NULL", {"minValues": {"key": 6}, "maxValues": {"key": 9}}, True, id="nulls-among-others"
        ),
    ],
)
def test_statistics_prove_only_what_they_say(flat_attempt, added, where, stats, conflicts):
    files = added(("b", None, None))
    text = json.dumps({"numRecords": 2, "tightBounds": False, **stats})
    files = files.set_column(5, files.schema.field(5), [[text]])
    ours = flat_attempt(where)
    if not conflicts:
        check_conflicts(ours, winner(adds=files))
        return
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(ours, winner(adds=files))


def test_statistics_are_about_physical_names(added):
    mapping = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-1"}
    column = {"name": "number", "type": "long", "nullable": True, "metadata": mapping}
    mapped = Metadata(
        id="m",
        schema_string=json.dumps({"type": "struct", "fields": [column]}),
        configuration={"delta.columnMapping.mode": "name"},
    )
    ours = make_attempt(mapped)("number = 5")
    files = added(("b", None, None))
    for bounds, conflicts in (((6, 9), False), ((0, 9), True)):
        low, high = ({"col-1": value} for value in bounds)
        text = json.dumps({"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": {"col-1": 0}})
        theirs = winner(adds=files.set_column(5, files.schema.field(5), [[text]]))
        if conflicts:
            with pytest.raises(ConcurrentAppendError):
                check_conflicts(ours, theirs)
        else:
            check_conflicts(ours, theirs)


def test_a_look_into_the_added_files_settles_what_their_statistics_admit(flat_attempt, added):
    seen = []

    def settle(found):
        def look(files):
            seen.append(files["path"].to_pylist())
            return files.filter(pa.array([path in found for path in files["path"].to_pylist()]))

        return look

    theirs = winner(adds=added(("far", None, (90, 99)), ("near", None, (0, 9)), ("hit", None, (0, 9))))
    check_conflicts(
        flat_attempt("key = 5", confirm_conflicting_files=settle([])), theirs
    )  # Delta Spark: ConcurrentAppendException
    with pytest.raises(ConcurrentAppendError) as caught:
        check_conflicts(flat_attempt("key = 5", confirm_conflicting_files=settle(["hit"])), theirs)
    assert caught.value.path == "hit"
    assert seen == [["near", "hit"]] * 2


def test_a_transaction_that_read_everything_confirms_no_files(flat_attempt, added):
    ours = flat_attempt(read_whole_table=True, confirm_conflicting_files=lambda files: files.slice(0, 0))
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(ours, winner(adds=added(("near", None, (0, 9)))))


def test_a_file_that_was_read_and_gets_other_statistics_holds_no_new_row(attempt, added):
    described = winner(adds=added(("f1", "1", (0, 9)), data_change=False))
    check_conflicts(attempt("day = '1'", read_files=files("f1")), described)
    with pytest.raises(ConcurrentAppendError):
        check_conflicts(attempt("day = '1'", read_files=files("f2")), described)


@pytest.mark.parametrize("operation", ["ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"])
def test_a_backfill_adds_no_row(attempt, added, operation):
    info = CommitInfo(timestamp=1, operation=operation)
    check_conflicts(attempt("day = '1'"), winner(commit_info=info, adds=added(("f1", "1", (0, 9)), data_change=False)))


# -- statements that decide row by row


def test_rows_that_are_gone_do_not_matter_to_a_row_wise_statement(attempt, removed):
    ours = attempt("day = '1'", read_files=files("f1", "f2"), actions=CommitActions(removes=removed("f2")))
    with pytest.raises(ConcurrentDeleteReadError):
        check_conflicts(ours, winner(removes=removed("f1")))
    check_conflicts(replace(ours, row_wise=True), winner(removes=removed("f1")))
    with pytest.raises(ConcurrentDeleteDeleteError):
        check_conflicts(replace(ours, row_wise=True), winner(removes=removed("f2")))


# -- what calls itself a blind append


def test_only_new_rows_of_an_attempt_that_read_nothing_are_a_blind_append(attempt, added, removed):
    assert attempt(actions=CommitActions(adds=added(("a", "1", None)))).is_blind_append
    assert attempt().is_blind_append
    assert not attempt(actions=CommitActions(adds=added(("a", "1", None), data_change=False))).is_blind_append
    assert not attempt(actions=CommitActions(removes=removed("a"))).is_blind_append
    assert not attempt(read_whole_table=True).is_blind_append
