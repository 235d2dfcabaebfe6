import random

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from airflow_delta.core.data_files.deletion_vector import deletion_vector_path, stored_deletion_vector
from airflow_delta.core.data_files.deletion_vector_writer import write_deletion_vectors
from airflow_delta.core.data_files.row_bitmap import RowBitmap


def bitmap(rows):
    return RowBitmap.from_positions(pa.array(sorted(rows), pa.int64()))


def read(root, deletion_vector):
    return (
        stored_deletion_vector(deletion_vector, pafs.LocalFileSystem(), str(root / deletion_vector_path(deletion_vector)))
        .positions()
        .to_pylist()
    )


def test_many_deletion_vectors_share_a_file_and_come_back(tmp_path):
    rows = [[1], [0, 70_000], list(range(5_000))]
    found = write_deletion_vectors(pafs.LocalFileSystem(), str(tmp_path), map(bitmap, rows)).to_pylist()
    assert [read(tmp_path, descriptor) for descriptor in found] == rows
    assert [descriptor["cardinality"] for descriptor in found] == [1, 2, 5_000]
    assert len(list(tmp_path.iterdir())) == 1
    assert next(tmp_path.iterdir()).read_bytes()[0] == 1


def test_a_full_file_is_followed_by_another(tmp_path):
    numbers = random.Random(1)
    rows = [sorted(numbers.sample(range(1_000_000), 3_000)) for _ in range(4)]
    found = write_deletion_vectors(pafs.LocalFileSystem(), str(tmp_path), map(bitmap, rows), target_bytes=14_000).to_pylist()
    assert [read(tmp_path, descriptor) for descriptor in found] == rows
    assert len(list(tmp_path.iterdir())) == 2


def test_no_deletion_vectors_make_no_file(tmp_path):
    assert len(write_deletion_vectors(pafs.LocalFileSystem(), str(tmp_path), [])) == 0
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_no_file(tmp_path):
    def deletion_vectors():
        yield bitmap([1])
        yield bitmap([2])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_deletion_vectors(pafs.LocalFileSystem(), str(tmp_path), deletion_vectors(), target_bytes=1)
    assert not list(tmp_path.iterdir())
