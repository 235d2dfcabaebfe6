import json

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    AppendOnlyTableError,
    InvalidTableDefinitionError,
    InvalidTablePropertyError,
    LocationNotEmptyError,
    TableExistsError,
)
from airflow_delta.core.schema import ArrayType, DecimalType, MapType, StructField, StructType, field_id, physical_name
from airflow_delta.core.schema.data_types import BYTE, INTEGER, LONG, STRING, TIMESTAMP_NTZ, VOID, PrimitiveType
from airflow_delta.core.table_changes import NewTable, generated, identity, with_default

NAME_MODE = {"delta.columnMapping.mode": "name"}


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def column(name, kind=LONG):
    return StructField(name, kind)


def test_a_plain_table_can_be_used_by_every_engine(table):
    result = table.create(partition_columns=["S"], name="n", description="d", properties={"owner": "me"})
    assert (result.version, result.committed) == (0, True)
    metadata = table.snapshot.metadata
    assert (metadata.name, metadata.description, metadata.partition_columns) == ("n", "d", ("s",))
    assert (table.properties, table.versions, table.features) == ({"owner": "me"}, (1, 2), None)
    assert len(table.snapshot.files()) == 0


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_mapped_when_the_table_asks_for_it(table, mode):
    table.create(
        struct(**{"a b": LONG, "st": struct(x=ArrayType(struct(y=LONG)))}), properties={"delta.columnMapping.mode": mode}
    )
    fields = [table.snapshot.schema.fields[0], table.snapshot.schema.fields[1]]
    inner = fields[1].type.fields[0]
    ids = [field_id(field) for field in (*fields, inner, inner.type.element_type.fields[0])]
    assert ids == [1, 2, 3, 4]
    assert all(physical_name(field).startswith("col-") for field in (*fields, inner))
    assert table.properties["delta.columnMapping.maxColumnId"] == "4"
    assert table.versions == (2, 7)


def test_types_bring_their_features(table):
    table.create(struct(t=TIMESTAMP_NTZ, v=ArrayType(PrimitiveType("variant"))))
    assert table.features == {"appendOnly", "invariants", "timestampNtz", "variantType"}
    assert table.snapshot.protocol.reader_features == {"timestampNtz", "variantType"}


def test_rules_of_columns_bring_their_features(table):
    table.create(
        StructType(
            (
                identity(column("k"), start=5, step=-2, allow_explicit_insert=True),
                with_default(column("d"), "7 + 1"),
                generated(column("g"), "d * 2"),
            )
        )
    )
    assert table.features == {"appendOnly", "invariants", "identityColumns", "allowColumnDefaults", "generatedColumns"}
    assert [dict(field.metadata) for field in table.snapshot.schema.fields] == [
        {"delta.identity.start": 5, "delta.identity.step": -2, "delta.identity.allowExplicitInsert": True},
        {"CURRENT_DEFAULT": "7 + 1"},
        {"delta.generationExpression": "d * 2"},
    ]


def test_what_a_column_says_for_people_is_kept(table):
    said = {"comment": "c", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    table.create(StructType((StructField("s", STRING, False, said),)))
    assert table.snapshot.schema.fields == (StructField("s", STRING, False, said),)


def test_clustering_is_a_domain_with_physical_names(table):
    schema = struct(id=LONG, st=struct(x=LONG))
    table.create(schema, clustering_columns=["ID", "st.X"], properties=NAME_MODE)
    first, second = table.snapshot.schema.fields
    domain = table.snapshot.domains["delta.clustering"]
    assert json.loads(domain.configuration)["clusteringColumns"] == [
        [physical_name(first)],
        [physical_name(second), physical_name(second.type.fields[0])],
    ]
    assert table.features >= {"clustering", "domainMetadata", "columnMapping"}


def test_row_tracking_has_hidden_columns(table):
    table.create(properties={"delta.enableRowTracking": "true"})
    hidden = {key: value for key, value in table.properties.items() if "materialized" in key}
    assert len(set(hidden.values())) == len(hidden) == 2
    assert table.features >= {"rowTracking", "domainMetadata"}


def test_the_protocol_asked_for_is_given_and_not_stored(table):
    table.create(properties={"delta.minWriterVersion": "4", "delta.feature.vacuumProtocolCheck": "supported"})
    assert table.properties == {}
    assert table.versions == (3, 7)
    assert table.features >= {"changeDataFeed", "generatedColumns", "vacuumProtocolCheck"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (struct(a=LONG, A=LONG), "more than once"),
        (struct(a=ArrayType(struct(x=LONG, X=LONG))), "a.element.x occurs more than once"),
        (struct(a=VOID), "a has the type void"),
        (struct(a=MapType(STRING, struct(x=VOID))), "a.value.x has the type void"),
        (struct(a=ArrayType(PrimitiveType("interval day"))), "a.element is interval day, which is no type of Delta Lake"),
        (struct(**{"a b": LONG}), "without column mapping"),
        (struct(st=struct(**{"x=y": LONG})), "without column mapping"),
        (struct(**{"": LONG}), "no name"),
        (struct(a=LONG, st=struct()), "without members"),
        (StructType((identity(column("a", INTEGER)),)), "not bigint"),
        (StructType((identity(column("a"), step=0),)), "step 0"),
        (StructType((with_default(identity(column("a")), "1"),)), "more than one"),
        (StructType((generated(column("a"), "b + 1"),)), "needs b, which is not among the columns"),
        (StructType((generated(column("a"), "b"), generated(column("b"), "1"))), "needs b, which is generated too"),
        (StructType((generated(column("a"), "1 +"),)), "is not valid SQL"),
    ],
)
def test_a_schema_that_no_table_can_have_is_refused(table, schema, reason):
    with pytest.raises(InvalidTableDefinitionError) as caught:
        table.create(schema)
    assert reason in "; ".join(caught.value.reasons)
    assert not table.log.exists()


@pytest.mark.parametrize(
    ("partition_columns", "reason"),
    [
        (["c"], "the partition column c is not among the columns"),
        (["a", "a"], "named twice"),
        (["a", "b", "arr", "v"], "all columns"),
        (["arr"], "cannot partition"),
        (["v"], "cannot partition"),
    ],
)
def test_partition_columns_that_cannot_be_are_refused(table, partition_columns, reason):
    schema = struct(a=LONG, b=DecimalType(4, 2), arr=ArrayType(LONG), v=PrimitiveType("variant"))
    with pytest.raises(InvalidTableDefinitionError) as caught:
        table.create(schema, partition_columns=partition_columns)
    assert reason in "; ".join(caught.value.reasons)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("z", "not among the columns"),
        ("st.x", "not among the columns"),
        ("a,b", "b is a partition column"),
        ("f", "f cannot have a Bloom filter"),
        ("st", "st cannot have a Bloom filter"),
    ],
)
def test_columns_that_cannot_have_bloom_filters_are_refused(table, names, reason):
    schema = struct(a=LONG, b=LONG, f=PrimitiveType("double"), st=struct(x=LONG))
    with pytest.raises(InvalidTableDefinitionError) as caught:
        table.create(schema, partition_columns=["b"], properties={"airflow_delta.bloomFilter.columns": names})
    assert reason in "; ".join(caught.value.reasons)


def test_more_columns_with_bloom_filters_than_a_table_can_have_are_refused_instead_of_the_last_ones_left_out(table):
    names = [f"c{number}" for number in range(33)]
    schema = struct(**dict.fromkeys(names, LONG))
    with pytest.raises(InvalidTablePropertyError, match="it must name at most 32 columns, found 33"):
        table.create(schema, properties={"airflow_delta.bloomFilter.columns": ",".join(names)})
    created = table.create(schema, properties={"airflow_delta.bloomFilter.columns": ",".join(names[:32])})
    assert created.version == 0


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ({"clustering_columns": ["a"], "partition_columns": ["b"]}, "partitioned cannot be clustered"),
        ({"clustering_columns": ["a", "b", "c", "d", "e"]}, "more than 4"),
        ({"clustering_columns": ["a", "A"]}, "named twice"),
        ({"clustering_columns": ["z"]}, "not among the columns"),
        ({"clustering_columns": ["st"]}, "not among the columns"),
        ({"clustering_columns": ["flag"]}, "no min/max statistics"),
        ({"clustering_columns": ["b"], "properties": {"delta.dataSkippingNumIndexedCols": "1"}}, "no statistics"),
        ({"clustering_columns": ["a."]}, "not a column path"),
    ],
)
def test_clustering_columns_that_cannot_be_are_refused(table, new, reason):
    schema = struct(a=LONG, b=LONG, c=LONG, d=LONG, e=LONG, st=struct(x=LONG), flag=PrimitiveType("boolean"))
    with pytest.raises(InvalidTableDefinitionError) as caught:
        table.create(schema, **new)
    assert reason in "; ".join(caught.value.reasons)


def test_columns_of_the_change_feed_are_its_own(table):
    with pytest.raises(InvalidTableDefinitionError):
        table.create(struct(_Change_Type=STRING), properties={"delta.enableChangeDataFeed": "true"})


def test_features_that_are_not_known_here_are_refused(table):
    with pytest.raises(InvalidTablePropertyError, match="unknown feature 'novelty'"):
        table.create(properties={"delta.feature.novelty": "supported"})
    with pytest.raises(InvalidTablePropertyError):
        table.create(properties={"delta.isolationLevel": "WriteSerializable"})


def test_a_table_in_the_way_is_an_error_or_left_alone(table):
    table.create()
    with pytest.raises(TableExistsError):
        table.create(struct(other=LONG))
    result = table.create(struct(other=LONG), mode="ignore")
    assert (result.committed, result.version) == (False, 0)
    assert table.snapshot.schema.names == ("id", "s")


def test_a_table_is_replaced_with_its_history(table):
    table.create(clustering_columns=["id"], properties={**NAME_MODE, "own": "1"})
    table.append("a", "b")
    before = table.snapshot
    result = table.create(struct(n=BYTE), mode="replace", properties=NAME_MODE)
    after = table.snapshot
    assert (result.version, len(after.files()), len(after.tombstones())) == (2, 0, 2)
    assert after.metadata.id == before.metadata.id
    assert after.protocol == before.protocol
    assert "delta.clustering" not in after.domains
    assert field_id(after.schema.fields[0]) == 3  # ids of the replaced table are not used again
    assert after.metadata.configuration == {**NAME_MODE, "delta.columnMapping.maxColumnId": "3"}
    assert table.operations() == ["CREATE TABLE", "WRITE", "CREATE OR REPLACE TABLE"]
    assert len(table.log.snapshot(1).files()) == 2


def test_a_replacement_creates_where_there_is_none(table):
    assert table.create(mode="replace").version == 0
    assert table.operations() == ["CREATE OR REPLACE TABLE"]


def test_a_table_that_only_takes_appends_is_not_replaced(table):
    table.create(properties={"delta.appendOnly": "true"})
    assert table.create(mode="replace", properties={"delta.appendOnly": "true"}).version == 1  # it had no rows
    table.append("a")
    with pytest.raises(AppendOnlyTableError):
        table.create(mode="replace")


def test_a_table_with_rows_is_replaced_by_one_that_only_takes_appends(table):
    table.create()
    table.append("a")
    assert table.create(mode="replace", properties={"delta.appendOnly": "true"}).version == 2
    assert len(table.snapshot.files()) == 0


@pytest.mark.parametrize("mode", ["error", "ignore", "replace"])
@pytest.mark.parametrize("file", ["part-0.parquet", "notes.txt", "_day=1/part-0.parquet", "sub/part-0.parquet"])
def test_no_table_is_made_where_files_lie_that_its_vacuum_would_delete(tmp_path, file, mode):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"rows")
    log, new = DeltaLog.for_table(str(tmp_path)), NewTable(schema=struct(a=INTEGER))
    for attempt in (log.create, log.plan_create):
        with pytest.raises(LocationNotEmptyError) as refused:
            attempt(new, mode=mode)
        assert (refused.value.file, refused.value.retryable) == (file, False)
    assert not log.exists()


@pytest.mark.parametrize("file", ["_SUCCESS", ".part-0.parquet.crc", "_airflow_delta/results/1.json", "_delta_log/notes.txt"])
def test_hidden_files_are_in_nobodys_way(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / file).write_bytes(b"")
    assert DeltaLog.for_table(str(tmp_path)).create(NewTable(schema=struct(a=INTEGER))).version == 0


def test_a_table_with_files_of_others_beside_its_own_is_replaced(tmp_path):
    log, new = DeltaLog.for_table(str(tmp_path)), NewTable(schema=struct(a=INTEGER))
    log.create(new)
    (tmp_path / "other.parquet").write_bytes(b"rows")
    assert log.create(new, mode="replace").version == 1
    with pytest.raises(TableExistsError):
        log.create(new)
