"""Converts a schema to the JSON text of the log and back.

Protocol: PROTOCOL.md, "Schema Serialization Format".
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from airflow_delta.core.errors import InvalidSchemaError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.schema.data_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
)

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)")
_DEFAULT_DECIMAL = DecimalType(10, 0)
_MOST_DIGITS = 38


@lru_cache(maxsize=64)  # the text recurs in every version of a table
def parse_schema(text: str) -> StructType:
    """The schema in a metaData action's ``schemaString``; unknown type names are preserved.

    Raises:
        InvalidSchemaError: The text is not the JSON of a struct.
    """
    try:
        schema = parse_type(parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidSchemaError(detail=f"{type(error).__name__}: {error}") from error
    if not isinstance(schema, StructType):
        raise InvalidSchemaError(detail=f"expected a struct, found {schema}")
    return schema


def schema_json(schema: StructType) -> str:
    """The schema as ``schemaString``, in Spark's spelling."""
    return json.dumps(_type_document(schema), ensure_ascii=False, separators=(",", ":"))


def parse_type(document: Any) -> DataType:
    """The type in the parsed JSON of a schema.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: It is not a valid type.
    """
    if isinstance(document, str):
        decimal = _DECIMAL.fullmatch(document)
        if decimal is not None:
            return _decimal(int(decimal[1]), int(decimal[2]))
        return _DEFAULT_DECIMAL if document == "decimal" else PrimitiveType(document)
    match document["type"]:
        case "struct":
            return _parse_struct(document["fields"])
        case "array":
            return ArrayType(parse_type(document["elementType"]), bool(document["containsNull"]))
        case "map":
            key, value = parse_type(document["keyType"]), parse_type(document["valueType"])
            return MapType(key, value, bool(document["valueContainsNull"]))
        case _:
            return UnknownType(json.dumps(document, ensure_ascii=False))


def _decimal(precision: int, scale: int) -> DecimalType:
    if not (1 <= precision <= _MOST_DIGITS and 0 <= scale <= precision):
        raise ValueError(f"decimal({precision},{scale}) is not a valid type")
    return DecimalType(precision, scale)


def _parse_struct(documents: Any) -> StructType:
    fields = tuple(map(_parse_field, documents))
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1} if len({*names}) < len(names) else ()):
        raise ValueError(f"two columns have the name {twice[0]!r:.100}")
    return StructType(fields)


def _parse_field(document: dict[str, Any]) -> StructField:
    name, nullable, metadata = document["name"], bool(document.get("nullable", True)), document.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(metadata, dict):
        raise TypeError(f"expected a field, found {name!r:.80}")
    return StructField(name, parse_type(document["type"]), nullable, metadata)


def _type_document(data_type: DataType) -> Any:
    match data_type:
        case StructType(fields):
            return {"type": "struct", "fields": list(map(_field_document, fields))}
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _type_document(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            kinds = {"keyType": _type_document(key), "valueType": _type_document(value)}
            return {"type": "map", **kinds, "valueContainsNull": contains_null}
        case UnknownType(text):
            return json.loads(text)
        case PrimitiveType(name):
            return name
        case DecimalType():
            return str(data_type)


def _field_document(field: StructField) -> dict[str, Any]:
    kind = _type_document(field.type)
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": dict(field.metadata)}
