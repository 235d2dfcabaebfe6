"""The code waits where clusters find it, under names that show its content."""

import io
import json
import zipfile
from pathlib import Path

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from typer.testing import CliRunner

from airflow_delta.cli.main import app
from airflow_delta.core.errors import (
    InvalidStatementError,
    StorageAccessError,
    StorageUnavailableError,
    UnsupportedStorageError,
)
from airflow_delta.shipping.scripts import job_script, job_scripts
from airflow_delta.shipping.ship import ship, shipped_code


def test_what_is_shipped_is_what_a_submit_asks_for(tmp_path):
    destination = f"{tmp_path}/code/"
    archive, *scripts = ship(destination)
    code = shipped_code(destination, "merge")
    assert (code.archive, code.application in scripts, len(scripts)) == (archive, True, len(job_scripts()))
    assert Path(code.application).read_bytes() == job_script("merge").read_bytes()
    assert "airflow_delta/jobs/main.py" in zipfile.ZipFile(archive).namelist()


def test_what_is_there_stays_and_what_was_cut_off_is_put_again(tmp_path):
    archive, script, *_ = map(Path, ship(str(tmp_path)))
    time = archive.stat().st_mtime_ns
    content = script.read_bytes()
    script.write_bytes(content[:10])
    ship(str(tmp_path))
    assert (archive.stat().st_mtime_ns, script.read_bytes()) == (time, content)


def test_code_of_the_same_size_but_other_content_is_replaced(tmp_path):
    archive, script, *_ = map(Path, ship(str(tmp_path)))
    shipped = archive.read_bytes(), script.read_bytes()
    archive.write_bytes(bytes(len(shipped[0])))
    script.write_bytes(b"#" * len(shipped[1]))
    ship(str(tmp_path))
    assert (archive.read_bytes(), script.read_bytes()) == shipped


def test_an_archive_of_another_zlib_with_the_same_members_stays_under_the_jobs_that_read_it(tmp_path):
    archive, *_ = map(Path, ship(str(tmp_path)))
    content = recompressed(archive.read_bytes())
    assert content != archive.read_bytes()
    archive.write_bytes(content)
    changed = archive.stat().st_mtime_ns
    ship(str(tmp_path))
    assert (archive.read_bytes(), archive.stat().st_mtime_ns) == (content, changed)


def test_an_archive_with_other_members_is_replaced(tmp_path):
    archive, *_ = map(Path, ship(str(tmp_path)))
    content = archive.read_bytes()
    with zipfile.ZipFile(archive, "w") as other:
        other.writestr("airflow_delta/__init__.py", "another content")
    ship(str(tmp_path))
    assert archive.read_bytes() == content


def recompressed(content):
    """The same members as another zlib may pack them."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as given,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in given.namelist():
            new.writestr(name, given.read(name))
    return packed.getvalue()


def test_of_an_upload_that_ends_midway_nothing_is_seen(tmp_path, monkeypatch):
    def half(self, path, value, **_):
        Path(path).write_bytes(value[: len(value) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(LocalFileSystem, "pipe_file", half)
    with pytest.raises(OSError, match="no space left"):
        ship(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("destination", ["", "/", "///", "file:", "file:///", "s3://"])
def test_a_destination_that_names_no_folder_is_refused_and_nothing_is_written(destination, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidStatementError, match="folder"):
        ship(destination)
    assert list(tmp_path.iterdir()) == []


def test_any_filesystem_will_do():
    archive, *_ = ship("memory://code")
    assert archive.startswith("memory://code/airflow-delta-")
    assert fsspec.filesystem("memory").exists("/code/" + archive.rpartition("/")[2])


def test_an_unknown_scheme_is_an_error_that_says_so():
    with pytest.raises(UnsupportedStorageError, match="moon"):
        ship("moon://code")


def test_a_bucket_that_is_not_there_is_an_error_and_is_not_made(s3):
    missing = f"{s3.uri}-typo/code"
    with pytest.raises(StorageAccessError, match="typo"):
        ship(missing, s3.options)
    assert not fsspec.filesystem("s3", **s3.options).exists(f"{s3.uri}-typo")
    archive, *_ = ship(f"{s3.uri}/code", s3.options)
    store = fsspec.filesystem("s3", **s3.options)
    other = recompressed(store.cat_file(archive))
    store.pipe_file(archive, other)
    ship(f"{s3.uri}/code", s3.options)
    assert store.cat_file(archive) == other


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"bogus": 1, "anon": True}, UnsupportedStorageError),
        pytest.param({"endpoint_url": "http://127.0.0.1:1", "anon": True}, StorageUnavailableError, marks=pytest.mark.slow),
    ],
    ids=["unknown option", "no answer"],
)
def test_a_storage_that_cannot_be_reached_is_told_in_words(options, error):
    with pytest.raises(error):
        ship("s3://lake/code", options)


class UnfriendlyFileSystem(AbstractFileSystem):
    """Asks its service when it is made, as that of Google Cloud Storage does, and knows one option."""

    protocol = "unfriendly"

    def __init__(self, *, known=None):
        raise ConnectionError("no answer")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"known": 1}, StorageUnavailableError), ({"bogus": 1}, UnsupportedStorageError)],
    ids=["known", "bogus"],
)
def test_a_filesystem_that_cannot_be_made_is_told_in_words(options, error):
    fsspec.register_implementation("unfriendly", UnfriendlyFileSystem, clobber=True)
    with pytest.raises(error, match="unfriendly://lake/code"):
        ship("unfriendly://lake/code", options)


def test_the_command_tells_what_it_has_put(tmp_path):
    reported = CliRunner().invoke(app, ["ship", str(tmp_path), "--json"], catch_exceptions=False).stdout
    assert [json.loads(line)["uri"] for line in reported.splitlines()] == ship(str(tmp_path))
