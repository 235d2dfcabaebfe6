import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.table_features.feature import FEATURES, reader_features, writer_features
from airflow_delta.core.table_features.protocol import at_least, dependents, needed_features, protocol_for, upgraded, without

LEGACY = {1: set(), 2: {"appendOnly", "invariants"}}
LEGACY[3] = LEGACY[2] | {"checkConstraints"}
LEGACY[4] = LEGACY[3] | {"changeDataFeed", "generatedColumns"}
LEGACY[5] = LEGACY[4] | {"columnMapping"}
LEGACY[6] = LEGACY[5] | {"identityColumns"}

features = st.sets(st.sampled_from(sorted(FEATURES)))


def metadata(kind="long", field_metadata=None, **configuration):
    field = {"name": "a", "type": kind, "nullable": True, "metadata": field_metadata or {}}
    return Metadata(id="x", schema_string=json.dumps({"type": "struct", "fields": [field]}), configuration=configuration)


def versions(protocol):
    return protocol.min_reader_version, protocol.min_writer_version


def protocol(reader, writer, readers=None, writers=None):
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=None if readers is None else frozenset(readers),
        writer_features=None if writers is None else frozenset(writers),
    )


@pytest.mark.parametrize(
    ("table", "needed"),
    [
        (metadata(), set()),
        (metadata(**{"delta.appendOnly": "true"}), {"appendOnly"}),
        (metadata(**{"delta.constraints.c": "a > 0"}), {"checkConstraints"}),
        (metadata(**{"delta.enableChangeDataFeed": "TRUE"}), {"changeDataFeed"}),
        (metadata(field_metadata={"delta.generationExpression": "1"}), {"generatedColumns"}),
        (metadata(field_metadata={"delta.identity.start": 1}), {"identityColumns"}),
        (metadata(field_metadata={"delta.invariants": "{}"}), {"invariants"}),
        (metadata(field_metadata={"CURRENT_DEFAULT": "1"}), {"allowColumnDefaults"}),
        (metadata(**{"delta.columnMapping.mode": "id"}), {"columnMapping"}),
        (metadata(**{"delta.columnMapping.mode": "none"}), set()),
        (metadata(**{"delta.enableDeletionVectors": "true"}), {"deletionVectors"}),
        (metadata(**{"delta.enableInCommitTimestamps": "true"}), {"inCommitTimestamp"}),
        (metadata(**{"delta.enableRowTracking": "true"}), {"rowTracking", "domainMetadata"}),
        (metadata(**{"delta.enableTypeWidening": "true"}), {"typeWidening"}),
        (metadata(**{"delta.checkpointPolicy": "v2"}), {"v2Checkpoint"}),
        (metadata(**{"delta.enableVariantShredding": "true"}), {"variantShredding", "variantType"}),
        (
            metadata(**{"delta.enableIcebergCompatV3": "true"}),
            {"icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata"},
        ),
        (metadata("variant"), {"variantType"}),
        (metadata("timestamp_ntz"), {"timestampNtz"}),
        (metadata({"type": "array", "elementType": "timestamp_ntz", "containsNull": True}), {"timestampNtz"}),
        (metadata({"type": "map", "keyType": "variant", "valueType": "long", "valueContainsNull": True}), {"variantType"}),
        (metadata(field_metadata={"comment": '"variant"'}), set()),
    ],
)
def test_a_table_needs_the_features_that_its_metadata_asks_for(table, needed):
    assert needed_features(table) == needed
    assert writer_features(protocol_for(table)) == needed | LEGACY[2]


def test_a_new_table_has_a_legacy_protocol_only_when_that_says_all():
    assert versions(protocol_for(metadata())) == (1, 2)
    assert versions(protocol_for(metadata(**{"delta.constraints.c": "a > 0"}))) == (1, 3)
    assert protocol_for(metadata(**{"delta.enableChangeDataFeed": "true"})) == protocol(
        1, 7, None, {"appendOnly", "invariants", "changeDataFeed"}
    )


def test_column_mapping_alone_leaves_readers_at_version_2():
    table = metadata(**{"delta.columnMapping.mode": "name"})
    assert protocol_for(table) == protocol(2, 7, None, {"appendOnly", "invariants", "columnMapping"})
    with_deletion_vectors = upgraded(protocol_for(table), ["deletionVectors"])
    assert with_deletion_vectors == protocol(
        3, 7, {"columnMapping", "deletionVectors"}, {"appendOnly", "invariants", "columnMapping", "deletionVectors"}
    )


def test_an_upgrade_to_listed_features_lists_all_that_were_implied():
    assert upgraded(protocol(2, 5), ["deletionVectors"]) == protocol(
        3, 7, {"columnMapping", "deletionVectors"}, LEGACY[5] | {"deletionVectors"}
    )
    assert upgraded(protocol(1, 4), ["domainMetadata"]) == protocol(1, 7, None, LEGACY[4] | {"domainMetadata"})


def test_a_protocol_that_lists_features_does_not_go_back_to_a_legacy_version():
    listed = protocol(1, 7, None, {"appendOnly", "invariants"})
    assert upgraded(listed, ["checkConstraints"]) == protocol(1, 7, None, LEGACY[3])


def test_a_feature_brings_those_that_it_requires():
    assert writer_features(upgraded(protocol(1, 2), ["clustering"])) == LEGACY[2] | {"clustering", "domainMetadata"}


@given(features, features)
def test_an_upgrade_has_all_features_and_loses_none(first, second):
    before = upgraded(protocol(1, 2), first)
    after = upgraded(before, second)
    assert first | second | LEGACY[2] <= writer_features(after)
    assert reader_features(before) <= reader_features(after) <= writer_features(after)
    assert {name for name in first | second if FEATURES[name].for_readers} <= reader_features(after)
    assert upgraded(after, first | second) is after
    assert (after.reader_features is not None) == (after.min_reader_version == 3)
    assert (after.writer_features is not None) == (after.min_writer_version == 7)
    assert versions(after) >= versions(before)


@given(st.sampled_from(sorted(FEATURES)), features)
def test_a_feature_is_gone_after_it_was_dropped(name, others):
    before = upgraded(protocol(1, 2), {name, *others})
    after = without(before, name)
    assert writer_features(after) == writer_features(before) - {name}
    assert reader_features(after) == reader_features(before) - {name}


def test_the_last_feature_takes_the_list_with_it():
    assert without(protocol(1, 7, None, LEGACY[2] | {"domainMetadata"}), "domainMetadata") == protocol(1, 2)
    assert without(protocol(1, 3), "checkConstraints") == protocol(1, 2)
    assert without(protocol(1, 4), "changeDataFeed") == protocol(1, 7, None, LEGACY[3] | {"generatedColumns"})


@pytest.mark.parametrize(
    ("reader", "writer", "result"),
    [
        (1, 1, protocol(1, 2)),
        (1, 4, protocol(1, 4)),
        (1, 5, protocol(2, 5)),
        (2, 6, protocol(2, 6)),
        (1, 7, protocol(1, 7, None, LEGACY[2])),
        (2, 7, protocol(2, 7, None, LEGACY[2] | {"columnMapping"})),
        (3, 7, protocol(3, 7, set(), LEGACY[2])),
        (3, 4, protocol(3, 7, set(), LEGACY[4])),
    ],
)
def test_versions_asked_for_are_reached(reader, writer, result):
    assert at_least(protocol(1, 2), reader_version=reader, writer_version=writer) == result


def test_versions_never_go_down():
    listed = protocol(3, 7, {"deletionVectors"}, LEGACY[2] | {"deletionVectors"})
    assert at_least(listed, reader_version=1, writer_version=2) == listed
    assert at_least(listed, reader_version=3, writer_version=7) == listed


def test_what_requires_a_feature_is_reported():
    table = upgraded(protocol(1, 2), ["rowTracking", "clustering"])
    assert dependents(table, "domainMetadata") == ("clustering", "rowTracking")
    assert dependents(table, "clustering") == ()
