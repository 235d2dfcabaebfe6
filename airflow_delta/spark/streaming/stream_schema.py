"""The columns that a stream shows, which stay the same while it runs."""

from __future__ import annotations

from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.schema.collations import COLLATIONS
from airflow_delta.core.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY
from airflow_delta.spark.io.all_nullable import all_nullable

_FOUND_BY = (ID_KEY, PHYSICAL_NAME_KEY)
_OF_TEXTS = (CHAR_VARCHAR, COLLATIONS)
"""How texts are padded and compared."""


def stream_schema(schema: StructType) -> StructType:
    """The names and types of the columns, and how files hold them; equal for two schemas that one stream can read.

    Every column may be NULL, since later commits may allow it; comments and rules of the table are left out. Texts are those
    that a read shows: a ``char`` is padded, and compared by its collation.
    """
    return all_nullable(schema, keep=(*_FOUND_BY, *_OF_TEXTS))
