"""The contract of every ``LogStore``."""

import threading

import pytest
from pyarrow.fs import FileType

from airflow_delta.core.storage.log_store import FileStatus

COMMIT = "_delta_log/00000000000000000000.json"


class LogStoreContract:
    """Subclass with only a ``store`` fixture that returns an empty table."""

    def test_second_creator_of_a_file_is_refused_and_the_first_content_stays(self, store):
        store.write_if_absent(COMMIT, b"first")
        with pytest.raises(FileExistsError):
            store.write_if_absent(COMMIT, b"second")
        assert store.read(COMMIT) == b"first"

    def test_of_racing_creators_exactly_one_returns_and_its_content_stays(self, store):
        winners = []
        barrier = threading.Barrier(8)

        def create(content):
            barrier.wait()
            try:
                store.write_if_absent(COMMIT, content)
            except FileExistsError:
                return
            winners.append(content)

        threads = [threading.Thread(target=create, args=(bytes([number]) * 10_000,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert winners == [store.read(COMMIT)]

    def test_a_refused_creator_leaves_no_other_file(self, store):
        store.write_if_absent(COMMIT, b"first")
        with pytest.raises(FileExistsError):
            store.write_if_absent(COMMIT, b"second")
        assert [file.path for file in store.list_all()] == [COMMIT]

    def test_reading_what_is_not_there_is_a_file_not_found(self, store):
        with pytest.raises(FileNotFoundError):
            store.read(COMMIT)
        with pytest.raises(FileNotFoundError):
            store.open_input(COMMIT)
        assert not store.exists(COMMIT)

    def test_what_was_written_is_there_at_once(self, store):
        store.write_if_absent(COMMIT, b"content")
        assert store.exists(COMMIT)
        assert [(file.path, file.size) for file in store.list_from("_delta_log")] == [(COMMIT, 7)]
        with store.open_input(COMMIT) as stream:
            stream.seek(3)
            assert stream.read() == b"tent"

    def test_the_status_of_a_file_is_what_a_listing_shows(self, store):
        assert store.status(COMMIT) is None
        for path in (COMMIT, f"{COMMIT}.later"):
            store.write_if_absent(path, b"content")
        assert store.status(COMMIT) == next(store.list_from("_delta_log"))
        store.delete([COMMIT])
        assert store.status(COMMIT) is None

    def test_write_replaces(self, store):
        store.write("_delta_log/_last_checkpoint", b"old and long")
        store.write("_delta_log/_last_checkpoint", b"new")
        assert store.read("_delta_log/_last_checkpoint") == b"new"

    def test_a_stream_becomes_the_file_when_it_is_closed_and_not_before(self, store):
        store.write("a", b"old")
        with store.open_output("a") as stream:
            stream.write(b"ne")
            stream.flush()
            assert store.read("a") == b"old"
            stream.write(b"w")
        assert store.read("a") == b"new"
        assert [file.path for file in store.list_all()] == ["a"]

    def test_an_error_while_streaming_leaves_nothing(self, store):
        with pytest.raises(ZeroDivisionError), store.open_output("a") as stream:  # noqa: PT012
            stream.write(b"half")
            1 / 0  # noqa: B018
        assert list(store.list_all()) == []

    def test_a_stream_that_is_dropped_leaves_nothing(self, store):
        stream = store.open_output("a")
        stream.write(b"half")
        del stream
        assert list(store.list_all()) == []

    def test_a_missing_directory_lists_as_empty_and_is_not_created(self, store):
        assert list(store.list_from("_delta_log")) == []
        assert list(store.list_all("_delta_log")) == []
        store.delete(["_delta_log/nothing"])
        assert list(store.list_all()) == []

    def test_listing_from_a_name_is_in_order_and_stays_in_the_directory(self, store):
        for name in ("d/3", "d/1", "d/20", "d/sub/9", "e/5", "d/2"):
            store.write(name, b"x")
        assert [file.path for file in store.list_from("d", "2")] == ["d/2", "d/20", "d/3"]
        assert [file.path for file in store.list_from("d")] == ["d/1", "d/2", "d/20", "d/3"]

    def test_listing_all_goes_to_any_depth_and_shows_hidden_files(self, store):
        for name in ("a", "d/.hidden", "d/_e/f", "g/h/i"):
            store.write(name, b"x")
        assert sorted(file.path for file in store.list_all()) == ["a", "d/.hidden", "d/_e/f", "g/h/i"]
        assert sorted(file.path for file in store.list_all("d")) == ["d/.hidden", "d/_e/f"]
        assert sorted(file.path for file in store.list_all(start="d/_")) == ["d/_e/f", "g/h/i"]
        assert sorted(file.path for file in store.list_all(start="d/_e/f")) == ["d/_e/f", "g/h/i"]
        assert sorted(file.path for file in store.list_all(start="d/_e/f0")) == ["g/h/i"]
        assert sorted(file.path for file in store.list_all("d", start="_e")) == ["d/_e/f"]
        assert sorted(file.path for file in store.list_all("d", start="_f")) == []

    def test_deleting_takes_many_and_does_not_mind_those_already_gone(self, store):
        store.write("a", b"x")
        store.write("d/b", b"x")
        store.write("d/c", b"x")
        store.delete(["a", "d/b", "never"])
        assert [file.path for file in store.list_all()] == ["d/c"]

    def test_names_with_any_sign_are_taken_as_they_are(self, store):
        name = "p=a%20b c#?ü/x"
        store.write(name, b"x")
        assert store.read(name) == b"x"
        assert [type(file) for file in store.list_all()] == [FileStatus]
        assert [file.path for file in store.list_all()] == [name]

    def test_an_empty_file_too_is_created_once(self, store):
        store.write_if_absent(COMMIT, b"")
        with pytest.raises(FileExistsError):
            store.write_if_absent(COMMIT, b"second")
        assert store.read(COMMIT) == store.open_input(COMMIT).read() == b""

    def test_data_files_are_read_and_written_through_arrow(self, store):
        filesystem, root = store.data_filesystem()
        store.write("p=a b%20ü/x", b"content")
        with filesystem.open_input_file(f"{root}/p=a b%20ü/x") as stream:
            assert stream.read_at(3, 4) == b"ent"
            assert stream.size() == 7
        with filesystem.open_output_stream(f"{root}/p=a b%20ü/y") as stream:
            stream.write(b"more")
        assert store.read("p=a b%20ü/y") == b"more"
        assert sorted(file.path for file in store.list_all("p=a b%20ü")) == ["p=a b%20ü/x", "p=a b%20ü/y"]
        found, missing = filesystem.get_file_info([f"{root}/p=a b%20ü/y", f"{root}/z"])
        assert (found.type, found.size, missing.type) == (FileType.File, 4, FileType.NotFound)
