import json

import pytest

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.errors import InvalidProtocolError, UnsupportedReaderFeatureError, UnsupportedWriterFeatureError
from airflow_delta.core.table_features.feature import reader_features, writer_features
from airflow_delta.core.table_features.support import check_readable, check_writable


def metadata(field_metadata=None, **configuration):
    inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": True, "metadata": field_metadata or {}}]}
    column = {"type": "array", "elementType": inner, "containsNull": True}
    fields = [{"name": "a", "type": column, "nullable": True, "metadata": {}}]
    return Metadata(id="x", schema_string=json.dumps({"type": "struct", "fields": fields}), configuration=configuration)


def protocol(reader, writer, readers=None, writers=None):
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=None if readers is None else frozenset(readers),
        writer_features=None if writers is None else frozenset(writers),
    )


@pytest.mark.parametrize(
    ("writer", "implied"),
    [
        (1, set()),
        (2, {"appendOnly", "invariants"}),
        (3, {"appendOnly", "invariants", "checkConstraints"}),
        (4, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
    ],
)
def test_a_legacy_writer_version_implies_its_features(writer, implied):
    assert writer_features(protocol(1, writer)) == implied


def test_legacy_versions_5_and_6_add_column_mapping_and_identity():
    assert writer_features(protocol(2, 5)) - writer_features(protocol(1, 4)) == {"columnMapping"}
    assert writer_features(protocol(2, 6)) - writer_features(protocol(2, 5)) == {"identityColumns"}
    assert reader_features(protocol(2, 5)) == {"columnMapping"}
    assert reader_features(protocol(1, 7, writers=["x"])) == set()
    assert reader_features(protocol(2, 7, writers=["columnMapping"])) == {"columnMapping"}


@pytest.mark.parametrize(
    "table",
    [
        protocol(1, 1),
        protocol(2, 6),
        protocol(3, 7, [], []),
        protocol(3, 7, ["timestampNtz", "vacuumProtocolCheck", "columnMapping"], ["novelty"]),
        protocol(1, 99, None, None),
    ],
)
def test_a_table_is_readable_whatever_writers_must_know(table):
    check_readable("t", table, metadata())


def test_every_unknown_reader_feature_is_named():
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        check_readable("t", protocol(3, 7, ["novelty", "timestampNtz", "another"], []), metadata())
    assert (caught.value.table, caught.value.features) == ("t", ("another", "novelty"))


def test_an_unknown_reader_version_is_refused():
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        check_readable("t", protocol(4, 8), metadata())
    assert caught.value.features == ("reader version 4",)


@pytest.mark.parametrize("table", [protocol(2, 5), protocol(3, 7, ["columnMapping"], ["columnMapping"])])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_reader_that_does_not_know_column_mapping_refuses_it_where_it_is_used(table, mode):
    check_readable("t", table, metadata(**{"delta.columnMapping.mode": "none"}), known={"timestampNtz"})
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        check_readable("t", table, metadata(**{"delta.columnMapping.mode": mode}), known={"timestampNtz"})
    assert caught.value.features == ("columnMapping",)


@pytest.mark.parametrize("table", [protocol(1, 1), protocol(1, 2), protocol(1, 4), protocol(2, 6)])
def test_a_legacy_table_that_uses_nothing_is_writable(table):
    check_writable("t", table, metadata(**{"delta.appendOnly": "true"}))


@pytest.mark.parametrize(
    ("feature", "using"),
    [
        ("invariants", metadata({"delta.invariants": "{}"})),
        ("checkConstraints", metadata(**{"delta.constraints.positive": "a > 0"})),
        ("changeDataFeed", metadata(**{"delta.enableChangeDataFeed": "true"})),
        ("generatedColumns", metadata({"delta.generationExpression": "1"})),
        ("identityColumns", metadata({"delta.identity.start": 1})),
        ("allowColumnDefaults", metadata({"CURRENT_DEFAULT": "1"})),
        ("inCommitTimestamp", metadata(**{"delta.enableInCommitTimestamps": "true"})),
    ],
)
def test_a_writer_feature_blocks_writing_where_it_is_used_and_reading_never(feature, using):
    table = protocol(1, 7, None, [feature])
    check_writable("t", table, metadata(), known=())
    check_readable("t", table, using, known=())
    check_writable("t", table, using, known=(feature,))
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_writable("t", table, using, known=())
    assert caught.value.features == (feature,)


def test_unknown_writer_features_and_versions_block_writing():
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_writable(
            "t", protocol(1, 7, None, ["checkpointProtection", "novelty", "appendOnly"]), metadata(), known=("appendOnly",)
        )
    assert caught.value.features == ("checkpointProtection", "novelty")
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        check_writable("t", protocol(1, 8), metadata())
    assert caught.value.features == ("writer version 8",)


def test_a_table_that_cannot_be_read_cannot_be_written():
    with pytest.raises(UnsupportedReaderFeatureError):
        check_writable("t", protocol(3, 7, ["novelty"], ["novelty"]), metadata())


@pytest.mark.parametrize(
    ("table", "contradiction"),
    [
        (protocol(3, 7), "the reader version 3 needs a list readerFeatures"),
        (protocol(3, 7, []), "the writer version 7 needs a list writerFeatures"),
        (protocol(1, 7), "the writer version 7 needs a list writerFeatures"),
        (protocol(3, 6, []), "the reader version 3 needs the writer version 7, not 6"),
        (protocol(1, 2, None, ["appendOnly"]), "the writer version 2 must not have a list writerFeatures"),
        (protocol(1, 7, ["timestampNtz"], ["timestampNtz"]), "the reader version 1 must not have a list readerFeatures"),
        (protocol(3, 7, ["timestampNtz"], []), "readerFeatures names timestampNtz, writerFeatures does not"),
        (protocol(3, 7, [], ["deletionVectors"]), "writerFeatures names deletionVectors, readerFeatures does not"),
        (protocol(1, 7, None, ["v2Checkpoint"]), "writerFeatures names v2Checkpoint, readerFeatures does not"),
        (protocol(1, 7, None, ["rowTracking"]), "rowTracking needs domainMetadata"),
        (protocol(1, 7, None, ["clustering"]), "clustering needs domainMetadata"),
    ],
)
def test_a_protocol_that_contradicts_itself_is_read_and_not_written(table, contradiction):
    check_readable("t", table, metadata())
    with pytest.raises(InvalidProtocolError) as caught:
        check_writable("t", table, metadata())
    assert contradiction in caught.value.contradictions


@pytest.mark.parametrize(
    "table",
    [
        protocol(1, 5),
        protocol(1, 6),
        protocol(2, 5, [], []),
        protocol(1, 7, [], ["appendOnly"]),
        protocol(1, 7, None, ["columnMapping", "identityColumns"]),
        protocol(2, 7, None, ["columnMapping", "domainMetadata", "rowTracking"]),
        protocol(3, 7, ["timestampNtz"], ["timestampNtz", "appendOnly", "invariants"]),
    ],
)
def test_what_engines_really_write_is_no_contradiction(table):
    check_writable("t", table, metadata())


def with_type_change(change, *features):
    field = {"name": "a", "type": "timestamp", "nullable": True, "metadata": {"delta.typeChanges": [change]}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    names = frozenset(features)
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=names, writer_features=names)
    return protocol, Metadata(id="t", schema_string=schema)


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fromType": "date", "toType": "timestamp"}, "the type change of a from date to timestamp"),
        ({"fromType": "long", "toType": "integer", "fieldPath": "element"}, "the type change of a from bigint to int"),
        ({"fromType": "string"}, "the type change {'fromType': 'string'} of a"),
        (7, "the type change 7 of a"),
    ],
)
def test_a_type_change_that_is_not_known_is_refused_by_readers(feature, change, named):
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        check_readable("t", *with_type_change(change, feature))
    assert caught.value.features == (named,)


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        ({"fromType": "decimal(6, 2)", "toType": "decimal(10,4)", "fieldPath": "element.value"}, "typeWidening"),
        ({"fromType": "short", "toType": "integer", "tableVersion": 3}, "typeWidening-preview"),
        ({"fromType": "string", "toType": "string"}, "typeWidening"),
        ({"fromType": "date", "toType": "timestamp"}, "deletionVectors"),
    ],
)
def test_type_changes_that_are_known_or_of_a_table_without_the_feature_are_no_obstacle(change, feature):
    check_readable("t", *with_type_change(change, feature))
