"""A set of row positions as a 64-bit Roaring bitmap: the content of a deletion vector.

Rows are kept as stored, in containers of 2**16 positions (a list of positions, a bitmap, or runs), and unpacked one container
at a time on demand: memory stays near the stored size, whatever the number of rows.

Protocol: PROTOCOL.md, Appendix "Deletion Vector Format"; https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

_MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376  # of the older format, which Delta Spark still reads and PROTOCOL.md's inline example uses
_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4  # with run containers, fewer containers than this are stored without offsets
_ARRAY_LIMIT = 4096  # containers with more rows are bitmaps
_BITMAP_BYTES = 8192
_CONTAINER_ROWS = 1 << 16
_CONTAINERS_OF_BITMAP = 1 << 16
_MAX_UPPER_HALF = (1 << 31) - 1  # keeps positions non-negative in Java
_NOTHING = pa.BooleanArray.from_buffers(pa.bool_(), _CONTAINER_ROWS, [None, pa.py_buffer(bytes(_BITMAP_BYTES))])


Buffer: TypeAlias = bytes | memoryview


class _Container(NamedTuple):
    """Up to 2**16 consecutive row positions, as stored."""

    rows: int
    is_run: bool
    content: Buffer

    def mask(self) -> pa.BooleanArray:
        """Whether the container includes each of its 2**16 positions. Raises ``ValueError`` if it contradicts its header."""
        if self.is_run:
            mask = _mask_of_runs(self.content)
        elif self.rows > _ARRAY_LIMIT:
            mask = pa.Array.from_buffers(pa.bool_(), _CONTAINER_ROWS, [None, pa.py_buffer(self.content)])
        else:
            mask = _mask_of(pa.Array.from_buffers(pa.uint16(), self.rows, [None, pa.py_buffer(self.content)]))
        if mask.true_count != self.rows:
            raise ValueError(f"the deletion vector has {mask.true_count} rows where it says {self.rows}")
        return mask

    @classmethod
    def of_positions(cls, lower: pa.UInt16Array) -> _Container:
        """The smallest container for these positions, which must be ascending."""
        rows = len(lower)
        starts = pa.concat_arrays([pa.array([True]), pc.not_equal(pc.subtract(lower[1:], lower[:-1]), 1)])
        runs = starts.true_count
        if 2 + 4 * runs < min(2 * rows, _BITMAP_BYTES):
            first = pc.indices_nonzero(starts).cast(pa.int64())
            lengths = pc.subtract(pa.concat_arrays([first[1:], pa.array([rows], pa.int64())]), first)
            pairs = zip(lower.take(first).to_pylist(), lengths.to_pylist(), strict=True)
            numbers = [number for start, length in pairs for number in (start, length - 1)]
            return cls(rows, True, struct.pack(f"<H{2 * runs}H", runs, *numbers))
        if rows > _ARRAY_LIMIT:
            return cls.of_mask(_mask_of(lower))
        # Concatenating a single array copies it, so that it starts at the beginning of its buffer.
        return cls(rows, False, pa.concat_arrays([lower, lower[:0]]).buffers()[1].to_pybytes()[: 2 * rows])

    @classmethod
    def of_mask(cls, mask: pa.BooleanArray) -> _Container:
        """A bitmap container, for more rows than a list may have."""
        return cls(mask.true_count, False, mask.buffers()[1].to_pybytes()[:_BITMAP_BYTES])


@dataclass(frozen=True, slots=True)
class RowBitmap:
    """A set of row positions, from 0.

    Attributes:
        containers: Containers by the upper 48 bits of their positions, ascending.
    """

    containers: Mapping[int, Any]

    @classmethod
    def from_positions(cls, positions: pa.Int64Array) -> RowBitmap:
        """The set of these positions, which must be ascending and distinct.

        Raises:
            ValueError: They are not, or one is negative.
        """
        if positions.null_count or (len(positions) and positions[0].as_py() < 0):
            raise ValueError("a row position is negative or NULL")
        if not pc.all(pc.less(positions[:-1], positions[1:]), min_count=0).as_py():
            raise ValueError("row positions do not ascend")
        groups = pc.run_end_encode(pc.shift_right(positions, 16), run_end_type=pa.int64())
        lower = pc.bit_wise_and(positions, _CONTAINER_ROWS - 1).cast(pa.uint16())
        ends = groups.run_ends.to_pylist()
        pieces = (lower.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False))
        return cls(dict(zip(groups.values.to_pylist(), map(_Container.of_positions, pieces), strict=True)))

    @classmethod
    def parse(cls, content: bytes) -> RowBitmap:
        """The set in the bytes of a deletion vector; the containers' content is checked on use.

        Raises:
            ValueError: The bytes are not a valid deletion vector.
        """
        try:
            return cls(_ascending(_containers(memoryview(content))))
        except struct.error as error:
            raise ValueError(f"the deletion vector is cut off: {error}") from error

    def serialize(self) -> bytes:
        """The set as the bytes of a deletion vector."""
        bitmaps: dict[int, dict[int, _Container]] = {}
        for key, container in self.containers.items():
            bitmaps.setdefault(key >> 16, {})[key & 0xFFFF] = container
        parts: list[Buffer] = [struct.pack("<iq", _MAGIC, len(bitmaps))]
        for upper, containers in bitmaps.items():
            parts += [
                struct.pack("<I", upper),
                _bitmap_header(containers),
                *(container.content for container in containers.values()),
            ]
        return b"".join(parts)

    def __len__(self) -> int:
        """The number of rows, according to the containers' headers."""
        return sum(container.rows for container in self.containers.values())

    def union(self, other: RowBitmap) -> RowBitmap:
        """The rows in either set."""
        merged = {**self.containers, **other.containers}
        for key in self.containers.keys() & other.containers.keys():
            both = pc.or_(self.containers[key].mask(), other.containers[key].mask())
            merged[key] = _Container.of_positions(pc.indices_nonzero(both).cast(pa.uint16()))
        return RowBitmap(dict(sorted(merged.items())))

    def minus(self, other: RowBitmap) -> RowBitmap:
        """The rows of this set that are not in the other. Raises as ``mask``."""
        kept = dict(self.containers)
        for key in self.containers.keys() & other.containers.keys():
            rest = pc.and_not(self.containers[key].mask(), other.containers[key].mask())
            kept[key] = _Container.of_positions(pc.indices_nonzero(rest).cast(pa.uint16())) if rest.true_count else None
        return RowBitmap({key: container for key, container in kept.items() if container is not None})

    def checked(self) -> RowBitmap:
        """This set, after checking each container against its header. Raises as ``mask``."""
        for container in self.containers.values():
            container.mask()
        return self

    def positions(self) -> pa.Int64Array:
        """All positions, ascending; takes eight bytes for each row. Raises as ``mask``."""
        pieces = (
            pc.add(pc.indices_nonzero(container.mask()).cast(pa.int64()), key << 16)
            for key, container in self.containers.items()
        )
        return pa.concat_arrays([pa.array([], pa.int64()), *pieces])

    def mask(self, first: int, rows: int) -> pa.BooleanArray:
        """Whether each of ``rows`` rows from position ``first`` on is in the set.

        Raises:
            ValueError: A container contradicts its header.
        """
        pieces, end = [], first + rows
        while first < end:
            key, start = divmod(first, _CONTAINER_ROWS)
            length = min(_CONTAINER_ROWS - start, end - first)
            container = self.containers.get(key)
            pieces.append((_NOTHING if container is None else container.mask()).slice(start, length))
            first += length
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays([_NOTHING[:0], *pieces])


def _mask_of(lower: pa.UInt16Array) -> pa.BooleanArray:
    flags = bytearray(_CONTAINER_ROWS)
    for row in lower.to_pylist():  # at most 4096; Arrow 22 and later could scatter them
        flags[row] = 1
    return _as_mask(flags)


def _mask_of_runs(content: Buffer) -> pa.BooleanArray:
    (runs,) = struct.unpack_from("<H", content)
    numbers = struct.unpack_from(f"<{2 * runs}H", content, 2)
    flags = bytearray(_CONTAINER_ROWS)
    for start, more in zip(numbers[::2], numbers[1::2], strict=True):
        end = start + more + 1
        if end > _CONTAINER_ROWS:
            raise ValueError("the deletion vector has a run beyond its container")
        flags[start:end] = b"\1" * (end - start)
    return _as_mask(flags)


def _as_mask(flags: bytearray) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.uint8(), _CONTAINER_ROWS, [None, pa.py_buffer(flags)]).cast(pa.bool_())


# -- stored format


def _ascending(containers: Iterator[tuple[int, _Container]]) -> dict[int, _Container]:
    found: dict[int, _Container] = {}
    last = -1
    for key, container in containers:
        if key <= last:
            raise ValueError("the containers of the deletion vector do not ascend")
        found[key], last = container, key
    return found


def _containers(content: memoryview) -> Iterator[tuple[int, _Container]]:
    (magic,) = struct.unpack_from("<I", content)
    is_portable, order = magic == _MAGIC, ">" if struct.unpack_from(">I", content)[0] == _NATIVE_MAGIC else "<"
    if not is_portable and order == "<" and magic != _NATIVE_MAGIC:
        raise ValueError(f"the deletion vector has an unknown format ({magic})")
    (count,) = struct.unpack_from("<q" if is_portable else f"{order}I", content, 4)
    position = 12 if is_portable else 8
    for index in range(count):
        (number,) = struct.unpack_from(f"{order}I", content, position)
        upper = number if is_portable else index  # the native format has each bitmap's size instead of a key
        if upper > _MAX_UPPER_HALF:
            raise ValueError("the deletion vector has negative positions")
        headers, position = _container_headers(content, position + 4)
        for lower, rows, is_run in headers:
            size = 2 + 4 * struct.unpack_from("<H", content, position)[0] if is_run else min(2 * rows, _BITMAP_BYTES)
            if position + size > len(content):
                raise ValueError("the deletion vector is cut off")
            yield upper << 16 | lower, _Container(rows, is_run, content[position : position + size])
            position += size


def _container_headers(content: memoryview, position: int) -> tuple[list[tuple[int, int, bool]], int]:
    """Key, number of rows and kind of each container, and the offset of the first one."""
    (cookie,) = struct.unpack_from("<I", content, position)
    position += 4
    flags = content[:0]
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = content[position : position + (count + 7) // 8]
        position += len(flags)
        if len(flags) * 8 < count:
            raise ValueError("the deletion vector is cut off")
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", content, position)
        position += 4
    else:
        raise ValueError(f"the deletion vector holds an unknown bitmap ({cookie})")
    if count > _CONTAINERS_OF_BITMAP:
        raise ValueError(f"the deletion vector says to have {count} containers")
    numbers = struct.unpack_from(f"<{2 * count}H", content, position)
    runs = [bool(flags and flags[index // 8] >> index % 8 & 1) for index in range(count)]
    headers = [(key, rows + 1, run) for key, rows, run in zip(numbers[::2], numbers[1::2], runs, strict=True)]
    with_offsets = not flags or count >= _OFFSETS_FROM
    return headers, position + (8 if with_offsets else 4) * count


def _bitmap_header(containers: Mapping[int, _Container]) -> bytes:
    count = len(containers)
    numbers = [number for key, container in containers.items() for number in (key, container.rows - 1)]
    keys = struct.pack(f"<{2 * count}H", *numbers)
    if any(container.is_run for container in containers.values()):
        flags = sum(container.is_run << index for index, container in enumerate(containers.values()))
        head = struct.pack("<I", _COOKIE_WITH_RUNS | (count - 1) << 16) + flags.to_bytes((count + 7) // 8, "little")
        with_offsets = count >= _OFFSETS_FROM
    else:
        head, with_offsets = struct.pack("<II", _COOKIE, count), True
    if not with_offsets:
        return head + keys
    offsets, place = [], len(head) + 8 * count
    for container in containers.values():
        offsets.append(place)
        place += len(container.content)
    return head + keys + struct.pack(f"<{count}I", *offsets)
