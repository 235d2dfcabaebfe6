"""Statistics that would end the process are not requested from Arrow; all others are."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.parquet import compact_protocol
from airflow_delta.core.parquet.compact_protocol import BINARY, I8, I64, LIST, STRUCT, Field, Items, read_struct, struct_bytes
from airflow_delta.core.parquet.foreign_footer import ForeignFooter
from tests.core.parquet import hostile_footers
from tests.core.parquet.hostile_footers import FOOTER, TABLE

EVERY = frozenset(range(len(TABLE.column_names)))


def footer_with(edit):
    """A footer after ``edit`` has changed the chunk of the second column of the second row group, and its description."""
    file = read_struct(FOOTER)
    chunk = file[4].value.values[1][1].value.values[1]
    edit(chunk, chunk[3].value)
    content = struct_bytes(file)
    return ForeignFooter.read(pa.BufferReader(content + len(content).to_bytes(4, "little") + b"PAR1"))


def bound(number, value, kind=BINARY):
    return lambda _, described: described[12].value.update({number: Field(kind, value)})


def sizes(**fields):
    return lambda _, described: described.update({16: Field(STRUCT, {int(name[1:]): field for name, field in fields.items()})})


def levels(*counts):
    return Field(LIST, Items(I64, list(counts)))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        pytest.param(lambda *_: None, frozenset(), id="as written"),
        pytest.param(bound(5, b"abc"), {1}, id="greatest too short"),
        pytest.param(bound(6, b""), {1}, id="least empty"),
        pytest.param(bound(6, b"abcde"), {1}, id="least too long"),
        pytest.param(bound(2, b"a"), {1}, id="least of old writers"),
        pytest.param(sizes(_2=levels(3), _3=levels(0, 3)), frozenset(), id="whole histograms"),
        pytest.param(sizes(_2=levels(3, 0)), {1}, id="histogram of a list"),
        pytest.param(sizes(_3=levels(3)), {1}, id="histogram of a column without NULL"),
        pytest.param(sizes(_1=Field(I64, 5)), {1}, id="bytes of text"),
        pytest.param(lambda _, described: described.update({1: Field(5, 2)}), {1}, id="another type"),
        pytest.param(bound(5, {}, STRUCT), EVERY, id="greatest a struct"),
        pytest.param(lambda _, described: described.update({12: Field(LIST, Items(STRUCT, [{}]))}), EVERY, id="a list"),
        pytest.param(lambda chunk, _: chunk.update({8: Field(STRUCT, {})}), EVERY, id="encrypted"),
        pytest.param(lambda chunk, _: chunk.pop(3), EVERY, id="no description"),
        pytest.param(lambda _, described: described.update({2: Field(LIST, Items(I8, [0]))}), EVERY, id="list of others"),
    ],
)
def test_a_column_with_broken_statistics_is_named_and_no_other(edit, expected):
    assert footer_with(edit).unreadable == expected


@pytest.mark.slow
@pytest.mark.parametrize("place", [5, 40], ids=["bound", "unknown field"])
def test_lists_of_any_size_where_none_belong_are_not_built(place):
    many = Field(LIST, Items(LIST, [Items(STRUCT, [{}] * 200_000)] * 2))
    footer = footer_with(lambda _, described: described[12].value.update({place: many}))
    tracemalloc.start()
    try:
        assert footer.unreadable == (EVERY if place == 5 else frozenset())
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_footer_with_more_items_than_can_be_looked_at_has_no_statistics(monkeypatch):
    monkeypatch.setattr(compact_protocol, "_MOST_ITEMS", 1_000)
    assert footer_with(sizes(_9=Field(LIST, Items(STRUCT, [{}] * 100)))).unreadable == frozenset()
    assert footer_with(sizes(_9=Field(LIST, Items(STRUCT, [{}] * 1_000)))).unreadable == EVERY


def test_a_row_group_that_lacks_a_column_leaves_it_without_statistics():
    file = read_struct(FOOTER)
    del file[4].value.values[0][1].value.values[-2:]
    content = struct_bytes(file)
    footer = ForeignFooter.read(pa.BufferReader(content + len(content).to_bytes(4, "little") + b"PAR1"))
    assert footer.unreadable == {len(EVERY) - 2, len(EVERY) - 1}


@pytest.mark.slow
def test_no_footer_that_arrow_reads_ends_the_process():
    command = [sys.executable, "-m", hostile_footers.__name__]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]


def test_statistics_of_common_writers_are_all_readable(tmp_path):
    for number, options in enumerate(
        (
            {"write_page_index": True},
            {"version": "1.0", "use_deprecated_int96_timestamps": True},
            {"data_page_version": "2.0", "use_dictionary": False},
            {"write_statistics": False},
        )
    ):
        pq.write_table(TABLE, tmp_path / f"{number}.parquet", row_group_size=2, **options)
    deltalake.write_deltalake(tmp_path / "table", TABLE)

    paths = [*tmp_path.rglob("*.parquet")]
    unreadable = []
    for path in paths:
        with pa.OSFile(str(path)) as file:
            unreadable.append(ForeignFooter.read(file).unreadable)

    assert len(paths) == 5
    assert unreadable == [frozenset()] * 5


def test_a_footer_longer_than_the_first_request_is_read_whole(tmp_path):
    table = pa.table({f"column {number}": [number] for number in range(2000)})
    pq.write_table(table, tmp_path / "wide.parquet")

    with pa.OSFile(str(tmp_path / "wide.parquet")) as file:
        footer = ForeignFooter.read(file)

    assert len(footer.content) > 100_000
    assert footer.metadata.equals(pq.read_metadata(tmp_path / "wide.parquet"))
    assert footer.unreadable == frozenset()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no footer at all", b"PAR1" + b"\xff" * 4 + b"PAR1", b"\0" * 100_000])
def test_what_has_no_footer_is_refused_as_by_arrow(content):
    with pytest.raises((OSError, pa.ArrowException)):
        ForeignFooter.read(pa.BufferReader(content))
