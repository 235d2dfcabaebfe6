import struct
import zlib

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from airflow_delta.core.data_files.deletion_vector import (
    deletion_vector_path,
    framed_deletion_vector,
    inline_deletion_vector,
    stored_deletion_vector,
)
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.data_files.z85 import z85_encoded

ROWS = [1, 2, 70_000]
CONTENT = RowBitmap.from_positions(pa.array(ROWS, pa.int64())).serialize()
DELETION_VECTOR = {"storage_type": "u", "path_or_inline_dv": "", "offset": 1, "size_in_bytes": len(CONTENT), "cardinality": 3}
INLINE = {**DELETION_VECTOR, "storage_type": "i", "path_or_inline_dv": z85_encoded(CONTENT), "offset": None}
FRAMED = struct.pack(">i", len(CONTENT)) + CONTENT + struct.pack(">I", zlib.crc32(CONTENT))


def stored(tmp_path, deletion_vector, content):
    path = tmp_path / "deletion_vector.bin"
    path.write_bytes(content)
    return stored_deletion_vector(deletion_vector, pafs.LocalFileSystem(), str(path))


def test_a_deletion_vector_in_a_file_is_read(tmp_path):
    assert stored(tmp_path, DELETION_VECTOR, b"\1" + FRAMED).positions().to_pylist() == ROWS


def test_a_deletion_vector_without_offset_stands_at_the_beginning(tmp_path):
    assert stored(tmp_path, {**DELETION_VECTOR, "offset": None}, FRAMED).positions().to_pylist() == ROWS


def test_a_frame_is_size_content_and_checksum():
    assert framed_deletion_vector(CONTENT) == FRAMED


def test_a_deletion_vector_in_the_log_itself_is_read():
    assert deletion_vector_path(INLINE) is None
    assert inline_deletion_vector(INLINE).positions().to_pylist() == ROWS


def test_the_inline_example_of_the_protocol_is_read():
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    deletion_vector = {**DELETION_VECTOR, "storage_type": "i", "path_or_inline_dv": text, "size_in_bytes": 40, "cardinality": 6}
    assert inline_deletion_vector(deletion_vector).positions().to_pylist() == [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        # PROTOCOL.md's own example
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://mytable/deletion_vector_d2c639aa.bin", "s3://mytable/deletion_vector_d2c639aa.bin"),
        ("r", "my files/50%.bin", "my%20files/50%25.bin"),
    ],
)
def test_the_file_of_a_deletion_vector_follows_from_its_name(kind, text, path):
    assert deletion_vector_path({"storage_type": kind, "path_or_inline_dv": text}) == path


@pytest.mark.parametrize(("kind", "text"), [("x", ""), (None, ""), ("u", "too short"), ("u", None), ("u", "!" * 20 + "\u00fc")])
def test_what_names_no_file_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"storage type|Base85|16-char"):
        deletion_vector_path({"storage_type": kind, "path_or_inline_dv": text})


@pytest.mark.parametrize(
    ("deletion_vector", "content"),
    [
        ({**DELETION_VECTOR, "cardinality": 2}, FRAMED),
        ({**DELETION_VECTOR, "cardinality": None}, FRAMED),
        ({**DELETION_VECTOR, "size_in_bytes": len(CONTENT) - 2}, FRAMED),
        ({**DELETION_VECTOR, "size_in_bytes": -1}, FRAMED),
        ({**DELETION_VECTOR, "size_in_bytes": (1 << 31) - 1}, FRAMED),
        ({**DELETION_VECTOR, "offset": 2}, FRAMED),
        ({**DELETION_VECTOR, "offset": -1}, FRAMED),
        (DELETION_VECTOR, FRAMED[:-1]),
        (DELETION_VECTOR, FRAMED[:-1] + b"\0"),
        (DELETION_VECTOR, b"\0\0\0\1" + FRAMED[4:]),
        (DELETION_VECTOR, b""),
    ],
)
def test_a_stored_deletion_vector_that_is_not_what_the_log_says_is_never_believed(tmp_path, deletion_vector, content):
    with pytest.raises(ValueError, match="deletion vector"):
        stored(tmp_path, deletion_vector, b"\1" + content)


@pytest.mark.parametrize(
    "deletion_vector",
    [
        {**INLINE, "cardinality": 2},
        {**INLINE, "size_in_bytes": len(CONTENT) + 4},
        {**INLINE, "size_in_bytes": len(CONTENT) - 4},
        {**INLINE, "size_in_bytes": None},
        {**INLINE, "path_or_inline_dv": "abc"},
        {**INLINE, "path_or_inline_dv": None},
        {**INLINE, "path_or_inline_dv": "\u00fc" * 5},
    ],
)
def test_an_inline_deletion_vector_that_is_not_what_the_log_says_is_never_believed(deletion_vector):
    with pytest.raises(ValueError, match=r"deletion vector|Base85"):
        inline_deletion_vector(deletion_vector)
