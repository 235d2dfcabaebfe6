"""Copies column chunks between Parquet files byte by byte: decides which can be copied, and writes the new footer.

Specification: apache/parquet-format, src/main/thrift/parquet.thrift; names of struct fields are taken from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.parquet.bloom_filter import read_filter
from airflow_delta.core.parquet.compact_protocol import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    Items,
    Struct,
    read_struct,
    struct_bytes,
)
from airflow_delta.core.parquet.foreign_footer import NOT_UNDERSTOOD, Leaf

MAGIC: Final = b"PAR1"
CODECS: Final = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
"""Parquet's codec numbers, by Arrow's names."""

_TAIL_BYTES = 8  # length of the footer, and magic bytes
_MOST_BYTES = (1 << 32) - 1  # most bytes that the length field can express
_MOST_INDEX_BYTES = 16 << 20  # most bytes of page indexes, which are held in memory until the file ends
_PIECE_BYTES = 8 << 20
_MOST_ORDINALS = 1 << 15

# FileMetaData; KeyValue; SchemaElement; RowGroup
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY = 2, 3, 4, 5, 6
_KEY, _VALUE = 1, 2
_TYPE, _TYPE_LENGTH, _REPETITION, _NAME, _NUM_CHILDREN = 1, 2, 3, 4, 5
_REQUIRED = 0
_COLUMNS, _TOTAL_BYTE_SIZE, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _ORDINAL = 1, 2, 3, 5, 6, 7
# ColumnChunk
_FILE_PATH, _FILE_OFFSET, _META_DATA, _OFFSET_INDEX, _COLUMN_INDEX, _CRYPTO = 1, 2, 3, 4, 6, (8, 9)
# ColumnMetaData
_KIND, _PATH, _CODEC, _NUM_VALUES, _UNCOMPRESSED, _COMPRESSED = 1, 3, 4, 5, 6, 7
_DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET, _BLOOM_FILTER = 9, 10, 11, (14, 15)
# OffsetIndex, PageLocation
_PAGE_LOCATIONS, _PAGE_OFFSET = 1, 1

_WITHOUT_ORDER = (3, 4, 5)
"""INT96, and floats: their bounds in the footer cannot be trusted."""
_WRITERS = re.compile(rb"(parquet-mr version 1\.1\d|parquet-cpp-arrow version \d|parquet-rs version \d|delta-rs version)")
"""Writers whose bounds readers trust as they do those of Arrow."""


class Source(Protocol):
    """A file to copy chunks from."""

    def size(self) -> int:
        """Its size in bytes."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read ``nbytes`` bytes from ``offset`` on."""


@dataclass(frozen=True, eq=False)
class Footer:
    """The footer of a Parquet file.

    Attributes:
        file: The FileMetaData.
        size: Size of the file, in bytes.
    """

    file: Struct
    size: int

    @classmethod
    def of(cls, source: Source, *, most_bytes: int = _MOST_BYTES) -> Footer:
        """The footer of a file. Raises ``ValueError`` if it is not understood, or has more than ``most_bytes``."""
        size = source.size()
        tail = source.read_at(_TAIL_BYTES, size - _TAIL_BYTES) if size > 2 * _TAIL_BYTES else b""
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or not 0 < length <= min(size - _TAIL_BYTES, most_bytes):
            raise ValueError("no footer")
        file = read_struct(source.read_at(length, size - _TAIL_BYTES - length))
        if not {_SCHEMA, _NUM_ROWS, _ROW_GROUPS} <= file.keys():
            raise ValueError("the footer has no columns")
        return cls(file, size)

    @property
    def key_values(self) -> dict[bytes, bytes]:
        """The key-value metadata that the writer added."""
        found = self.file[_KEY_VALUES].value.values if _KEY_VALUES in self.file else ()
        return {pair[_KEY].value: pair[_VALUE].value if _VALUE in pair else b"" for pair in found}

    @property
    def row_groups(self) -> list[Struct]:
        """The row groups, in order."""
        return list(self.file[_ROW_GROUPS].value.values)

    @property
    def row_counts(self) -> list[int]:
        """Number of rows in each row group."""
        return [int(group[_GROUP_ROWS].value) for group in self.row_groups]

    @cached_property
    def columns(self) -> Mapping[str, Struct]:
        """The SchemaElement of each column that is not nested, by name; only names that are unique."""
        found: list[tuple[str, Struct, bool]] = []
        below = 0
        for element in self.file[_SCHEMA].value.values[1:]:
            children = _children(element)
            if not below:
                found.append((element[_NAME].value.decode(), element, not children))
            below = max(0, below - 1) + children
        counts = Counter(name for name, _, _ in found)
        return {name: element for name, element, is_leaf in found if is_leaf and counts[name] == 1}

    def chunks(self, group: Struct) -> Mapping[str, Struct]:
        """The ColumnChunk of each of the ``columns`` in a row group, which readers find by position or by path."""
        leaves = [element for element in self.file[_SCHEMA].value.values[1:] if not _children(element)]
        return {
            name: chunk
            for leaf, chunk in zip(leaves, group[_COLUMNS].value.values, strict=True)
            for name in [leaf[_NAME].value.decode()]
            if self.columns.get(name) is leaf and chunk[_META_DATA].value[_PATH].value.values == [name.encode()]
        }

    def kept(self, wanted: Footer, codec: str) -> list[str]:
        """The columns that another file can copy: it would have written them the same way, and their statistics can be trusted.

        A required column can be copied as a nullable one.

        Args:
            wanted: Footer of the file to be written, without rows.
            codec: Codec of that file, as Arrow names it.
        """
        created_by = self.file.get(_CREATED_BY)
        if created_by is None or not _WRITERS.match(created_by.value):
            return []
        alike = [
            name
            for name, element in wanted.columns.items()
            if name in self.columns
            and {**self.columns[name], _REPETITION: element[_REPETITION]} == element
            and self.columns[name][_REPETITION].value in (_REQUIRED, element[_REPETITION].value)
            and element[_TYPE].value not in _WITHOUT_ORDER
        ]
        groups = [(self.chunks(group), group[_GROUP_ROWS].value) for group in self.row_groups]
        kept = [
            name
            for name in alike
            if all(self._is_plain(chunks.get(name), self.columns[name], rows, codec) for chunks, rows in groups)
        ]
        # Overlapping chunks could make the new file arbitrarily larger than this one.
        return kept if sum(_range(chunks[name])[1] for chunks, _ in groups for name in kept) <= self.size else []

    def with_columns(self, columns: Mapping[str, Struct]) -> Footer:
        """This footer with other SchemaElements for these of the ``columns``."""
        elements = [
            columns.get(name, element) if self.columns.get(name) is element else element
            for element in self.file[_SCHEMA].value.values
            for name in [element[_NAME].value.decode()]
        ]
        return Footer({**self.file, _SCHEMA: Field(LIST, Items(STRUCT, elements))}, self.size)

    def _is_plain(self, chunk: Struct | None, element: Struct, rows: int, codec: str) -> bool:
        """Whether the chunk lies in the file, is compressed with this codec, and has a value or NULL for each row."""
        if chunk is None or {_FILE_PATH, *_CRYPTO} & chunk.keys():
            return False
        described = chunk[_META_DATA].value
        start, size = _range(chunk)
        is_inside = start >= len(MAGIC) and size > 0 and start + size <= self.size
        is_said = (described[_KIND], described[_NUM_VALUES].value, described[_CODEC].value) == (
            element[_TYPE],
            rows,
            CODECS[codec],
        )
        return is_inside and is_said and _leaf(element).has_readable_statistics(described)


class ChunkCopier:
    """Writes a new file from column chunks of other files, one after the other."""

    def __init__(self, sink: pa.NativeFile, template: Footer) -> None:
        """Begin the file.

        Args:
            sink: The new file.
            template: Footer of a file with the same columns.
        """
        self._sink = sink
        self._template = template
        self._row_groups: list[Struct] = []
        self._rows = 0
        self._indexes: list[tuple[Struct, Mapping[int, bytes]]] = []  # page indexes of chunks, by kind
        self._index_bytes = 0
        sink.write(MAGIC)

    def add_row_group(self, chunks: Iterable[tuple[Struct, Source]], rows: int) -> None:
        """Copy these chunks, each from its file, as one row group."""
        start = self._sink.tell()
        named = list(chunks)
        copied = [self._copied(chunk, source) for chunk, source in named]
        for (chunk, source), new in zip(named, copied, strict=True):
            self._copy_filter(chunk, source, new)
        described = [chunk[_META_DATA].value for chunk in copied]
        group: Struct = {
            _COLUMNS: Field(LIST, Items(STRUCT, copied)),
            _TOTAL_BYTE_SIZE: Field(I64, sum(column[_UNCOMPRESSED].value for column in described)),
            _GROUP_ROWS: Field(I64, rows),
            _GROUP_OFFSET: Field(I64, start),
            _GROUP_COMPRESSED: Field(I64, sum(column[_COMPRESSED].value for column in described)),
        }
        if len(self._row_groups) < _MOST_ORDINALS:
            group[_ORDINAL] = Field(I16, len(self._row_groups))
        self._row_groups.append(group)
        self._rows += rows

    def close(self) -> pq.FileMetaData:
        """Write page indexes and footer; returns the footer."""
        for kind in (_COLUMN_INDEX, _OFFSET_INDEX):
            for chunk, indexes in self._indexes:
                chunk[kind] = Field(I64, self._sink.tell())
                chunk[kind + 1] = Field(I32, len(indexes[kind]))
                self._sink.write(indexes[kind])
        groups = Field(LIST, Items(STRUCT, self._row_groups))
        footer = struct_bytes({**self._template.file, _NUM_ROWS: Field(I64, self._rows), _ROW_GROUPS: groups})
        ending = footer + len(footer).to_bytes(4, "little") + MAGIC
        self._sink.write(ending)
        return pq.read_metadata(pa.BufferReader(MAGIC + ending))

    def _copied(self, chunk: Struct, source: Source) -> Struct:
        """Copy the chunk's bytes; returns its metadata in the new file."""
        start, size = _range(chunk)
        moved = self._sink.tell() - start
        for position in range(start, start + size, _PIECE_BYTES):
            self._sink.write(source.read_at(min(_PIECE_BYTES, start + size - position), position))
        described = {
            number: Field(kind, value + moved)
            if number in (_DATA_OFFSET, _DICTIONARY_OFFSET) and value > 0
            else Field(kind, value)
            for number, (kind, value) in chunk[_META_DATA].value.items()
            if number not in (_INDEX_OFFSET, *_BLOOM_FILTER)
        }
        copied: Struct = {_FILE_OFFSET: Field(I64, start + moved), _META_DATA: Field(STRUCT, described)}
        with suppress(*NOT_UNDERSTOOD):  # optional for readers
            places = {kind: (chunk[kind].value, chunk[kind + 1].value) for kind in (_COLUMN_INDEX, _OFFSET_INDEX)}
            are_inside = all(place > 0 and size > 0 and place + size <= source.size() for place, size in places.values())
            bytes_then = self._index_bytes + sum(size for _, size in places.values())
            if are_inside and bytes_then <= _MOST_INDEX_BYTES:
                content = {kind: source.read_at(size, place) for kind, (place, size) in places.items()}
                self._indexes.append((copied, {**content, _OFFSET_INDEX: _moved(content[_OFFSET_INDEX], moved)}))
                self._index_bytes = bytes_then
        return copied

    def _copy_filter(self, chunk: Struct, source: Source, copied: Struct) -> None:
        """Copy the Bloom filter of a chunk, if it has a valid one, to after its row group."""
        described: Struct = chunk[_META_DATA].value
        start, length = (described[number].value if number in described else None for number in _BLOOM_FILTER)
        if start is None:
            return
        with suppress(*NOT_UNDERSTOOD):  # optional for readers
            content = read_filter(source.read_at, start, length, source.size())
            copied[_META_DATA].value.update(
                {
                    _BLOOM_FILTER[0]: Field(I64, self._sink.tell()),
                    _BLOOM_FILTER[1]: Field(I32, len(content)),
                }
            )
            self._sink.write(content)


def _children(element: Struct) -> int:
    """Number of children of a schema element."""
    return int(element[_NUM_CHILDREN].value) if _NUM_CHILDREN in element else 0


def _leaf(element: Struct) -> Leaf:
    """A column that is not part of a struct, list or map, as a leaf."""
    length = element[_TYPE_LENGTH].value if _TYPE_LENGTH in element else None
    return Leaf(element[_TYPE].value, length, 0, 0 if element[_REPETITION].value == _REQUIRED else 1)


def _moved(offset_index: bytes, distance: int) -> bytes:
    """The page index, with the offsets of its pages moved by ``distance`` bytes."""
    index = read_struct(offset_index)
    pages = [
        {**page, _PAGE_OFFSET: Field(I64, page[_PAGE_OFFSET].value + distance)} for page in index[_PAGE_LOCATIONS].value.values
    ]
    return struct_bytes({**index, _PAGE_LOCATIONS: Field(LIST, Items(STRUCT, pages))})


def _range(chunk: Struct) -> tuple[int, int]:
    """Offset of a chunk's first page, and the size of all its pages in bytes."""
    described: Struct = chunk[_META_DATA].value
    start, size = described[_DATA_OFFSET].value, described[_COMPRESSED].value
    dictionary = described[_DICTIONARY_OFFSET].value if _DICTIONARY_OFFSET in described else 0
    return (dictionary if 0 < dictionary < start else start), size
