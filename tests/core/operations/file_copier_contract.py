"""The contract of every file copier, whichever process copies."""

import shutil

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptDataFileError, MissingDataFileError, PathOutsideTableError
from airflow_delta.core.operations.copied_files import files_to_copy
from airflow_delta.core.operations.file_copier import COPIED_FILE
from tests.golden_tables import TABLES


class FileCopierContract:
    """Subclasses define the fixture ``copier``."""

    @pytest.fixture
    def source(self, tmp_path):
        """A table that Spark wrote, with deletion vectors in files."""
        return DeltaLog.for_table(str(shutil.copytree(TABLES / "dv_basic" / "table", tmp_path / "a source")))

    @pytest.fixture
    def target(self, tmp_path):
        """A path where nothing exists yet."""
        return DeltaLog.for_table(str(tmp_path / "a target"))

    @pytest.fixture
    def files(self, source):
        """The files to be copied."""
        return files_to_copy(source.snapshot().files(), table=source.table_uri)

    def test_each_file_is_copied_once_byte_by_byte(self, copier, source, target, files):
        copied = copier.copy(source.store, target.store, "folder", files)
        assert copied.schema == COPIED_FILE
        assert sorted(copied["path"].to_pylist()) == sorted(files["path"].to_pylist())
        assert set(files["is_data"].to_pylist()) == {True, False}
        made = {file.path: file.size for file in target.store.list_all("folder")}
        assert made == {f"folder/{file['name']}": file["size"] for file in copied.to_pylist()}
        for file in copied.to_pylist():
            assert target.store.read(f"folder/{file['name']}") == source.store.read(file["path"])

    def test_no_two_attempts_give_the_same_name(self, copier, source, target, files):
        first, second = (copier.copy(source.store, target.store, "folder", files)["name"].to_pylist() for _ in range(2))
        assert len({*first, *second}) == 2 * len(files)

    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            (lambda file: file.unlink(), MissingDataFileError),
            (lambda file: file.write_bytes(file.read_bytes() + b"x"), CorruptDataFileError),
            (lambda file: file.write_bytes(file.read_bytes()[:-1]), CorruptDataFileError),
        ],
        ids=["gone", "longer", "shorter"],
    )
    def test_a_file_that_is_not_what_the_log_says_is_a_typed_error_that_names_it(
        self, copier, source, target, files, tmp_path, damage, error
    ):
        path = files["path"][0].as_py()
        damage(tmp_path / "a source" / path)
        with pytest.raises(error) as caught:
            copier.copy(source.store, target.store, "folder", files)
        assert (type(caught.value), caught.value.table, caught.value.file) == (error, source.table_uri, path)
        assert path not in {file.path for file in target.store.list_all("folder")}

    def test_a_link_out_of_the_source_is_not_followed(self, copier, source, target, files, tmp_path):
        path = tmp_path / "a source" / files["path"][0].as_py()
        shutil.move(path, tmp_path / "secret")
        path.symlink_to(tmp_path / "secret")
        with pytest.raises(PathOutsideTableError):
            copier.copy(source.store, target.store, "folder", files)
