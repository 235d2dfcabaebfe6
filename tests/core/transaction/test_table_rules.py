"""The rules about the table as a whole, and the attempt rebased over a winner."""

import json
from dataclasses import replace

import pytest

from airflow_delta.core.actions import CommitActions, CommitInfo, DomainMetadata, Metadata, Protocol
from airflow_delta.core.errors import (
    ConcurrentDomainMetadataError,
    ConcurrentWriteError,
    DuplicateActionError,
    InvalidProtocolError,
    MetadataChangedError,
    MissingRecordCountError,
    ProtocolChangedError,
    UnsupportedWriterFeatureError,
)
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.conflict_checker import RULES, check_conflicts
from airflow_delta.core.transaction.winning_commit import WinningCommit

FEATURES = frozenset(
    {
        "rowTracking",
        "domainMetadata",
        "inCommitTimestamp",
        "columnMapping",
        "deletionVectors",
        "typeWidening-preview",
        "clustering",
    }
)
READERS = FEATURES & {"columnMapping", "deletionVectors", "typeWidening-preview"}
MODERN = Protocol(min_reader_version=3, min_writer_version=7, reader_features=READERS, writer_features=FEATURES)
MARK = "delta.rowTracking"


def schema_string(key_metadata=None, day_type="string"):
    fields = {"day": (day_type, {}), "key": ("long", key_metadata or {})}
    return json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": metadata}
                for name, (kind, metadata) in fields.items()
            ],
        }
    )


def table_metadata(schema=None, **configuration):
    return Metadata(id="m", schema_string=schema or schema_string(), partition_columns=("day",), configuration=configuration)


def make_attempt(metadata=None, protocol=MODERN, operation="WRITE", **values):
    metadata = metadata or table_metadata()
    actions = values.pop("actions", CommitActions())
    actions = replace(actions, commit_info=CommitInfo(timestamp=100, operation=operation))
    schema = parse_schema(metadata.schema_string)
    return CommitAttempt(
        table="t", read_version=4, protocol=protocol, metadata=metadata, schema=schema, actions=actions, **values
    )


def won(version=5, operation="WRITE", file_time=None, in_commit_timestamp=None, **actions):
    info = CommitInfo(timestamp=50, operation=operation, in_commit_timestamp=in_commit_timestamp)
    return WinningCommit(version=version, actions=CommitActions(**{"commit_info": info, **actions}), file_time=file_time)


def mark(number):
    return DomainMetadata(domain=MARK, configuration=json.dumps({"rowIdHighWaterMark": number, "domainName": MARK}))


def ids(actions):
    columns = zip(actions.adds["base_row_id"].to_pylist(), actions.adds["default_row_commit_version"].to_pylist(), strict=True)
    return dict(zip(actions.adds["path"].to_pylist(), columns, strict=True))


def mark_of(actions):
    return [json.loads(domain.configuration)["rowIdHighWaterMark"] for domain in actions.domains if domain.domain == MARK]


def test_the_rules_are_applied_in_the_order_of_delta_spark():
    assert [rule.__name__ for rule in RULES] == [
        "rebase_forbidden",
        "protocol_changed",
        "dropped_feature_used",
        "metadata_changed",
        "domain_set",
        "application_progressed",
        "bins_lost",
        "row_ids_given",
        "version_named",
        "added_files_the_attempt_should_have_read",
        "removed_files_the_attempt_read",
        "removed_files_the_attempt_removes_too",
        "time_taken",
    ]


def test_a_conflict_names_its_rule_and_the_task_run_that_won_and_no_token():
    record = {"dag_id": "daily", "task_id": "load", "run_id": "r1", "map_index": -1, "try_number": 2}
    job = {"jobId": "daily", "jobName": "daily.load", "jobRunId": "r1"}
    fields = {"operation": "MERGE", "job": job, "airflowDelta": {**record, "token": "our own business"}}
    info = CommitInfo.from_json(fields)
    with pytest.raises(ConcurrentWriteError) as caught:
        check_conflicts(make_attempt(may_rebase=False), WinningCommit(version=5, actions=CommitActions(commit_info=info)))
    error = caught.value
    assert (error.rule, error.winning_run) == ("rebase_forbidden", record)
    assert "(made by daily.load, run r1; rule rebase_forbidden)" in str(error)
    assert "our own business" not in json.dumps(error.to_json())
    assert error.winner["operation"] == "MERGE"


# -- protocol: dropping a feature


def without(*names):
    return replace(MODERN, writer_features=FEATURES - set(names), reader_features=READERS - set(names))


def with_deletion_vectors(added):
    deletion_vector = {"storage_type": "i", "path_or_inline_dv": "x", "offset": None, "size_in_bytes": 1, "cardinality": 1}
    rows = [{**row, "deletion_vector": deletion_vector} for row in added(("f", "1", (0, 1))).to_pylist()]
    return added().from_pylist(rows, schema=added().schema)


@pytest.mark.parametrize(
    ("dropped", "winner", "conflicts"),
    [
        pytest.param("deletionVectors", lambda added: won(adds=with_deletion_vectors(added)), True, id="written"),
        pytest.param("deletionVectors", lambda added: won(adds=added(("f", "1", (0, 1)))), False, id="not-written"),
        pytest.param(
            "domainMetadata", lambda added: won(domains=(DomainMetadata(domain="d", configuration=""),)), True, id="domain-set"
        ),
        pytest.param(
            "clustering",
            lambda added: won(domains=(DomainMetadata(domain="delta.clustering", configuration=""),)),
            True,
            id="clustered",
        ),
        pytest.param("columnMapping", lambda added: won(metadata=table_metadata(user="x")), True, id="any-metadata"),
        pytest.param("columnMapping", lambda added: won(adds=added(("f", "1", (0, 1)))), False, id="rows-do-not-matter"),
    ],
)
def test_a_feature_is_dropped_unless_the_winner_used_it(added, dropped, winner, conflicts):
    attempt = make_attempt(actions=CommitActions(protocol=without(dropped)), protocol=MODERN)
    if not conflicts:
        check_conflicts(attempt, winner(added))
        return
    with pytest.raises((ProtocolChangedError, MetadataChangedError)) as caught:
        check_conflicts(attempt, winner(added))
    assert caught.value.rule == "dropped_feature_used"


def test_the_version_from_which_history_is_free_of_a_dropped_feature_moves_on():
    protected = {"delta.requireCheckpointProtectionBeforeVersion": "5"}
    attempt = make_attempt(actions=CommitActions(protocol=without("columnMapping"), metadata=table_metadata(**protected)))
    moved = check_conflicts(attempt, won(5))
    assert moved.actions.metadata.configuration == {"delta.requireCheckpointProtectionBeforeVersion": "6"}


# -- metadata


MAPPED_KEY = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "key"}
MAPPING = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
TIMES = {
    "delta.enableInCommitTimestamps": "true",
    "delta.inCommitTimestampEnablementVersion": "5",
    "delta.inCommitTimestampEnablementTimestamp": "70",
}
TRACKING = {"delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": "_r"}


@pytest.mark.parametrize(
    ("before", "after", "harmless"),
    [
        pytest.param({}, {}, True, id="nothing-changed"),
        pytest.param({}, TRACKING, True, id="row-tracking-enabled"),
        pytest.param(TRACKING, {**TRACKING, "delta.enableRowTracking": "false"}, False, id="row-tracking-disabled"),
        pytest.param({}, {"delta.rowTracking.materializedRowIdColumnName": "_r"}, False, id="names-without-row-tracking"),
        pytest.param({}, {"delta.enableDeletionVectors": "true"}, True, id="deletion-vectors-enabled"),
        pytest.param(
            {"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}, False, id="and-disabled"
        ),
        pytest.param({}, {"delta.checkpointPolicy": "v2"}, False, id="checkpoint-policy-without-the-feature"),
        pytest.param({}, TIMES, True, id="in-commit-timestamps-enabled"),
        pytest.param(TIMES, {**TIMES, "delta.inCommitTimestampEnablementVersion": "6"}, False, id="enabled-otherwise"),
        pytest.param({}, {"delta.appendOnly": "true"}, False, id="any-other-property"),
        pytest.param({"user": "x"}, {}, False, id="a-property-went"),
        pytest.param({}, {"delta.constraints.c": "key > 0"}, False, id="a-constraint-came"),
    ],
)
def test_only_listed_changes_of_properties_let_a_write_pass(added, before, after, harmless):
    attempt = make_attempt(table_metadata(**before), actions=CommitActions(adds=added(("a", "1", (0, 1)))))
    winner = won(metadata=table_metadata(**after))
    if harmless:
        assert check_conflicts(attempt, winner).metadata == winner.actions.metadata
        return
    with pytest.raises(MetadataChangedError) as caught:
        check_conflicts(attempt, winner)
    assert caught.value.rule == "metadata_changed"


@pytest.mark.parametrize(
    ("key", "configuration", "day_type", "harmless"),
    [
        pytest.param(MAPPED_KEY, MAPPING, "string", True, id="columns-get-ids"),
        pytest.param(MAPPED_KEY, {}, "string", False, id="ids-without-a-mode"),
        pytest.param(MAPPED_KEY, {**MAPPING, "delta.columnMapping.mode": "id"}, "string", False, id="by-id"),
        pytest.param(MAPPED_KEY, MAPPING, "long", False, id="a-type-changed-as-well"),
        pytest.param({**MAPPED_KEY, "comment": "x"}, MAPPING, "string", False, id="a-comment-as-well"),
        pytest.param({"delta.identity.highWaterMark": 9}, {}, "string", True, id="identities-were-given-out"),
        pytest.param({"comment": "x"}, {}, "string", False, id="a-comment"),
    ],
)
def test_only_listed_changes_of_the_schema_let_a_write_pass(added, key, configuration, day_type, harmless):
    adds = added(("a", "1", (0, 1)))
    attempt = make_attempt(actions=CommitActions(adds=adds), enforces=frozenset({"columnMapping"}))
    winner = won(metadata=table_metadata(schema_string(key, day_type), **configuration))
    if harmless:
        assert check_conflicts(attempt, winner).schema == parse_schema(winner.actions.metadata.schema_string)
        return
    with pytest.raises(MetadataChangedError):
        check_conflicts(attempt, winner)


def test_rows_that_do_not_keep_what_a_new_feature_asks_of_them_do_not_follow_it(added):
    requested = "materializePartitionColumns"
    theirs = won(protocol=replace(MODERN, writer_features=FEATURES | {requested}))
    careless = make_attempt(actions=CommitActions(adds=added(("a", "1", (0, 1)))))
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_conflicts(careless, theirs)
    assert caught.value.features == (requested,)
    careful, without_rows = (
        replace(careless, enforces=frozenset({requested})),
        replace(careless, actions=make_attempt().actions),
    )
    with pytest.raises(ProtocolChangedError):  # these files were written before the table had the feature
        check_conflicts(careful, theirs)
    assert requested in check_conflicts(without_rows, theirs).protocol.writer_features
    seen_in_metadata = won(protocol=replace(MODERN, writer_features=FEATURES | {"checkConstraints"}))
    assert check_conflicts(careful, seen_in_metadata).protocol == seen_in_metadata.actions.protocol


def test_files_that_are_only_rearranged_do_not_follow_a_feature_that_asks_for_other_files(added, removed):
    requested = "materializePartitionColumns"
    theirs = won(protocol=replace(MODERN, writer_features=FEATURES | {requested}))
    moves = CommitActions(adds=added(("b", "1", (0, 1)), data_change=False), removes=removed("a", data_change=False))
    careless = make_attempt(actions=moves)
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_conflicts(careless, theirs)
    assert caught.value.features == (requested,)
    described = CommitActions(adds=added(("a", "1", (0, 1)), data_change=False))
    with pytest.raises(ProtocolChangedError):
        check_conflicts(replace(careless, enforces=frozenset({requested})), theirs)
    assert requested in check_conflicts(make_attempt(actions=described), theirs).protocol.writer_features


@pytest.mark.parametrize("version", ["V1", "V2", "V3"])
def test_files_that_are_only_rearranged_do_not_follow_metadata_that_turns_on_what_is_not_known_here(added, removed, version):
    listed = replace(MODERN, writer_features=FEATURES | {f"icebergCompat{version}"})
    moves = CommitActions(adds=added(("b", "1", (0, 1)), data_change=False), removes=removed("a", data_change=False))
    attempt = make_attempt(protocol=listed, actions=moves)
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_conflicts(attempt, won(metadata=table_metadata(**{f"delta.enableIcebergCompat{version}": "true"})))
    assert caught.value.features == (f"icebergCompat{version}",)
    off = won(metadata=table_metadata(**{f"delta.enableIcebergCompat{version}": "false"}))
    assert check_conflicts(attempt, off).metadata == off.actions.metadata


def test_nothing_follows_a_winner_that_made_the_protocol_contradict_itself(added):
    attempt = make_attempt(actions=CommitActions(adds=added(("a", "1", (0, 1)))))
    with pytest.raises(InvalidProtocolError, match="rowTracking needs domainMetadata"):
        check_conflicts(attempt, won(protocol=without("domainMetadata")))


def test_a_feature_that_the_protocol_lacks_is_not_taken_over(added):
    attempt = make_attempt(protocol=without("rowTracking"), actions=CommitActions(adds=added(("a", "1", (0, 1)))))
    with pytest.raises(MetadataChangedError):
        check_conflicts(attempt, won(metadata=table_metadata(**TRACKING)))
    check_conflicts(attempt, won(protocol=MODERN, metadata=table_metadata(**TRACKING)))


def test_two_changes_of_metadata_conflict_however_harmless():
    attempt = make_attempt(actions=CommitActions(metadata=table_metadata(user="x")))
    with pytest.raises(MetadataChangedError):
        check_conflicts(attempt, won(metadata=table_metadata(**TRACKING)))


def test_files_may_be_rearranged_while_properties_change_but_not_while_the_schema_does(added, removed):
    moves = CommitActions(adds=added(("b", "1", (0, 1)), data_change=False), removes=removed("a", data_change=False))
    attempt = make_attempt(actions=moves)
    rebased = check_conflicts(attempt, won(metadata=table_metadata(**{"delta.logRetentionDuration": "interval 1 day"})))
    assert rebased.metadata.configuration == {"delta.logRetentionDuration": "interval 1 day"}
    with pytest.raises(MetadataChangedError):
        check_conflicts(attempt, won(metadata=table_metadata(schema_string({"comment": "x"}))))


def test_rows_written_without_ids_while_these_were_enabled_are_reported(added, removed):
    rewrite = CommitActions(adds=added(("b", "1", (0, 1))), removes=removed("a"))
    rebased = check_conflicts(make_attempt(actions=rewrite), won(metadata=table_metadata(**TRACKING)))
    assert rebased.actions.commit_info.tags == {"delta.rowTracking.preserved": "false"}
    assert rebased.actions.commit_info.to_json()["tags"] == {"delta.rowTracking.preserved": "false"}


# -- domains


def test_the_mark_of_row_ids_is_no_conflict_and_other_domains_are():
    ours = DomainMetadata(domain="mine", configuration="1")
    attempt = make_attempt(actions=CommitActions(domains=(ours, mark(3))))
    check_conflicts(attempt, won(domains=(mark(9), DomainMetadata(domain="theirs", configuration="2"))))
    with pytest.raises(ConcurrentDomainMetadataError) as caught:
        check_conflicts(attempt, won(domains=(ours,)))
    assert (caught.value.domain, caught.value.rule) == ("mine", "domain_set")


@pytest.mark.parametrize(("operation", "ended"), [("CREATE OR REPLACE TABLE AS SELECT", True), ("WRITE", False)])
def test_a_replaced_table_ends_the_domains_that_a_winner_brought(operation, ended):
    theirs = DomainMetadata(domain="theirs", configuration="2")
    gone = DomainMetadata(domain="gone", configuration="", removed=True)
    rebased = check_conflicts(make_attempt(operation=operation), won(domains=(theirs, gone)))
    assert rebased.actions.domains == ((replace(theirs, removed=True),) if ended else ())


# -- row ids


def test_new_rows_get_ids_behind_those_of_the_winner_and_known_ids_stay(added):
    adds = added(("new", "1", (0, 1)), ("copied", "1", (0, 1)), ("other", "1", (0, 1)))
    adds = adds.set_column(8, adds.schema.field(8), [[10, 4, None]]).set_column(9, adds.schema.field(9), [[5, 2, None]])
    attempt = make_attempt(actions=CommitActions(adds=adds, domains=(mark(13),)), row_id_high_water_mark=9)

    rebased = check_conflicts(attempt, won(5, domains=(mark(99),)))

    assert ids(rebased.actions) == {"new": (100, 6), "copied": (4, 2), "other": (102, 6)}
    assert mark_of(rebased.actions) == [103]
    again = check_conflicts(rebased, won(6))
    assert ids(again.actions) == {"new": (100, 7), "copied": (4, 2), "other": (102, 7)}
    assert (mark_of(again.actions), again.row_id_high_water_mark) == ([103], 99)


def test_row_tracking_that_begins_with_the_winner_numbers_the_attempt(added):
    attempt = make_attempt(protocol=without("rowTracking"), actions=CommitActions(adds=added(("a", "1", (0, 1)))))
    rebased = check_conflicts(attempt, won(5, protocol=MODERN))
    assert (ids(rebased.actions), mark_of(rebased.actions)) == ({"a": (0, 6)}, [1])
    with pytest.raises(MissingRecordCountError) as caught:
        check_conflicts(replace(attempt, actions=CommitActions(adds=added(("a", "1", None)))), won(5, protocol=MODERN))
    assert caught.value.path == "a"


def test_rows_are_not_numbered_while_row_tracking_rests(added):
    attempt = make_attempt(
        table_metadata(**{"delta.rowTrackingSuspended": "true"}), actions=CommitActions(adds=added(("a", "1", None)))
    )
    assert ids(check_conflicts(attempt, won(domains=(mark(99),))).actions) == {"a": (None, None)}


def with_ids(files, base, version):
    count = len(files)
    files = files.set_column(8, files.schema.field(8), [[base] * count])
    return files.set_column(9, files.schema.field(9), [[version] * count])


def test_files_that_a_backfill_has_numbered_keep_these_ids_in_what_replaces_them(added, removed):
    rewrite = CommitActions(adds=added(("new", "1", (0, 1))), removes=removed("f"))
    backfilled = with_ids(added(("f", "1", (0, 1)), ("g", "1", (0, 1)), data_change=False), 40, 5)

    rebased = check_conflicts(
        make_attempt(actions=rewrite), won(5, "ROW TRACKING BACKFILL", adds=backfilled, domains=(mark(50),))
    )

    assert ids(rebased.actions) == {"new": (51, 6)}
    assert rebased.actions.removes["base_row_id"].to_pylist() == [40]
    assert ids(check_conflicts(rebased, won(6)).actions) == {"new": (51, 7)}


def test_a_backfill_leaves_out_what_the_winner_has_named(added, removed):
    attempt = make_attempt(
        operation="ROW TRACKING BACKFILL",
        actions=CommitActions(adds=added(("a", "1", (0, 1)), ("b", "1", (0, 1)), ("c", "1", (0, 1)), data_change=False)),
    )
    attempt = replace(attempt, read_files=attempt.actions.adds["path"].combine_chunks())
    rebased = check_conflicts(attempt, won(adds=added(("b", "1", (0, 1))), removes=removed("a"), domains=(mark(1),)))
    assert ids(rebased.actions) == {"c": (2, 6)}
    assert rebased.read_files.to_pylist() == ["c"]


def test_an_unbackfill_takes_the_ids_of_the_winner_away_and_does_not_meet_a_backfill(added):
    bare = added(("a", "1", (0, 1)), ("b", "1", (0, 1)), data_change=False)
    suspended = table_metadata(**{"delta.rowTrackingSuspended": "true"})
    attempt = make_attempt(suspended, operation="ROW TRACKING UNBACKFILL", actions=CommitActions(adds=bare))
    theirs = with_ids(added(("b", "1", (0, 1)), ("c", "1", (0, 1))), 7, 5)
    rebased = check_conflicts(attempt, won(adds=theirs))
    assert ids(rebased.actions) == dict.fromkeys("abc", (None, None))
    assert rebased.actions.adds["data_change"].to_pylist() == [False] * 3
    with pytest.raises(ProtocolChangedError):
        check_conflicts(attempt, won(operation="ROW TRACKING BACKFILL", adds=theirs))


# -- versions and times


def test_type_changes_name_the_version_that_the_commit_takes():
    def changed(version):
        change = {"toType": "long", "fromType": "integer", "tableVersion": version}
        return table_metadata(schema_string({"delta.typeChanges": [{**change, "tableVersion": 2}, change]}))

    moved = check_conflicts(make_attempt(actions=CommitActions(metadata=changed(5))), won(5))
    assert moved.actions.metadata == replace(
        changed(6), schema_string=changed(6).schema_string.replace(": ", ":").replace(", ", ",")
    )


@pytest.mark.parametrize(("theirs", "ours"), [(70, 100), (100, 101), (500, 501)])
def test_a_commit_with_a_time_is_later_than_the_winner(theirs, ours):
    rebased = check_conflicts(make_attempt(table_metadata(**TIMES)), won(in_commit_timestamp=theirs))
    assert rebased.actions.commit_info.in_commit_timestamp == ours
    assert next(iter(rebased.actions.commit_info.to_json())) == "inCommitTimestamp"


def test_without_the_property_commits_carry_no_time():
    assert check_conflicts(make_attempt(), won(in_commit_timestamp=70)).actions.commit_info.in_commit_timestamp is None


def test_times_that_the_winner_has_enabled_are_kept_by_the_attempt():
    rebased = check_conflicts(make_attempt(), won(metadata=table_metadata(**TIMES), in_commit_timestamp=300))
    assert rebased.actions.commit_info.in_commit_timestamp == 301
    assert rebased.actions.metadata is None


def test_the_commit_that_enables_times_shows_its_own_version_and_time():
    attempt = make_attempt(actions=CommitActions(metadata=table_metadata(**{"delta.enableInCommitTimestamps": "true"})))
    rebased = check_conflicts(attempt, won(5, file_time=900))
    assert rebased.actions.metadata.configuration == {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "6",
        "delta.inCommitTimestampEnablementTimestamp": "901",
    }
    assert rebased.actions.commit_info.in_commit_timestamp == 901


def test_what_a_rule_has_added_must_not_name_a_file_twice(added):
    bare = added(("a", "1", (0, 1)), ("a", "1", (0, 1)), data_change=False)
    attempt = make_attempt(operation="ROW TRACKING BACKFILL", actions=CommitActions(adds=bare))
    with pytest.raises(DuplicateActionError):
        check_conflicts(attempt, won(domains=(mark(1),)))
