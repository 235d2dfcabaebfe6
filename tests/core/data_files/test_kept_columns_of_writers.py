"""Files of many writers, rewritten in one column: whichever columns are kept, all readers find the right rows and bounds."""

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from deltalake import BloomFilterProperties, ColumnProperties, QueryBuilder, WriterProperties, convert_to_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.data_files.column_chunks import Footer
from airflow_delta.core.data_files.kept_columns import KeptColumns, PartialFileWriter
from airflow_delta.core.parquet.compact_protocol import read_struct, struct_bytes
from airflow_delta.core.schema import struct_from_arrow
from tests.core.data_files import damaged_footers

pytestmark = pytest.mark.slow

LOCAL = pafs.LocalFileSystem()
CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
BASE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
COLUMNS = {
    "i": (pa.int64(), lambda n: n),
    "l": (pa.int64(), lambda n: None if n % 11 == 3 else (n * 7919) % 1_000_003 - 500_000),
    "n": (pa.int32(), lambda n: n // 10),
    "h": (pa.int16(), lambda n: n % 300 - 150),
    "y": (pa.int8(), lambda n: None if n % 3 else n % 256 - 128),
    "b": (pa.bool_(), lambda n: n % 3 == 0),
    "d": (pa.date32(), lambda n: dt.date(1500, 1, 1) + dt.timedelta(n * 37)),
    "at": (pa.timestamp("us", "UTC"), lambda n: BASE + dt.timedelta(microseconds=n * 1_234_567)),
    "ntz": (pa.timestamp("us"), lambda n: None if n < 700 else BASE.replace(tzinfo=None) - dt.timedelta(microseconds=n)),
    "t": (pa.string(), lambda n: None if n % 5 == 1 else f"{n * 7919 % 1009:04}é😀"),
    "long": (pa.string(), lambda n: f"{'ä' * 50}{n:05}{'z' * (n % 97 * 10)}"),
    "bin": (pa.binary(), lambda n: bytes([n % 256, 255 - n % 256]) * (n % 3)),
    "none": (pa.string(), lambda _: None),
    "d9": (pa.decimal128(9, 2), lambda n: Decimal(n - 1000) / 4),
    "d18": (pa.decimal128(18, 4), lambda n: None if n % 2 else Decimal(n - 1000) * 10**9 / 16),
    "d38": (pa.decimal128(38, 2), lambda n: Decimal(n - 1000) * 10**20 / 4),
    "x": (pa.float64(), lambda n: n / 7 if n % 13 else float("nan")),
}
NAMES = tuple(COLUMNS)
FLAT = {"l", "n", "h", "y", "b", "d", "at", "ntz", "t", "long", "bin", "none", "d9", "d18", "d38"}
DECIMALS = {"d9", "d18", "d38"}


def rows_of(count):
    return pa.table({name: pa.array(map(value, range(count)), kind) for name, (kind, value) in COLUMNS.items()})


def kept_of(source, table, codec):
    return KeptColumns.of(LOCAL, str(source), struct_from_arrow(table.schema), ["i"], compression=codec, table="t")


def rewrite(kept, target, table, codec):
    """Rewrite the file with a new ``i`` and all other columns kept; also returns the log's entry for the new file."""
    new = table.set_column(0, "i", pa.array([-number for number in range(len(table))], pa.int64()))
    with PartialFileWriter(LOCAL, str(target), kept, compression=codec, selection=StatisticsSelection()) as writer:
        for batch in new.select(kept.rest.names).to_batches(max_chunksize=333):
            writer.write(batch)
    return new, json.loads(writer.close().stats, parse_float=Decimal)


def pages(content, chunk):
    """Offsets and sizes (including headers) of a chunk's pages in order; the dictionary page comes first."""
    described = chunk[3].value
    dictionary = described[11].value if 11 in described else 0
    at = start = dictionary or described[9].value
    found = []
    while at < start + described[7].value:
        header = read_struct(content, at)
        size = len(struct_bytes(header)) + header[3].value
        found.append((at, size))
        at += size
    assert at == start + described[7].value
    return found


def assert_footer_is_right(target, table, source):
    """Check that each offset points to its target, and each statistic is correct for the rows."""
    content = target.read_bytes()
    footer = Footer.of(pa.BufferReader(content))
    metadata, former = pq.read_metadata(target), Footer.of(pa.BufferReader(source.read_bytes()))
    assert metadata.num_rows == len(table)
    assert set(metadata.metadata) == {b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"}
    row = 0
    end = 4
    for ordinal, group in enumerate(footer.row_groups):
        rows = table.slice(row, group[3].value)
        chunks = group[1].value.values
        assert [chunk[3].value[3].value.values for chunk in chunks] == [[name.encode()] for name in table.column_names]
        assert group[2].value == sum(chunk[3].value[6].value for chunk in chunks)
        assert (group[5].value, group[6].value) == (end, sum(chunk[3].value[7].value for chunk in chunks))
        for name, chunk in zip(table.column_names, chunks, strict=True):
            described = chunk[3].value
            assert 10 not in described
            found = pages(content, chunk)
            assert found[0][0] == chunk[2].value == end
            end += described[7].value
            data_pages = [page for page in found if page[0] >= described[9].value]
            assert data_pages[0][0] == described[9].value
            assert (4 in chunk) == (6 in chunk) == (7 in chunk)
            if 4 in chunk:
                index = read_struct(content, chunk[4].value)
                assert len(struct_bytes(index)) == chunk[5].value
                located = [(page[1].value, page[2].value) for page in index[1].value.values]
                assert located == data_pages
                assert len(read_struct(content, chunk[6].value)[1].value.values) == len(data_pages)
            before = former.chunks(former.row_groups[ordinal]).get(name)
            if before is not None and described[7].value and name in FLAT and 12 in before[3].value:
                before_bounds = before[3].value[12].value
                if before[3].value[7] == described[7] and before_bounds == described[12].value:
                    continue  # with the flags that say whether bounds are exact
            _assert_statistics(metadata.row_group(ordinal).column(table.column_names.index(name)), rows[name])
        for name, chunk in zip(table.column_names, chunks, strict=True):
            described = chunk[3].value
            before = former.chunks(former.row_groups[ordinal]).get(name)
            has_filter = before is not None and 14 in before[3].value and name in FLAT
            assert (14 in described) == (15 in described) == has_filter
            if has_filter:
                start, size = before[3].value[14].value, described[15].value
                assert described[14].value == end
                assert content[end : end + size] == source.read_bytes()[start : start + size]
                end += size
        row += len(rows)
    assert row == len(table)


def _assert_statistics(column, values):
    found = column.statistics
    assert column.num_values == len(values)
    if found is None or pa.types.is_floating(values.type):
        return
    assert not found.has_null_count or found.null_count == values.null_count
    known = [value for value in values.to_pylist() if value is not None]
    if found.has_min_max and known:
        assert (found.min, found.max) == (min(known), max(known))


def assert_bounds_are_right(stats, table):
    assert stats["numRecords"] == len(table)
    for name in table.column_names:
        assert stats["nullCount"].get(name, table[name].null_count) == table[name].null_count
    known = {name: [value for value in table[name].to_pylist() if value is not None] for name in table.column_names}
    for name in ("i", "l", "n", "h", "y", *DECIMALS):
        if name in stats["minValues"]:
            assert (stats["minValues"][name], stats["maxValues"][name]) == (min(known[name]), max(known[name]))
    for name in ("t", "long"):
        assert stats["minValues"].get(name, "") <= min(known[name], default="")
        if name in stats["maxValues"]:
            assert stats["maxValues"][name] >= max(known[name])


def assert_readers_agree(directory, target, table):
    """Arrow, duckdb and DataFusion (which skips pages by their indexes) find these rows."""
    assert pq.read_table(target).cast(table.schema).to_pylist().__repr__() == table.to_pylist().__repr__()
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("expected", table)
        both = [f"SELECT * FROM '{target}' EXCEPT ALL FROM expected", f"FROM expected EXCEPT ALL SELECT * FROM '{target}'"]
        assert [database.execute(query).fetchall() for query in both] == [[], []]
        found = [row[0] for row in database.execute(f"SELECT i FROM '{target}' WHERE n = 7").fetchall()]
    wanted = [-number for number in range(len(table)) if number // 10 == 7]
    assert sorted(found, reverse=True) == wanted
    convert_to_deltalake(str(directory))
    engine = QueryBuilder().register("t", deltalake.DeltaTable(str(directory)))
    with duckdb.connect() as database:
        database.register("expected", table)
        for where in ("n = 7", "t = '0005é😀'", "l < -400000", "d38 < -100"):
            found = pa.table(engine.execute(f"SELECT i FROM t WHERE {where}").read_all())["i"].to_pylist()
            wanted = database.execute(f"SELECT i FROM expected WHERE {where}").fetchall()
            assert sorted(found) == sorted(row[0] for row in wanted)


pyarrow_options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(CODECS),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "use_dictionary": st.sampled_from([True, False, ["t", "l"]]),
        "write_page_index": st.booleans(),
        "write_statistics": st.sampled_from([True, True, False, ["l", "t"]]),
        "data_page_size": st.sampled_from([200, 5_000, 1 << 20]),
        "row_group_size": st.sampled_from([100, 701, 5_000]),
        "write_page_checksum": st.booleans(),
        "store_schema": st.booleans(),
        "store_decimal_as_integer": st.booleans(),
        "use_deprecated_int96_timestamps": st.booleans(),
        "sorting_columns": st.sampled_from([None, [pq.SortingColumn(0)]]),
        "bloom_filter_options": st.sampled_from([None, {"t": {"ndv": 100, "fpp": 0.01}, "l": {"ndv": 100, "fpp": 0.01}}]),
        "version": st.sampled_from(["1.0", "2.4", "2.6"]),
    }
)


@settings(max_examples=25)
@given(options=pyarrow_options, count=st.sampled_from([1, 99, 1_402, 2_500]), is_large=st.booleans())
def test_files_of_arrow(tmp_path_factory, options, count, is_large):
    directory = tmp_path_factory.mktemp("arrow")
    source, target = directory / "source", directory / "new" / "new.parquet"
    target.parent.mkdir()
    table = rows_of(count)
    large = table.set_column(table.column_names.index("t"), "t", table["t"].cast(pa.large_string())) if is_large else table
    pq.write_table(large, source, **options)
    codec = options["compression"]

    kept = kept_of(source, table, codec)

    not_alike = {"i", "x"}
    not_alike |= {"at", "ntz"} if options["use_deprecated_int96_timestamps"] else set()
    not_alike |= set() if options["store_decimal_as_integer"] else {"d9", "d18"}
    assert kept is not None
    assert set(kept.rest.names) >= not_alike
    if options["version"] == "2.6":
        assert set(kept.rest.names) == not_alike
    new, stats = rewrite(kept, target, table, codec)
    assert_footer_is_right(target, new, source)
    assert_bounds_are_right(stats, new)
    assert_readers_agree(target.parent, target, new)


properties = st.builds(
    WriterProperties,
    compression=st.sampled_from(["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4_RAW", "ZSTD"]),
    data_page_row_count_limit=st.sampled_from([None, 100]),
    data_page_size_limit=st.sampled_from([None, 500]),
    write_batch_size=st.just(64),
    max_row_group_size=st.sampled_from([None, 701]),
    statistics_truncate_length=st.sampled_from([None, 3, 8]),
    default_column_properties=st.builds(
        ColumnProperties,
        dictionary_enabled=st.booleans(),
        statistics_enabled=st.sampled_from(["NONE", "CHUNK", "PAGE"]),
        bloom_filter_properties=st.sampled_from([None, BloomFilterProperties(True, 0.01, 100)]),
    ),
)
OF_ARROW = {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4"}


@settings(max_examples=20)
@given(properties=properties, count=st.sampled_from([1, 1_402, 2_500]))
def test_files_of_parquet_rs(tmp_path_factory, properties, count):
    directory = tmp_path_factory.mktemp("rust")
    target = directory / "new" / "new.parquet"
    target.parent.mkdir()
    table = rows_of(count)
    deltalake.write_deltalake(directory / "t", table, writer_properties=properties)
    (source,) = (directory / "t").glob("*.parquet")
    name = properties.compression.partition("(")[0]
    codec = OF_ARROW.get(name, name.lower())

    kept = kept_of(source, table, codec)

    assert kept is not None
    assert {"l", "n", "t", "long", "bin", "none", "at"} & set(kept.rest.names) == set()
    new, stats = rewrite(kept, target, table, codec)
    former, ours = (Footer.of(pa.BufferReader(file.read_bytes())) for file in (source, target))
    for before, after in zip(former.row_groups, ours.row_groups, strict=True):
        for name in set(NAMES) - set(kept.rest.names):
            chunks = former.chunks(before)[name][3].value, ours.chunks(after)[name][3].value
            assert chunks[0].get(12) == chunks[1].get(12)  # truncated bounds are still marked as such
    assert_footer_is_right(target, new, source)
    assert_bounds_are_right(stats, new)
    assert_readers_agree(target.parent, target, new)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["V1", "V2"])
def test_nothing_is_kept_of_files_of_duckdb_whose_bounds_nobody_vouches_for(tmp_path, codec, version):
    table = rows_of(2_500)
    with duckdb.connect() as database:
        database.register("rows", table)
        options = f"FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048"
        database.execute(f"COPY rows TO '{tmp_path / 'source'}' ({options})")
    assert kept_of(tmp_path / "source", table, "none" if codec == "uncompressed" else codec) is None


@pytest.mark.parametrize(
    "nested",
    [
        pa.array([{"x": n} for n in range(50)], pa.struct([("x", pa.int64())])),
        pa.array([[n] for n in range(50)], pa.list_(pa.int64())),
        pa.array([[("k", n)] for n in range(50)], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["struct", "list", "map"],
)
def test_a_file_with_nested_columns_is_rewritten_the_usual_way(tmp_path, nested):
    table = rows_of(50).append_column("nested", nested)
    with DataFileWriter(LOCAL, str(tmp_path / "source"), struct_from_arrow(table.schema)) as writer:
        writer.write(table.combine_chunks().to_batches()[0])
    assert kept_of(tmp_path / "source", table, "snappy") is None


@pytest.mark.parametrize("group_rows", [[], [5, 0, 5], [0]], ids=["none", "one of them empty", "an empty one"])
def test_a_file_with_an_empty_row_group_is_rewritten_the_usual_way(tmp_path, group_rows):
    table = rows_of(10)
    with pq.ParquetWriter(tmp_path / "source", table.schema) as writer:
        for rows in group_rows:
            writer.write_table(table.slice(0, rows), row_group_size=10)
    assert pq.read_metadata(tmp_path / "source").num_row_groups == len(group_rows)
    assert kept_of(tmp_path / "source", table, "snappy") is None


@pytest.mark.parametrize("is_footer_plain", [True, False])
def test_no_encrypted_column_is_kept(tmp_path, is_footer_plain):
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def __init__(self, _):
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key, _):
            return key.hex().encode()

        def unwrap_key(self, wrapped, _):
            return bytes.fromhex(wrapped.decode())

    configuration = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"secret": ["l", "t", "long", "bin", "none"]}, plaintext_footer=is_footer_plain
    )
    factory = encryption.CryptoFactory(Keys)
    table = rows_of(500)
    options = factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(tmp_path / "source", table.schema, encryption_properties=options) as writer:
        writer.write_table(table)
    assert kept_of(tmp_path / "source", table, "snappy") is None
    fixed = table.drop_columns(["t", "long", "bin", "none"])
    kept = kept_of(tmp_path / "source", fixed, "snappy")
    assert (kept is None) != is_footer_plain
    assert kept is None or "l" in kept.rest.names


CASES, PROCESSES = 400, 2


@pytest.mark.parametrize("process", range(PROCESSES))
def test_damaged_footers_make_no_file_that_says_other_than_they_did(tmp_path, process):
    """Runs in a separate process, since Arrow may abort on such a footer; such a case is identified by its number."""
    arguments = [str(tmp_path), str(process * CASES), str((process + 1) * CASES)]
    command = [sys.executable, "-m", damaged_footers.__name__, *arguments]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    assert sum(outcomes.values()) == CASES
    assert outcomes["kept"] > CASES // 10
