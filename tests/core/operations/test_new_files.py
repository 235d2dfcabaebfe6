"""Which files below a path are new: a listing, and what the table remembers."""

import fnmatch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.operations.loaded_files import LOADED_FILE, LoadedFiles, LoadedPart
from airflow_delta.core.operations.new_files import FileChoice, find_new_files, glob_regex
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore

ROOT = "file:/in"


class Folder(InMemoryLogStore):
    """Files with sizes and times, as a listing shows them."""

    def __init__(self, *paths):
        super().__init__(clock=lambda: len(self._files) if hasattr(self, "_files") else 0)
        for path in paths:
            self.write(path, path.encode())


def known(*paths, time=None, size=None):
    count = len(paths)
    values = [
        [f"{ROOT}/{path}" for path in paths],
        [len(path) if size is None else size for path in paths],
        list(range(count)) if time is None else [time] * count,
        [0] * count,
    ]
    files = pa.table([pa.array(column, field.type) for column, field in zip(values, LOADED_FILE, strict=True)], LOADED_FILE)
    return LoadedFiles(parts=(LoadedPart(number=1 << 32, files=files),))


def look(folder, loaded=None, **choice):
    return find_new_files(folder, ROOT, loaded or LoadedFiles(), FileChoice(**choice))


def names(found):
    return sorted(found.files["path"].to_pylist())


def test_files_that_were_not_loaded_are_new_and_the_others_are_counted():
    found = look(Folder("a.csv", "b.csv", "d/c.csv"), known("a.csv", "gone.csv"))
    assert (names(found), found.known, found.changed, found.waiting) == (["b.csv", "d/c.csv"], 1, 0, 0)


def test_files_of_another_folder_with_the_same_names_are_others():
    loaded = known("a.csv")
    assert names(find_new_files(Folder("a.csv"), "file:/in2", loaded, FileChoice())) == ["a.csv"]
    assert names(find_new_files(Folder("in/a.csv"), "file:/", loaded, FileChoice())) == []  # the same place from above


def test_a_known_file_that_changed_is_counted_and_not_loaded():
    found = look(Folder("a", "b"), known("a", "b", size=99))
    assert (names(found), found.known, found.changed) == ([], 2, 2)


def test_reload_wants_known_files_too():
    assert names(look(Folder("a", "b"), known("a"), reload=True)) == ["a", "b"]


def test_hidden_files_are_not_looked_at():
    hidden = ("_SUCCESS", ".a.crc", "_temporary/0/a.csv", "d/_x/a.csv", "d/.x/a.csv", "a.csv._COPYING_")
    assert names(look(Folder("a.csv", "_day=1/a.csv", *hidden))) == ["_day=1/a.csv", "a.csv"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_files": 2}, ["c", "bb"]),
        ({"max_bytes": 3}, ["c", "bb"]),
        ({"max_bytes": 2}, ["c"]),
        ({"max_bytes": 0}, ["c"]),  # at least one file, or nothing would ever be loaded
        ({"max_files": 9, "max_bytes": 99}, ["c", "bb", "aaa"]),
        ({"changed_before": 1}, ["c", "bb"]),
    ],
)
def test_the_oldest_come_first_and_the_rest_waits(limits, expected):
    found = look(Folder("c", "bb", "aaa"), **limits)
    assert sorted(found.files["path"].to_pylist()) == sorted(expected)
    assert found.waiting == 3 - len(expected)


def test_a_look_back_lists_nothing_before_the_last_known_files():
    folder = Folder(*(f"2026/{number:02d}.csv" for number in range(10)))
    loaded = known(*(f"2026/{number:02d}.csv" for number in (2, 3, 5, 6)))
    found = look(folder, loaded, look_back=2)
    assert (names(found), found.known) == (["2026/07.csv", "2026/08.csv", "2026/09.csv"], 2)
    assert names(look(folder, loaded, look_back=3)) == ["2026/04.csv", *names(found)]  # one that came late
    assert len(look(folder, look_back=2).files) == 10  # nothing is known yet


@pytest.mark.parametrize("pattern", ["orders-*.json", "**/orders-*", "{orders,refunds}-*"])
def test_a_look_back_begins_at_the_known_files_of_its_pattern_whatever_others_have_loaded(pattern):
    folder = Folder("orders-01.json", "orders-02.json", "orders-03.json", "orders-04.json", "returns-01.csv")
    of_others = known("returns-01.csv")
    assert len(look(folder, of_others, look_back=1, pattern=pattern).files) == 4
    found = look(folder, known("orders-02.json", "orders-03.json", "returns-01.csv"), look_back=1, pattern=pattern)
    assert (names(found), found.known) == (["orders-04.json"], 1)  # 01 lies before the last one


@pytest.mark.parametrize(
    "limits", [{"max_files": 2}, {"max_bytes": 14}, {"changed_before": 3}], ids=["max_files", "max_bytes", "min_age"]
)
def test_with_a_look_back_no_file_is_passed_by_whatever_its_time_and_the_limits(limits):
    names_by_time = ["2026/04", "2026/01", "2026/02", "2026/03", "2026/00"]  # 00 was finished last
    folder, loaded = Folder(*names_by_time), []
    while found := names(look(folder, known(*loaded) if loaded else None, look_back=1, **limits)):
        assert found == sorted(names_by_time)[len(loaded) : len(loaded) + 2]
        loaded += found
    assert loaded == ([] if "changed_before" in limits else sorted(names_by_time))


def test_a_file_without_a_byte_is_not_new_and_not_known():
    folder = Folder("a")
    folder.write("empty", b"")
    found = look(folder, known("empty"))
    assert (names(found), found.known, found.are_any) == (["a"], 0, True)


@pytest.mark.parametrize(
    ("files", "partitionings"),
    [
        (["day=1/a", "day=2/x/b", "Day=3/c"], {("day",): "day=1/a"}),
        (["day=1/a", "b"], {("day",): "day=1/a", (): "b"}),
        (["day=1/hour=2/a", "day=1/b"], {("day", "hour"): "day=1/hour=2/a", ("day",): "day=1/b"}),
        (["x/day=1/a"], {(): "x/day=1/a"}),
        (["a%20b=1/a", "a%20b=2/\n=3/c=d"], {("a b",): "a%20b=1/a", ("a b", "\n"): "a%20b=2/\n=3/c=d"}),
        ([], {}),
    ],
)
def test_the_columns_of_partition_folders_are_known_with_an_example_of_each_kind(files, partitionings):
    assert look(Folder(*files)).partitionings == partitionings


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "d/e/a.csv", True),  # without a slash it matches the name
        ("*.csv", "a.csv.gz", False),
        ("d/*.csv", "d/a.csv", True),
        ("d/*.csv", "d/e/a.csv", False),
        ("d/**/*.csv", "d/a.csv", True),
        ("d/**/*.csv", "d/e/f/a.csv", True),
        ("d/**", "d/e/f", True),
        ("?.csv", "a.csv", True),
        ("?.csv", "ab.csv", False),
        ("[ab].csv", "b.csv", True),
        ("[!ab].csv", "b.csv", False),
        ("[!ab].csv", "c.csv", True),
        (r"\[a\]\*.csv", "[a]*.csv", True),
        (r"\[a\]\*.csv", "[a]b.csv", False),
        (r"{\{a\,b\},c}.csv", "{a,b}.csv", True),
        (r"a\\b\é", "a\\bé", True),
        ("a\\", "a\\", True),
        ("[^ab].csv", "b.csv", False),  # as in Hadoop's globs, which COPY INTO has elsewhere
        ("[^ab].csv", "c.csv", True),
        ("[a^].csv", "^.csv", True),
        ("[!-a].csv", "7.csv", True),  # a dash at either end of a set is itself
        ("[!-a].csv", "-.csv", False),
        ("[a-].csv", "-.csv", True),
        (r"[a\-z].csv", "m.csv", False),
        ("d[+-9]a.csv", "d/a.csv", False),  # no set matches the slash between folders
        ("d[+-9]a.csv", "d.a.csv", True),
        ("d[+-9]a.csv", "d0a.csv", True),
        ("d[.-/]a.csv", "d.a.csv", True),
        ("d[/-0]a.csv", "d/a.csv", False),
        ("[a-c-e].csv", "-.csv", True),
        ("[a-c-e].csv", "d.csv", False),
        (r"[a\]].csv", "].csv", True),
        ("*.{csv,json}", "a.json", True),
        ("*.{csv,json}", "a.xml", False),
        ("*.{csv,json{,.gz}}", "a.json.gz", True),
        ("*.{csv,json{,.gz}}", "a.csv.gz", False),
        ("{[ab],c}.csv", "b.csv", True),
        ("{a,b", "{a,b", True),
        ("a+b (1) #.csv", "a+b (1) #.csv", True),
        ("a.csv", "a-csv", False),
        ("ü*", "übung", True),
        ("*", "a\nb", True),
    ],
)
def test_patterns_are_globs(pattern, path, fits):
    assert pc.match_substring_regex(pa.array([path]), glob_regex(pattern)).to_pylist() == [fits]


@pytest.mark.parametrize("pattern", ["[b-a]", "*[z-a]/x", "[/]", "[0-/]"])
def test_what_is_no_glob_is_refused(pattern):
    with pytest.raises(InvalidStatementError, match="is not a glob"):
        glob_regex(pattern)


@given(st.text(alphabet="ab.*?[]!-^\\({}|+$ ,", min_size=1, max_size=8), st.text(alphabet="ab.*-^\\", min_size=1, max_size=5))
def test_a_pattern_of_names_means_what_python_says_and_never_fails(pattern, name):
    try:
        found = pc.match_substring_regex(pa.array([name]), glob_regex(pattern)).to_pylist()
    except InvalidStatementError:
        assert "[" in pattern
        return
    if not {*"{}[]\\"} & {*pattern} and "**" not in pattern:
        assert found == [fnmatch.fnmatchcase(name, pattern)]
