import json

import pytest

from airflow_delta.core.actions import DomainMetadata
from airflow_delta.core.errors import (
    CatalogRequiredError,
    ConcurrentAppendError,
    ConstraintViolatedError,
    InvalidProtocolError,
    InvalidTableChangeError,
    InvalidTableDefinitionError,
    InvalidTablePropertyError,
    MetadataChangedError,
)
from airflow_delta.core.schema import ArrayType, MapType, StructField, StructType, field_id, physical_name
from airflow_delta.core.schema.data_types import DOUBLE, INTEGER, LONG, SHORT, STRING, TIMESTAMP_NTZ
from airflow_delta.core.table_changes import FIRST, NewColumn, after, generated, identity, with_default
from airflow_delta.core.table_changes.clustering import clustering_columns
from tests.core.builders import HandmadeLog, metadata, protocol, schema_string

NAME_MODE = {"delta.columnMapping.mode": "name"}


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


NESTED = struct(id=LONG, p=STRING, st=struct(x=INTEGER, y=STRING), arr=ArrayType(struct(k=SHORT)), m=MapType(STRING, LONG))


def names(table):
    return table.snapshot.schema.names


@pytest.fixture
def mapped(table):
    table.create(NESTED, partition_columns=["p"], properties=NAME_MODE)
    return table


# -- columns


def test_added_columns_of_a_mapped_table_get_ids_of_their_own(mapped):
    before = mapped.snapshot.schema
    mapped.alter.add_columns(NewColumn(path="new", type=struct(inner=LONG)), NewColumn(path="arr.element.z", type=LONG))
    after_ = mapped.snapshot.schema
    assert after_.fields[0] == before.fields[0]
    assert mapped.properties["delta.columnMapping.maxColumnId"] == "11"
    new, z = after_.find("new"), after_.find("arr").type.element_type.find("z")
    assert sorted([field_id(new), field_id(new.type.fields[0]), field_id(z)]) == [9, 10, 11]


def test_an_added_column_brings_its_feature(table):
    table.create()
    table.alter.add_columns(
        NewColumn(path="t", type=TIMESTAMP_NTZ, position=FIRST), NewColumn(path="u", type=LONG, position=after("t"))
    )
    assert names(table) == ("t", "u", "id", "s")
    assert table.features == {"appendOnly", "invariants", "timestampNtz"}


@pytest.mark.parametrize("rule", ["CURRENT_DEFAULT", "delta.generationExpression", "delta.identity.start"])
def test_a_column_with_values_for_old_rows_is_not_added(table, rule):
    table.create()
    with pytest.raises(InvalidTableChangeError) as caught:
        table.alter.add_columns(NewColumn(path="n", type=LONG, metadata={rule: 1}))
    assert caught.value.change == "ADD COLUMNS"


def test_a_name_with_forbidden_signs_is_not_added_without_mapping(table):
    table.create()
    with pytest.raises(InvalidTableDefinitionError):
        table.alter.add_columns(NewColumn(path="a b", type=LONG))


def test_renaming_and_dropping_need_column_mapping(table):
    table.create()
    for change in (lambda: table.alter.rename_column("s", "t"), lambda: table.alter.drop_columns("s")):
        with pytest.raises(InvalidTableChangeError) as caught:
            change()
        assert caught.value.cure == "set delta.columnMapping.mode to name first"
    table.alter.set_properties(NAME_MODE)
    table.alter.rename_column("S", "t")
    table.alter.drop_columns("id")
    assert names(table) == ("t",)


def test_a_renamed_column_keeps_its_physical_name_and_its_statistics(mapped):
    mapped.alter.set_properties({"delta.dataSkippingStatsColumns": "st.x,id"})
    before = physical_name(mapped.snapshot.schema.find("st").type.find("x"))
    mapped.alter.rename_column("st.x", "the x")
    assert physical_name(mapped.snapshot.schema.find("st").type.find("the x")) == before
    assert mapped.properties["delta.dataSkippingStatsColumns"] == "st.`the x`,id"


def test_a_partition_column_is_renamed_but_not_dropped(mapped):
    mapped.alter.rename_column("P", "q")
    assert mapped.snapshot.partition_columns == ("q",)
    with pytest.raises(InvalidTableChangeError, match="partition column"):
        mapped.alter.drop_columns("q")


def test_a_dropped_column_comes_back_as_another_one(mapped):
    before = mapped.snapshot.schema.find("id")
    mapped.alter.drop_columns("id", "st.y")
    mapped.alter.add_columns(NewColumn(path="id", type=LONG))
    again = mapped.snapshot.schema.find("id")
    assert physical_name(again) != physical_name(before)
    assert field_id(again) > field_id(before)


@pytest.mark.parametrize("change", ["rename", "drop", "widen"])
def test_a_column_that_an_expression_uses_stays_what_it_is(table, change):
    fields = (*struct(a=INTEGER, st=struct(x=INTEGER), free=INTEGER).fields, generated(StructField("g", LONG), "a + 1"))
    table.create(StructType(fields), properties={**NAME_MODE, "delta.enableTypeWidening": "true"})
    table.alter.add_constraint("c", "st.x > 0", verified=table.snapshot)
    changes = {
        "rename": lambda path: table.alter.rename_column(path, "n"),
        "drop": table.alter.drop_columns,
        "widen": lambda path: table.alter.widen_column(path, LONG),
    }
    for path, user in [("a", "the generated column g"), ("st.x", "the constraint c")]:
        with pytest.raises(InvalidTableChangeError) as caught:
            changes[change](path)
        assert user in caught.value.detail
    assert changes[change]("free").committed


def test_a_clustering_column_is_renamed_but_not_dropped(table):
    table.create(struct(a=LONG, st=struct(x=LONG), b=LONG), clustering_columns=["st.x"], properties=NAME_MODE)
    table.alter.rename_column("st", "renamed")
    for path in ["renamed", "renamed.x"]:
        with pytest.raises(InvalidTableChangeError):
            table.alter.drop_columns(path)
    table.alter.cluster_by("b")
    table.alter.drop_columns("renamed")
    assert names(table) == ("a", "b")


@pytest.mark.parametrize("written", [["a"], [["a"]]])
def test_clustering_columns_are_read_as_lists_of_names_and_as_names(written):
    domain = DomainMetadata(domain="delta.clustering", configuration=json.dumps({"clusteringColumns": written}))
    schema = StructType((StructField("a", LONG),))
    assert clustering_columns("t", schema, {domain.domain: domain}) == (("a",),)


def test_widening_needs_to_be_enabled(table):
    table.create(struct(a=INTEGER))
    with pytest.raises(InvalidTableChangeError) as caught:
        table.alter.widen_column("a", LONG)
    assert "delta.enableTypeWidening" in caught.value.cure
    table.alter.set_properties({"delta.enableTypeWidening": "true"})
    table.alter.widen_column("a", LONG)
    assert table.snapshot.schema.find("a").type == LONG
    assert table.snapshot.protocol.reader_features == {"typeWidening"}


def test_what_a_column_says_is_changed(table):
    table.create(StructType((StructField("a", LONG, False), StructField("b", STRING))))
    table.alter.allow_null("a")
    table.alter.comment_column("a", "said")
    table.alter.set_default("b", "'x'")
    table.alter.move_column("b", FIRST)
    assert table.snapshot.schema.fields == (
        StructField("b", STRING, True, {"CURRENT_DEFAULT": "'x'"}),
        StructField("a", LONG, True, {"comment": "said"}),
    )
    assert "allowColumnDefaults" in table.features
    assert table.operations() == ["CREATE TABLE", *["CHANGE COLUMN"] * 4]
    assert not table.alter.allow_null("a").committed


def test_an_identity_column_goes_on_in_its_steps(table):
    table.create(StructType((identity(StructField("k", LONG), start=10, step=-5), StructField("n", LONG))))
    table.alter.sync_identity("k", -20)
    assert table.snapshot.schema.find("k").metadata["delta.identity.highWaterMark"] == -20
    for path, mark in [("k", -22), ("k", 0), ("n", 5)]:
        with pytest.raises(InvalidTableChangeError):
            table.alter.sync_identity(path, mark)
    with pytest.raises(InvalidTableChangeError):
        table.alter.set_default("k", "1")


# -- properties and features


def test_properties_are_set_and_taken_away(table):
    table.create(properties={"own": "1"})
    table.alter.set_properties({"DELTA.appendonly": "true", "Mine": "2"})
    assert table.properties == {"own": "1", "delta.appendOnly": "true", "Mine": "2"}
    table.alter.unset_properties("delta.APPENDONLY", "own")
    assert table.properties == {"Mine": "2"}
    with pytest.raises(InvalidTableChangeError, match="own is not set"):
        table.alter.unset_properties("own")
    assert not table.alter.unset_properties("own", if_exists=True).committed


@pytest.mark.parametrize("name", ["delta.columnMapping.maxColumnId", "delta.columnMapping.mode", "delta.constraints.c"])
def test_properties_that_mean_more_are_not_just_taken_away(mapped, name):
    mapped.alter.add_constraint("c", "id > 0", verified=mapped.snapshot)
    with pytest.raises(InvalidTableChangeError):
        mapped.alter.unset_properties(name)


@pytest.mark.parametrize(
    ("name", "feature", "readers"),
    [
        ("delta.enableDeletionVectors", "deletionVectors", True),
        ("delta.enableInCommitTimestamps", "inCommitTimestamp", False),
        ("delta.enableRowTracking", "rowTracking", False),
        ("delta.enableChangeDataFeed", "changeDataFeed", False),
        ("delta.enableTypeWidening", "typeWidening", True),
    ],
)
def test_a_property_brings_its_feature(table, name, feature, readers):
    table.create()
    table.alter.set_properties({name: "true"})
    assert feature in table.features
    assert (feature in (table.snapshot.protocol.reader_features or ())) is readers
    table.alter.set_properties({name: "false"})
    assert feature in table.features


def test_an_append_only_table_keeps_its_protocol(table):
    table.create()
    table.alter.set_properties({"delta.appendOnly": "true"})
    assert table.versions == (1, 2)


def test_column_mapping_starts_with_the_names_that_files_have(table):
    table.create(NESTED)
    table.alter.set_properties(NAME_MODE)
    schema = table.snapshot.schema
    assert [physical_name(field) for field in schema.fields] == list(schema.names)
    assert physical_name(schema.find("arr").type.element_type.fields[0]) == "k"
    assert table.properties == {**NAME_MODE, "delta.columnMapping.maxColumnId": "8"}
    assert table.versions == (2, 7)


@pytest.mark.parametrize(("before", "after_"), [("none", "id"), ("name", "none"), ("name", "id"), ("id", "name")])
def test_column_mapping_does_not_change_otherwise(table, before, after_):
    table.create(properties={"delta.columnMapping.mode": before})
    with pytest.raises(InvalidTableChangeError):
        table.alter.set_properties({"delta.columnMapping.mode": after_})


def test_in_commit_timestamps_know_when_they_began(table):
    table.create()
    table.append("a")
    result = table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert table.properties["delta.inCommitTimestampEnablementTimestamp"] == str(result.commit_info.in_commit_timestamp)


def test_row_tracking_gives_ids_to_the_files_that_are_there(table):
    table.create()
    table.append("a", "b")
    table.append("c")
    table.alter.set_properties({"delta.enableRowTracking": "true"})
    assert table.operations()[3:] == ["UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    ids = table.snapshot.files()["base_row_id"].to_pylist()
    assert sorted(ids) == [0, 2, 4]
    assert "delta.rowTracking.materializedRowIdColumnName" in table.properties


def test_row_tracking_misses_no_file_that_comes_meanwhile(table):
    table.create()
    alter = racing(table, lambda: table.append(f"{table.now}"))  # before each of our commits
    alter.set_properties({"delta.enableRowTracking": "true"})
    files = table.snapshot.files()
    assert len(files) == table.operations().count("WRITE") > 2
    assert sorted(files["base_row_id"].to_pylist()) == list(range(0, 2 * len(files), 2))
    assert "delta.enableRowTracking" in table.properties


def test_row_tracking_that_is_suspended_is_not_enabled(table):
    table.create()
    table.append("a")
    table.alter.set_properties({"delta.rowTrackingSuspended": "true"})
    with pytest.raises(InvalidTableDefinitionError, match="both true"):
        table.alter.set_properties({"delta.enableRowTracking": "true"})


def test_row_tracking_that_is_enabled_is_not_suspended_without_being_disabled(table):
    table.create(properties={"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidTableDefinitionError, match="both true"):
        table.alter.set_properties({"delta.rowTrackingSuspended": "true"})
    table.append("a")
    assert table.snapshot.files()["base_row_id"].to_pylist() == [0]
    table.alter.set_properties({"delta.rowTrackingSuspended": "true", "delta.enableRowTracking": "false"})
    table.append("b")
    assert sorted(table.snapshot.files()["base_row_id"].to_pylist(), key=str) == [0, None]
    with pytest.raises(InvalidTableDefinitionError, match="both true"):
        table.create(mode="replace", properties={"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"})


def test_features_are_added_by_name_and_versions_by_number(table):
    table.create()
    table.alter.add_feature("vacuumprotocolcheck")
    assert table.features >= {"vacuumProtocolCheck"}
    table.alter.upgrade_protocol(1, 4)
    assert table.features >= {"generatedColumns", "vacuumProtocolCheck"}
    assert table.operations() == ["CREATE TABLE", "SET TBLPROPERTIES", "UPGRADE PROTOCOL"]
    with pytest.raises(InvalidTablePropertyError):
        table.alter.upgrade_protocol(4, 7)


def test_a_table_does_not_become_catalog_managed_by_its_path(table):
    table.create()
    with pytest.raises(CatalogRequiredError):
        table.alter.add_feature("catalogManaged")
    assert table.versions == (1, 2)


@pytest.mark.parametrize("name", ["icebergWriterCompatV2", "novelty"])
def test_features_that_are_not_known_here_are_not_added(table, name):
    table.create()
    with pytest.raises(InvalidTablePropertyError, match=f"unknown feature '{name}'"):
        table.alter.add_feature(name)
    assert table.snapshot.version == 0


# -- constraints and clustering


def test_a_constraint_is_kept_as_it_is_written(table):
    table.create()
    table.alter.add_constraint("Positive", "id  >  0")
    assert table.properties == {"delta.constraints.positive": "id  >  0"}
    assert table.versions == (1, 3)
    with pytest.raises(InvalidTableChangeError, match="already"):
        table.alter.add_constraint("POSITIVE", "id > 1")
    table.alter.drop_constraint("positivE")
    assert table.properties == {}
    assert not table.alter.drop_constraint("positive", if_exists=True).committed
    with pytest.raises(InvalidTableChangeError):
        table.alter.drop_constraint("positive")


@pytest.mark.parametrize("sql", ["nowhere > 0", "id >", "id.x = 1"])
def test_a_constraint_must_be_about_the_table(table, sql):
    table.create()
    with pytest.raises(InvalidTableChangeError):
        table.alter.add_constraint("c", sql, verified=table.snapshot)


def test_a_condition_that_is_not_decided_here_is_checked_by_the_caller(table):
    table.create()
    with pytest.raises(InvalidTableChangeError) as caught:
        table.alter.add_constraint("c", "length(s) < 5")
    assert caught.value.cure == "check the rows of a version, and pass it as verified"
    assert table.alter.add_constraint("c", "length(s) < 5", verified=table.snapshot).committed


def test_clustering_begins_and_ends(table):
    table.create()
    table.alter.cluster_by("ID")
    assert table.snapshot.domains["delta.clustering"].configuration == (
        '{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}'
    )
    assert table.features >= {"clustering", "domainMetadata"}
    table.alter.cluster_by()
    assert table.snapshot.domains["delta.clustering"].configuration == (
        '{"clusteringColumns":[],"domainName":"delta.clustering"}'
    )
    with pytest.raises(InvalidTableDefinitionError):
        table.alter.cluster_by("id", "ID")


# -- races


def racing(table, other):
    """Changes whose transactions see the table before ``other`` is committed."""

    def start(snapshot):
        transaction = log.start_transaction(snapshot)
        other()
        return transaction

    log = table.again()
    alter = log.alter()
    return type(alter)(start=start, origin=alter.origin)


def test_a_change_passes_commits_that_only_write_data(table):
    table.create()
    result = racing(table, lambda: table.append("a")).add_columns(NewColumn(path="n", type=LONG))
    assert (result.version, result.attempts) == (2, 2)
    assert names(table) == ("id", "s", "n")
    assert len(table.snapshot.files()) == 1


def test_a_change_does_not_pass_another_change(table):
    table.create()
    other = table.again().alter()
    with pytest.raises(MetadataChangedError):
        racing(table, lambda: other.add_columns(NewColumn(path="m", type=LONG))).add_columns(NewColumn(path="n", type=DOUBLE))
    assert names(table) == ("id", "s", "m")


def test_a_constraint_is_not_added_when_unchecked_rows_came(table):
    table.create()
    with pytest.raises(ConcurrentAppendError):
        racing(table, lambda: table.append("a")).add_constraint("c", "id > 0")
    checked = table.snapshot
    table.append("b")
    with pytest.raises(ConcurrentAppendError):
        table.alter.add_constraint("c", "id > 0", verified=checked)
    assert table.properties == {}


@pytest.mark.parametrize(("sql", "broken"), [("id < 2", 1), ("n > 0", 2), ("id >= 0", 0)])
def test_rows_that_are_there_must_satisfy_a_constraint(real_table, sql, broken):
    made = real_table()
    made.commit(adds=made.add("a", number=1, partition="x"))
    made.commit(adds=made.add("b", number=2, partition="y"))
    sql = sql.replace("id", "n") if broken != 2 else "p = 'z' OR n IS NULL"
    if not broken:
        assert made.log.alter().add_constraint("c", sql).committed
        return
    with pytest.raises(ConstraintViolatedError) as caught:
        made.log.alter().add_constraint("c", sql)
    assert caught.value.rows == broken


def test_a_default_stays_with_its_column(table):
    table.create(StructType((with_default(StructField("a", LONG), "1"), StructField("b", LONG))), properties=NAME_MODE)
    table.alter.rename_column("a", "c")
    assert table.snapshot.schema.find("c").metadata["CURRENT_DEFAULT"] == "1"


def test_what_another_engine_made_of_the_table_stands_in_the_way_of_no_other_change(table):
    actions = protocol(), metadata(schema_string("a b"))
    table.store.write("_delta_log/00000000000000000000.json", "\n".join(map(json.dumps, actions)).encode())
    table.alter.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(InvalidTableDefinitionError) as caught:
        table.alter.add_columns(NewColumn(path="c d", type=LONG))
    assert len(caught.value.reasons) == 1


def test_an_invariant_keeps_its_columns(table):
    said = {"delta.invariants": '{"expression":{"expression":"a > b"}}'}
    table.create(
        StructType((StructField("a", LONG, True, said), StructField("b", LONG), StructField("c", LONG))), properties=NAME_MODE
    )
    with pytest.raises(InvalidTableChangeError, match="the invariant of a"):
        table.alter.rename_column("b", "d")
    table.alter.rename_column("c", "d")


@pytest.mark.parametrize("sql", ["id > 0; drop table t", "select 1", "(" * 3_000 + "1"])
def test_a_constraint_is_one_condition(table, sql):
    table.create()
    with pytest.raises(InvalidTableChangeError):
        table.alter.add_constraint("c", sql, verified=table.snapshot)


def test_a_comment_is_what_people_say_of_the_table(table):
    table.create(description="before")
    table.alter.set_properties({"comment": "after", "own": "1"})
    assert table.snapshot.metadata.description == "after"
    assert table.properties == {"own": "1"}


def test_a_table_with_the_preview_of_a_feature_does_not_get_the_feature_too(table):
    table.create(struct(a=INTEGER), properties={"delta.feature.typeWidening-preview": "supported"})
    table.alter.set_properties({"delta.enableTypeWidening": "true"})
    assert table.snapshot.protocol.reader_features == {"typeWidening-preview"}
    table.alter.widen_column("a", LONG)
    change = {"toType": "long", "fromType": "integer", "tableVersion": 2}
    assert table.snapshot.schema.find("a").metadata["delta.typeChanges"] == [change]
    table.alter.set_properties({"owner": "me"})
    assert table.snapshot.schema.find("a").metadata["delta.typeChanges"] == [change]


def test_a_protocol_that_contradicts_itself_is_repaired_by_the_feature_that_it_lacks():
    log = HandmadeLog().commit(protocol(1, 7, writerFeatures=["rowTracking"]), metadata()).log
    with pytest.raises(InvalidProtocolError) as caught:
        log.alter().set_properties({"owner": "me"})
    assert caught.value.contradictions == ("rowTracking needs domainMetadata",)
    log.alter().add_feature("domainMetadata")
    assert log.alter().set_properties({"owner": "me"}).version == 2
