"""Tables of features whose types are not known here: opened, and read without the columns of such types."""

import json
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedTypeError, UnsupportedWriterFeatureError
from airflow_delta.core.snapshot.unreadable_columns import UnreadableColumnsWarning
from tests.core.builders import HandmadeLog, add, metadata, protocol, schema_string

PARTLY = {
    "geospatial": "geometry(OGC:CRS84)",
    "geospatial-preview": "geography(OGC:CRS84, spherical)",
    "timestampNanos": "timestamp_nanos",
}


def listed(feature):
    return protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature])


def real_table(root, kind, feature):
    (root / "_delta_log").mkdir()
    rows = {"id": pa.array([1, 2], pa.int64()), "place": pa.array([b"a", b"b"]), "name": ["x", "y"]}
    pq.write_table(pa.table(rows), root / "a.parquet")
    schema = schema_string(id="long", place=kind, name="string")
    stats = json.dumps({"numRecords": 2, "minValues": {"id": 1, "place": "POINT(1 2)"}, "maxValues": {"id": 2}})
    actions = [listed(feature), metadata(schema), add("a.parquet", stats=stats)]
    (root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return DeltaLog.for_table(str(root))


@pytest.mark.parametrize("feature", PARTLY)
def test_a_table_is_read_without_the_columns_of_types_that_only_a_feature_explains(feature, tmp_path):
    snapshot = real_table(tmp_path, PARTLY[feature], feature).snapshot()
    with pytest.warns(UnreadableColumnsWarning) as warned:
        rows = snapshot.to_arrow(where="id > 1").read_all()
    assert rows.to_pylist() == [{"id": 2, "name": "y"}]
    assert snapshot.unreadable_columns == ("place",)
    assert (warned[0].message.table, warned[0].message.columns) == (str(tmp_path), ("place",))
    assert PARTLY[feature] in snapshot.schema_string
    with pytest.raises(SchemaMismatchError, match="place"):
        snapshot.to_arrow(columns=["place"])


def test_a_column_that_holds_such_a_value_is_left_out_whole():
    inner = {"type": "struct", "fields": [{"name": "p", "type": "geometry(OGC:CRS84)", "nullable": True, "metadata": {}}]}
    schema = schema_string(id="long", places={"type": "array", "elementType": inner, "containsNull": True})
    snapshot = HandmadeLog().commit(listed("geospatial"), metadata(schema)).log.snapshot()
    with pytest.warns(UnreadableColumnsWarning, match="without its columns places: their types are not known"):
        assert snapshot.schema.names == ("id",)


@pytest.mark.parametrize("feature", PARTLY)
def test_such_a_table_is_not_written(feature):
    log = HandmadeLog().commit(listed(feature), metadata(schema_string(id="long", place=PARTLY[feature]))).log
    with pytest.raises(UnsupportedWriterFeatureError) as caught:
        log.alter().set_properties({"owner": "me"})
    assert caught.value.features == (feature,)


@pytest.mark.parametrize("feature", PARTLY)
def test_a_table_that_lists_the_feature_and_has_no_such_column_is_like_any_other(feature):
    log = HandmadeLog().commit(listed(feature), metadata()).log
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.snapshot().schema.names == ("id",)
    assert log.alter().set_properties({"owner": "me"}).version == 1


def test_a_type_that_no_listed_feature_explains_is_an_error_and_not_left_out():
    snapshot = HandmadeLog().create().commit(metadata(schema_string(id="long", place="geometry"))).log.snapshot()
    assert snapshot.schema.names == ("id", "place")
    with pytest.raises(UnsupportedTypeError, match="geometry"):
        snapshot.to_arrow()
