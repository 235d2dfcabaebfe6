"""Transfers a listing of Hadoop's from the JVM in one piece.

Reading name, size and time of a million statuses with py4j takes three million round trips. Hadoop can serialize statuses
(``Writable``): a count, followed by a length and a protobuf message for each, ``FileStatusProto`` of its ``FSProtos.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.spark.jvm import hadoop_gateway

_COUNT = struct.Struct(">i")
_FILE_TYPE, _PATH, _LENGTH, _MODIFICATION_TIME = 1, 2, 3, 7  # field numbers in the message
_DIRECTORY = 1
_LAST_BITS = 0x7F  # the highest bit of a byte indicates that more follow


@dataclass(frozen=True, slots=True)
class ListedStatus:
    """A file or directory in a listing.

    Attributes:
        name: The last part of its path.
        size: Size in bytes; 0 for a directory.
        modification_time: Milliseconds since the epoch.
    """

    name: str
    size: int
    modification_time: int
    is_directory: bool


def listed_statuses(spark: SparkSession, statuses: Any) -> list[ListedStatus]:
    """The statuses in a Java array of ``FileStatus``.

    Args:
        spark: The session whose JVM has the array.
        statuses: The result of ``FileSystem.listStatus``.
    """
    jvm, gateway = hadoop_gateway(spark, "a directory")
    # py4j does not accept an array of a subtype, though Java does.
    writables = gateway.new_array(jvm.org.apache.hadoop.io.Writable, len(statuses))
    jvm.java.lang.System.arraycopy(statuses, 0, writables, 0, len(statuses))
    sink = jvm.java.io.ByteArrayOutputStream()
    kind = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileStatus")
    jvm.org.apache.hadoop.io.ArrayWritable(kind, writables).write(jvm.java.io.DataOutputStream(sink))
    return list(parsed_statuses(bytes(sink.toByteArray())))


def parsed_statuses(content: bytes) -> Iterator[ListedStatus]:
    """The statuses in the serialized form of an ``ArrayWritable`` of them."""
    (count,), position = _COUNT.unpack_from(content), _COUNT.size
    for _ in range(count):
        (length,), position = _COUNT.unpack_from(content, position), position + _COUNT.size
        fields = dict(_fields(content[position : position + length]))
        position += length
        path = fields[_PATH].decode()
        yield ListedStatus(
            name=path.rpartition("/")[2],
            size=fields.get(_LENGTH, 0),
            modification_time=fields.get(_MODIFICATION_TIME, 0),
            is_directory=fields[_FILE_TYPE] == _DIRECTORY,
        )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protobuf message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        match wire_type:
            case 0:  # a number
                value, position = _varint(message, position)
                yield number, value
            case 2:  # bytes, text or nested message
                length, position = _varint(message, position)
                yield number, message[position : position + length]
                position += length
            case 1 | 5:  # of fixed width; not needed here
                position += 8 if wire_type == 1 else 4
            case _:
                raise ValueError(f"wire type {wire_type} in a file status")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A protobuf varint, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & _LAST_BITS) << shift
        if byte <= _LAST_BITS:
            return value, position
        shift += 7
