"""The columns of a stream, which stay the same while it runs."""

from __future__ import annotations

from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.schema.collations import COLLATIONS
from airflow_delta.core.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY
from airflow_delta.spark.io.all_nullable import all_nullable

_FOUND_BY = (ID_KEY, PHYSICAL_NAME_KEY)
_OF_TEXTS = (CHAR_VARCHAR, COLLATIONS)
"""Metadata about padding and comparison of strings."""


def stream_schema(schema: StructType) -> StructType:
    """Names and types of the columns, and how files contain them; equal for two schemas that one stream can read.

    All columns are nullable, as later commits may allow NULL; comments and rules of the table are left out. Strings are as a
    read shows them: a ``char`` is padded, and collations apply.
    """
    return all_nullable(schema, keep=(*_FOUND_BY, *_OF_TEXTS))
