"""Columns written in DDL are those that Spark itself reads in it."""

import json

import pytest

from airflow_delta.core.schema import schema_json
from airflow_delta.core.table_changes.ddl import parse_struct
from tests.spark.needs import looks_into_the_jvm, needs_doubled_quotes

TEXTS = [
    pytest.param("id BIGINT NOT NULL, day DATE COMMENT 'it''s'", marks=needs_doubled_quotes),
    "s STRUCT<a: INT NOT NULL COMMENT 'x', `b c`: ARRAY<STRING>>, m MAP<STRING, DECIMAL(10,2)>",
    "x STRUCT<a INT, b STRUCT<c: INT>>, `a``b` INT",
    "a DEC, b NUMERIC(3), c REAL, d LONG, e BYTE, f SHORT, g TIMESTAMP_NTZ, h TIMESTAMP_LTZ, i VARIANT, j BINARY, k BOOLEAN",
    'date DATE, timestamp TIMESTAMP, order INT, comment STRING COMMENT "q"',
    r"a INT COMMENT 'a\\b\nc\t\'d\'', b INT COMMENT r'\d', c INT COMMENT 'caf\u00e9 \% \_ \Z \x'",
    r"a INT COMMENT '\141\047\401\12\U00000041\U0001F600\ud83d\ude00\u004'",
]


@looks_into_the_jvm
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_means_to_us_what_it_means_to_spark(spark, text):
    theirs = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(text).json()
    assert json.loads(schema_json(parse_struct(text))) == json.loads(theirs)
