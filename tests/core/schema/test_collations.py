import json

from airflow_delta.core.schema import StructField, StructType, schema_json
from airflow_delta.core.schema.collations import has_collation, renamed
from airflow_delta.core.schema.data_types import INTEGER, STRING, ArrayType
from airflow_delta.core.table_changes import NewColumn, NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from tests.core.builders import HandmadeLog, add, metadata, protocol

LCASE = "spark.UTF8_LCASE"


def test_a_renamed_column_keeps_its_collations_under_its_new_name():
    plain = StructField("a", STRING, metadata={"__COLLATIONS": {"a": LCASE}})
    nested = StructField("a", ArrayType(STRING), metadata={"__COLLATIONS": {"a.element": LCASE, "ab": LCASE}})
    assert renamed(plain, "b").metadata == {"__COLLATIONS": {"b": LCASE}}
    assert renamed(nested, "b").metadata == {"__COLLATIONS": {"b.element": LCASE, "ab": LCASE}}
    assert renamed(StructField("a", INTEGER), "b") == StructField("b", INTEGER)
    assert renamed(StructField("a", STRING, metadata={"__COLLATIONS": 1}), "b").metadata == {"__COLLATIONS": 1}


def test_a_table_that_is_made_keeps_its_collations_and_lists_their_feature():
    handmade = HandmadeLog()
    log = handmade.log
    columns = parse_struct("id BIGINT, name STRING COLLATE UTF8_LCASE")
    log.create(NewTable(schema=columns, properties={"delta.columnMapping.mode": "name"}))
    log.alter().rename_column("name", "title")
    snapshot = log.refresh()
    assert snapshot.schema.find("title").metadata["__COLLATIONS"] == {"title": LCASE}
    assert {"collations", "domainMetadata"} <= snapshot.protocol.writer_features
    assert snapshot.protocol.reader_features is None
    log.alter().add_columns(NewColumn(path="alias", type=STRING))
    assert has_collation(log.refresh().schema.find("title"))


def test_files_are_not_left_out_by_the_bytes_of_texts_with_a_collation():
    collated = StructField("folded", STRING, metadata={"__COLLATIONS": {"folded": LCASE}})
    schema = schema_json(StructType((StructField("plain", STRING), collated)))
    bounds = {"minValues": {"plain": "A", "folded": "A"}, "maxValues": {"plain": "B", "folded": "B"}}
    stats = json.dumps({"numRecords": 2, **bounds, "nullCount": {"folded": 0}})
    listed = protocol(1, 7, writerFeatures=["collations", "domainMetadata"])
    snapshot = HandmadeLog().commit(listed, metadata(schema), add("f", stats=stats)).log.snapshot()
    assert len(snapshot.files("plain = 'a'")) == 0
    assert len(snapshot.files("folded = 'a'")) == 1
    assert len(snapshot.files("folded IN ('a', 'z')")) == 1
