"""Values that Spark's ``to_json`` wrote: a server of Spark Connect before 4.1 observes no structs, but texts."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import types

JSON_OPTIONS = {"ignoreNullFields": "false"}
"""With which ``to_json`` leaves nothing out."""


def read_struct(text: str, kind: types.StructType) -> dict[str, Any]:
    """The members of a struct by name; structs in it are dictionaries, too.

    Args:
        text: As ``to_json`` writes it with ``JSON_OPTIONS``.
        kind: Its type. Members are structs, arrays, numbers, texts, bytes and flags: times have no form that every zone reads
            alike.
    """
    found: dict[str, Any] = _value(json.loads(text, parse_float=Decimal), kind)
    return found


def _value(sent: Any, kind: types.DataType) -> Any:
    match kind:
        case _ if sent is None:
            return None
        case types.StructType():
            return {field.name: _value(sent[field.name], field.dataType) for field in kind}
        case types.ArrayType():
            return [_value(item, kind.elementType) for item in sent]
        case types.FloatType():
            return pa.scalar(float(sent), pa.float32()).as_py()
        case types.DoubleType():
            return float(sent)  # also of the texts NaN and Infinity
        case types.DecimalType():
            return Decimal(sent)
        case types.BinaryType():
            return base64.b64decode(sent)
        case _:
            return sent
