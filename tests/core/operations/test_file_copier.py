"""Files copied by this process, and how the result of any copier is handled."""

import pyarrow as pa
import pytest

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.operations import file_copier
from airflow_delta.core.operations.copied_files import check_copies, files_to_copy
from airflow_delta.core.operations.file_copier import COPIED_FILE, LocalFileCopier
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from tests.core.operations.file_copier_contract import FileCopierContract


class TestLocalFileCopier(FileCopierContract):
    @pytest.fixture
    def copier(self):
        return LocalFileCopier()

    def test_a_file_larger_than_the_buffer_is_copied_in_pieces(self, copier, source, target, files, monkeypatch):
        monkeypatch.setattr(file_copier, "_BUFFER", 100)
        for file in copier.copy(source.store, target.store, "folder", files).to_pylist():
            assert file["size"] % 100
            assert target.store.read(f"folder/{file['name']}") == source.store.read(file["path"])


@pytest.mark.parametrize(("there", "found"), [(b"12", "one of 2"), (None, "none")])
def test_a_copy_that_is_not_seen_in_its_whole_size_is_refused(there, found):
    store = InMemoryLogStore("memory://clone")
    store.write("folder/whole", b"123")
    if there:
        store.write("folder/part", there)
    copied = [{"path": "a", "name": "whole", "size": 3}, {"path": "b", "name": "part", "size": 3}]
    with pytest.raises(UnsupportedStorageError, match=f"expected a copy of 3 bytes at folder/part, found {found}"):
        check_copies(store, "folder", pa.Table.from_pylist(copied, schema=COPIED_FILE))


def test_only_files_in_storage_are_copied_and_a_file_of_deletion_vectors_once():
    stored = {"storage_type": "u", "path_or_inline_dv": "ab^-aqEH.-t@S}K{vb[*k^", "cardinality": 1}
    inline = {
        "storage_type": "i",
        "path_or_inline_dv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "size_in_bytes": 40,
    }
    two = [{**stored, "offset": 1, "size_in_bytes": 40}, {**stored, "offset": 49, "size_in_bytes": 30}]
    vectors = [*two, {**inline, "size_in_bytes": 40, "cardinality": 6}, None]
    rows = [{"path": f"{number}.parquet", "size": number, "deletion_vector": vector} for number, vector in enumerate(vectors)]
    copied = files_to_copy(pa.Table.from_pylist(rows, schema=ADD_FILE), table="t").to_pylist()
    assert [(file["path"], file["size"]) for file in copied if file["is_data"]] == [
        (f"{number}.parquet", number) for number in range(4)
    ]
    assert [(file["path"], file["size"]) for file in copied if not file["is_data"]] == [
        ("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", 49 + 30 + 8)
    ]
