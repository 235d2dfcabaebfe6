"""Files of Spark's writer, rewritten in one column: the kept ones are right, and Spark finds rows by the new file's index."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.data_files.column_chunks import Footer
from tests.core.data_files.test_kept_columns_of_writers import (
    assert_bounds_are_right,
    assert_footer_is_right,
    assert_readers_agree,
    kept_of,
    rewrite,
)
from tests.spark.session_settings import session_settings

pytestmark = pytest.mark.slow

COLUMNS = {
    "i": "id",
    "l": "IF(id % 11 = 3, NULL, (id * 7919) % 1000003 - 500000)",
    "n": "CAST(id DIV 10 AS INT)",
    "h": "CAST(id % 300 - 150 AS SMALLINT)",
    "y": "CAST(id % 256 - 128 AS TINYINT)",
    "b": "id % 3 = 0",
    "d": "DATE '1500-01-01' + CAST(id * 37 AS INT)",
    "at": "TIMESTAMP_SECONDS(id * 1234 + 0.123456)",
    "ntz": "TIMESTAMP_NTZ '2020-01-01 00:00:00' + MAKE_DT_INTERVAL(0, 0, 0, id)",
    "t": "IF(id % 5 = 1, NULL, CONCAT(LPAD(id * 7919 % 1009, 4, '0'), 'é😀'))",
    "long": "CONCAT(REPEAT('ä', 50), LPAD(id, 5, '0'), REPEAT('z', CAST(id % 97 * 10 AS INT)))",
    "bin": "CAST(REPEAT(CHAR(id % 256), CAST(id % 3 AS INT)) AS BINARY)",
    "none": "CAST(NULL AS STRING)",
    "d9": "CAST(id - 1000 AS DECIMAL(9, 2))",
    "d18": "CAST(id - 1000 AS DECIMAL(18, 4))",
    "d38": "CAST(id - 1000 AS DECIMAL(38, 2))",
    "x": "id / 7",
}
MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
WRITERS = {
    "plain": MICROS,
    "small pages": {**MICROS, "parquet.page.size": "500", "parquet.page.row.count.limit": "100"},
    "small row groups": {**MICROS, "parquet.block.size": "20000", "parquet.page.size": "2000"},
    "second version": {**MICROS, "parquet.writer.version": "v2", "parquet.page.row.count.limit": "100"},
    "Bloom filters": {**MICROS, "parquet.bloom.filter.enabled#t": "true", "parquet.enable.dictionary": "false"},
    "zstd": {**MICROS, "compression": "zstd"},
    "INT96": {"spark.sql.parquet.outputTimestampType": "INT96"},
}


@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_spark(spark, tmp_path, writer):
    count, codec = 2_500, WRITERS[writer].get("compression", "snappy")
    rows = spark.range(0, count, 1, 1).selectExpr(*(f"{value} AS `{name}`" for name, value in COLUMNS.items()))
    types = {key: value for key, value in WRITERS[writer].items() if key.startswith("spark.")}  # no options before Spark 4.2
    options = {key: value for key, value in WRITERS[writer].items() if key not in types}
    with session_settings(spark, types):
        rows.write.options(**options).parquet(f"file:{tmp_path}/old")
    (source,) = (tmp_path / "old").glob("*.parquet")
    target = tmp_path / "new" / "new.parquet"
    target.parent.mkdir()
    found = pq.read_table(source)
    kinds = {"at": pa.timestamp("us", "UTC"), "ntz": pa.timestamp("us")}
    table = found.cast(pa.schema([(field.name, kinds.get(field.name, field.type)) for field in found.schema]))

    kept = kept_of(source, table, codec)

    assert set(kept.rest.names) == {"i", "x"} | ({"at"} if writer == "INT96" else set())
    assert (len(kept.footer.row_groups) > 1) == (writer == "small row groups")
    has_filter = any(14 in chunk[3].value for group in kept.footer.row_groups for chunk in kept.footer.chunks(group).values())
    assert has_filter == (writer == "Bloom filters")
    new, stats = rewrite(kept, target, table, codec)
    assert_footer_is_right(target, new, source)
    assert_bounds_are_right(stats, new)
    assert all(
        4 in chunk for group in Footer.of(pa.BufferReader(target.read_bytes())).row_groups for chunk in group[1].value.values
    )
    again = spark.read.parquet(f"file:{target}")
    expected = spark.read.parquet(f"file:{source}").withColumn("i", -F.col("i"))
    assert again.schema == expected.schema
    assert again.where("n = 7").count() == 10
    assert sorted(again.collect(), key=lambda row: row.i) == sorted(expected.collect(), key=lambda row: row.i)
    assert_readers_agree(target.parent, target, new)
