import pytest

from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.indexed_columns import COLUMNS
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidTableDefinitionError, InvalidTablePropertyError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.table_changes import NewTable, statistics_columns
from airflow_delta.core.table_changes.properties import RequestedProperties, requested, spelled, split_names

NAMES = "delta.dataSkippingStatsColumns"


def test_names_are_spelled_as_delta_spells_them_and_the_users_own_stay():
    given = {"DELTA.APPENDONLY": "true", "delta.CheckpointInterval": "5", "My.Key": "X", "appendOnly": "whatever"}
    assert requested(given) == RequestedProperties(
        configuration={"delta.appendOnly": "true", "delta.checkpointInterval": "5", "My.Key": "X", "appendOnly": "whatever"}
    )
    assert spelled(["DELTA.appendonly", "Mine", "delta.COLUMNMAPPING.maxcolumnid"]) == (
        "delta.appendOnly",
        "Mine",
        "delta.columnMapping.maxColumnId",
    )


def test_what_is_about_the_protocol_is_obeyed_and_not_stored():
    given = {
        "delta.minReaderVersion": "2",
        "delta.minwriterversion": "5",
        "delta.feature.DELETIONvectors": "supported",
        "delta.feature.clustering": "enabled",
        "delta.ignoreProtocolDefaults": "true",
    }
    wanted = requested(given)
    assert wanted.configuration == {}
    assert (wanted.reader_version, wanted.writer_version) == (2, 5)
    assert wanted.features == {"deletionVectors", "clustering"}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("delta.appendOnly", ["true", "FALSE"], ["yes", "", "1"]),
        ("delta.checkpointInterval", ["1", "100"], ["0", "-1", "1.5", "ten", "", "٣", "9" * 30]),
        ("delta.dataSkippingNumIndexedCols", ["-1", "0", "32"], ["-2", "x"]),
        ("delta.dataSkippingStringPrefixLength", ["0", "64"], ["-1"]),
        ("delta.randomPrefixLength", ["1"], ["0"]),
        (
            "delta.logRetentionDuration",
            ["interval 30 days", "2 weeks", "1 day 12 hours"],
            ["1 month", "1 year", "soon", "-1 days", ""],
        ),
        ("delta.setTransactionRetentionDuration", ["90 days"], ["x"]),
        ("delta.columnMapping.mode", ["none", "NAME", "id"], ["physical"]),
        ("delta.parquet.format.version", ["1.0.0", "2.12.0"], ["2", "1.0", ""]),
        ("delta.checkpointPolicy", ["classic", "V2"], ["v3"]),
        ("delta.isolationLevel", ["Serializable"], ["WriteSerializable", "SnapshotIsolation"]),
        ("delta.minReaderVersion", ["1", "3"], ["0", "4"]),
        ("delta.minWriterVersion", ["7"], ["8"]),
        (NAMES, ["a", "a.b, `c,d`"], ["a..b", "a,,b", "`a"]),
        (COLUMNS, ["a", "a, `c.d`"], ["a,,b", "`a"]),
        ("airflow_delta.bloomFilter.fpp", ["0.01", "5e-2", "1e-5"], ["0", "1", "-0.1", "nan", "5%", ""]),
        ("airflow_delta.bloomFilter.numItems", ["1", "1000000"], ["0", "-1", "many"]),
        ("delta.targetFileSize", ["134217728", "128mb", "1GB"], ["big", "0", "-1"]),
        ("delta.autoOptimize.autoCompact", ["auto", "true"], ["sometimes"]),
        ("delta.universalFormat.enabledFormats", ["", "iceberg"], ["hudi", "iceberg,hudi"]),
    ],
)
def test_values_are_checked(name, good, bad):
    for value in good:
        requested({name: value})
    for value in bad:
        with pytest.raises(InvalidTablePropertyError) as caught:
            requested({name: value})
        assert (caught.value.name, caught.value.value) == (name, value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("delta.enableDeletionVector", "did you mean delta.enableDeletionVectors?"),
        ("delta.zzz", "unknown property"),
        ("delta.columnMapping.maxColumnId", "it is set by Delta only"),
        ("delta.inCommitTimestampEnablementVersion", "it is set by Delta only"),
        ("delta.constraints.c", "add constraints with ADD CONSTRAINT"),
    ],
)
def test_a_name_that_cannot_be_set_is_refused(name, hint):
    with pytest.raises(InvalidTablePropertyError) as caught:
        requested({name: "true"})
    assert hint in caught.value.detail


def test_a_value_that_is_no_text_is_refused():
    with pytest.raises(InvalidTablePropertyError):
        requested({"delta.appendOnly": True})


@pytest.mark.parametrize("properties", [{"owner": "a\ud83d"}, {"\ud83d": "a"}, {"delta.appendOnly": "\ud83d"}])
def test_a_property_that_utf_8_cannot_hold_is_refused(properties):
    with pytest.raises(InvalidTablePropertyError, match=r"found the lone surrogate \\ud83d"):
        requested(properties)


def test_unknown_features_are_refused():
    with pytest.raises(InvalidTablePropertyError) as caught:
        requested({"delta.feature.novelty": "supported"})
    assert caught.value.detail.startswith("unknown feature 'novelty'; known are allowColumnDefaults, appendOnly, ")
    with pytest.raises(InvalidTablePropertyError):
        requested({"delta.feature.clustering": "off"})


def test_a_feature_of_a_name_close_to_known_ones_is_refused_with_these():
    with pytest.raises(InvalidTablePropertyError) as caught:
        requested({"delta.feature.columMapping": "supported"})
    assert caught.value.detail == "unknown feature 'columMapping'; did you mean columnMapping?"


def test_a_list_of_names_is_split_outside_of_backticks():
    assert split_names("a, b.c ,`d,e`.f") == ("a", "b.c", "`d,e`.f")


def test_columns_with_statistics_follow_their_columns():
    configuration = {NAMES: "a.b,`c d`,e", "k": "v"}
    assert statistics_columns.renamed(configuration, ("A",), ("x.y",))[NAMES] == "`x.y`.b,`c d`,e"
    assert statistics_columns.renamed(configuration, ("a", "z"), ("a", "w")) == configuration
    assert statistics_columns.dropped(configuration, ("c d",)) == {NAMES: "a.b,e", "k": "v"}
    assert statistics_columns.dropped({"k": "v"}, ("a",)) == {"k": "v"}
    both = {NAMES: "a,b", COLUMNS: "b,A"}
    assert statistics_columns.renamed(both, ("a",), ("c",)) == {NAMES: "c,b", COLUMNS: "b,c"}
    assert statistics_columns.dropped(both, ("b",)) == {NAMES: "a", COLUMNS: "A"}


@pytest.mark.parametrize("text", ["x", "", "-2", "9" * 5_000, "1.5"])
def test_a_number_that_another_writer_left_wrong_counts_as_absent(text):
    names = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStringPrefixLength")
    assert StatisticsSelection.from_properties(dict.fromkeys(names, text)) == StatisticsSelection()


@pytest.mark.parametrize("properties", [{"team": 5}, {5: "team"}, {"delta.enableRowTracking": True}, {"team": None}])
def test_what_is_no_text_is_refused_by_every_change_as_no_reader_could_open_the_table(table, properties, tmp_path):
    with pytest.raises(InvalidTablePropertyError, match="expected texts"):
        table.create(properties=properties)
    table.create()
    with pytest.raises(InvalidTablePropertyError, match="expected texts"):
        table.log.alter().set_properties(properties)
    assert table.snapshot.version == 0
    log, clone = (DeltaLog.for_table(str(tmp_path / name)) for name in ("table", "clone"))
    log.create(NewTable(schema=StructType((StructField("id", LONG),))))
    with pytest.raises(InvalidTablePropertyError, match="expected texts"):
        log.shallow_clone(clone, properties=properties)
    assert not clone.exists()


@pytest.mark.parametrize("said", [{"description": 1}, {"name": ["n"]}])
def test_a_name_or_description_that_is_no_text_is_refused(table, said):
    with pytest.raises(InvalidTableDefinitionError, match="expected a text"):
        table.create(**said)
