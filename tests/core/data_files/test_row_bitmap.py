"""The bitmap against an independent writer: the functions at the top follow the format's specification, not our code."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files.row_bitmap import RowBitmap


def container(rows, *, runs):
    """(kind, content) of a container by the Roaring format; rows are below 2**16."""
    if runs:
        pairs = []
        for row in sorted(rows):
            if pairs and row == pairs[-1][0] + pairs[-1][1] + 1:
                pairs[-1][1] += 1
            else:
                pairs.append([row, 0])
        return struct.pack(f"<H{2 * len(pairs)}H", len(pairs), *(number for pair in pairs for number in pair))
    if len(rows) <= 4096:
        return struct.pack(f"<{len(rows)}H", *sorted(rows))
    bits = bytearray(8192)
    for row in rows:
        bits[row // 8] |= 1 << row % 8
    return bytes(bits)


def bitmap(rows, *, runs):
    groups = {}
    for row in rows:
        groups.setdefault(row >> 16, []).append(row & 0xFFFF)
    keys = sorted(groups)
    bodies = [container(groups[key], runs=runs) for key in keys]
    if runs:
        head = struct.pack("<I", 12347 | (len(keys) - 1) << 16) + b"\xff" * ((len(keys) + 7) // 8)
    else:
        head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", key, len(groups[key]) - 1) for key in keys)
    offsets = b"\0" * 4 * len(keys) if not runs or len(keys) >= 4 else b""
    return head + offsets + b"".join(bodies)


def serialized(rows, *, runs=False):
    groups = {}
    for row in rows:
        groups.setdefault(row >> 32, []).append(row & 0xFFFFFFFF)
    body = b"".join(struct.pack("<I", key) + bitmap(groups[key], runs=runs) for key in sorted(groups))
    return struct.pack("<iq", 1681511377, len(groups)) + body


ROWS = st.sets(st.integers(0, 200_000) | st.integers(2**32 - 5, 2**32 + 5), max_size=50)
DENSE = st.builds(lambda start, length, step: set(range(start, start + length * step, step)), *(
    st.integers(0, 140_000), st.integers(0, 9_000), st.integers(1, 5)
))  # fmt: skip


def of(rows):
    return RowBitmap.from_positions(pa.array(sorted(rows), pa.int64()))


@given(ROWS, st.booleans())
def test_the_rows_that_were_written_are_read(rows, runs):
    found = RowBitmap.parse(serialized(rows, runs=runs))
    assert found.positions().to_pylist() == sorted(rows)
    assert len(found) == len(rows)


@pytest.mark.parametrize("runs", [False, True])
def test_a_container_of_many_rows_is_read(runs):
    rows = [*range(0, 60_000, 3), *range(65_536, 65_546), *range(2**17, 2**17 + 65_536)]
    assert RowBitmap.parse(serialized(rows, runs=runs)).positions().to_pylist() == rows


@given(ROWS | DENSE)
def test_a_set_of_rows_goes_round_through_its_bytes(rows):
    assert RowBitmap.parse(of(rows).serialize()).positions().to_pylist() == sorted(rows)


@pytest.mark.parametrize("rows", [[], [7], [1, 5, 70_000, 2**33], list(range(0, 20_000, 2))])
def test_without_runs_the_bytes_are_those_of_any_other_writer(rows):
    content, other = of(rows).serialize(), bytearray(serialized(rows))
    assert RowBitmap.parse(bytes(other)).serialize() == content
    assert len(content) == len(other)


def test_neighboring_rows_take_no_space():
    assert len(of(range(1_000_000)).serialize()) < 400


@given(ROWS | DENSE, ROWS | DENSE)
def test_a_union_has_the_rows_of_both(one, other):
    both = of(one).union(of(other))
    assert both.positions().to_pylist() == sorted(one | other)
    assert RowBitmap.parse(both.serialize()).positions().to_pylist() == sorted(one | other)


@given(ROWS | DENSE, ROWS | DENSE)
def test_a_difference_has_the_rows_of_one_only(one, other):
    rest = of(one).minus(of(other))
    assert rest.positions().to_pylist() == sorted(one - other)
    assert RowBitmap.parse(rest.serialize()).positions().to_pylist() == sorted(one - other)


@given(ROWS | DENSE, st.integers(0, 200_000), st.integers(0, 100_000))
def test_a_mask_shows_which_rows_of_a_stretch_are_in_the_set(rows, first, length):
    mask = of(rows).mask(first, length)
    assert len(mask) == length
    assert {first + index for index, inside in enumerate(mask.to_pylist()) if inside} == {
        row for row in rows if first <= row < first + length
    }


@pytest.mark.parametrize("order", "<>")
def test_the_format_before_the_portable_one_is_read(order):
    bitmaps = [bitmap([1, 2, 70_000], runs=False), bitmap([], runs=False), bitmap([4], runs=False)]
    body = b"".join(struct.pack(f"{order}I", len(bitmap)) + bitmap for bitmap in bitmaps)
    content = struct.pack(f"{order}II", 1681511376, 3) + body
    assert RowBitmap.parse(content).positions().to_pylist() == [1, 2, 70_000, 2**33 + 4]


@pytest.mark.parametrize("positions", [[3, 2], [2, 2], [-1], [None]])
def test_positions_that_do_not_ascend_are_no_set(positions):
    with pytest.raises(ValueError, match="position"):
        RowBitmap.from_positions(pa.array(positions, pa.int64()))


def changed(content, place, replacement):
    return content[:place] + replacement + content[place + len(replacement) :]


CONTENT = serialized([1, 2, 70_000])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 16,
        CONTENT[:-1],
        changed(CONTENT, 4, b"\xff" * 7 + b"\x7f"),  # more bitmaps than bytes
        changed(CONTENT, 12, b"\xff" * 4),  # negative positions
        changed(CONTENT, 16, b"\0" * 4),  # no bitmap
        changed(CONTENT, 20, b"\xff" * 4),  # 4 billion containers
        changed(CONTENT, 28, b"\0\0"),  # two containers for the same rows
    ],
)
def test_bytes_that_are_no_bitmap_are_refused(content):
    with pytest.raises(ValueError, match="deletion vector"):
        RowBitmap.parse(content)


@pytest.mark.parametrize(
    "content",
    [
        serialized([1, 2])[:-2] + b"\1\0",  # a row twice
        serialized([5, 6, 7], runs=True)[:-2] + b"\xff\xff",  # a run beyond its container
        serialized(range(0, 60_000, 2))[:-8192] + b"\0" * 8192,  # a bitmap without rows
    ],
)
def test_a_container_that_does_not_hold_what_its_header_says_is_refused_when_it_is_looked_into(content):
    found = RowBitmap.parse(content)
    with pytest.raises(ValueError, match="deletion vector"):
        found.mask(0, 10)


@given(st.binary(max_size=200), st.integers(0, 60), st.sampled_from([CONTENT, serialized(range(50), runs=True)]))
def test_garbage_is_refused_or_read_within_its_size(garbage, place, content):
    try:
        found = RowBitmap.parse(changed(content, place, garbage))
        found.mask(0, 1_000)
    except ValueError:
        return
    assert all(key >= 0 for key in found.containers)


def test_a_deletion_vector_of_few_bytes_for_billions_of_rows_is_looked_into_row_group_by_row_group():
    body = b"".join(struct.pack("<HHH", 1, 0, 65_535) for _ in range(65_536))
    keys = struct.pack("<131072H", *(number for key in range(65_536) for number in (key, 65_535)))
    head = struct.pack("<I", 12347 | 65_535 << 16) + b"\xff" * 8192 + keys + b"\0" * 4 * 65_536
    found = RowBitmap.parse(struct.pack("<iqI", 1681511377, 1, 0) + head + body)
    assert len(found) == 2**32
    assert found.mask(2**31, 100_000).true_count == 100_000
