import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files.deletion_vector import FRAME_BYTES, deleted_rows, vector_path

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


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


def framed(content):
    return struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def described(content, rows):
    return {"storage_type": "u", "path_or_inline_dv": "", "offset": 1, "size_in_bytes": len(content), "cardinality": rows}


def z85(content):
    text = ""
    for (word,) in struct.iter_unpack(">I", content + b"\0" * (-len(content) % 4)):
        text += "".join(ALPHABET[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


ROWS = st.sets(st.integers(0, 200_000) | st.integers(2**32 - 5, 2**32 + 5), max_size=50)


@given(ROWS, st.booleans())
def test_the_rows_that_were_written_are_read(rows, runs):
    content = serialized(rows, runs=runs)
    assert deleted_rows(described(content, len(rows)), framed(content)).to_pylist() == sorted(rows)


@pytest.mark.parametrize("runs", [False, True])
def test_a_container_of_many_rows_is_read(runs):
    rows = [*range(0, 60_000, 3), *range(65_536, 65_546), *range(2**17, 2**17 + 65_536)]
    content = serialized(rows, runs=runs)
    assert deleted_rows(described(content, len(rows)), framed(content)).to_pylist() == rows


def test_a_vector_in_the_log_itself_is_read():
    content = serialized([3, 4, 7])
    vector = {**described(content, 3), "storage_type": "i", "path_or_inline_dv": z85(content)}
    assert vector_path(vector) is None
    assert deleted_rows(vector, None).to_pylist() == [3, 4, 7]


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        # PROTOCOL.md's own example
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://mytable/deletion_vector_d2c639aa.bin", "s3://mytable/deletion_vector_d2c639aa.bin"),
    ],
)
def test_the_file_of_a_vector_follows_from_its_name(kind, text, path):
    assert vector_path({"storage_type": kind, "path_or_inline_dv": text}) == path


CONTENT = serialized([1, 2, 70_000])


@pytest.mark.parametrize(
    ("vector", "content"),
    [
        (described(CONTENT, 2), framed(CONTENT)),
        (described(CONTENT[:-2], 3), framed(CONTENT[:-2])),
        (described(CONTENT, 3), framed(CONTENT)[:-1]),
        (described(CONTENT, 3), framed(CONTENT)[:-1] + b"\0"),
        (described(CONTENT, 3), b"\0\0\0\1" + framed(CONTENT)[4:]),
        (described(b"\0" * 16, 3), framed(b"\0" * 16)),
        ({**described(CONTENT, 3), "path_or_inline_dv": "abc"}, None),
        ({**described(CONTENT, 3), "path_or_inline_dv": "\u00fc" * 5}, None),
    ],
)
def test_a_vector_that_is_not_what_the_log_says_is_never_believed(vector, content):
    with pytest.raises(ValueError, match=r"deletion vector|Base85"):
        deleted_rows(vector, content)


def test_an_unknown_kind_of_storage_is_refused():
    with pytest.raises(ValueError, match="'x'"):
        vector_path({"storage_type": "x", "path_or_inline_dv": ""})


def test_the_frame_is_size_and_checksum():
    assert len(framed(b"")) == FRAME_BYTES
