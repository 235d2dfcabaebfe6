"""Rewrites files with damaged footers, one case per number of a range; prints the count of each outcome as JSON.

Run as a program: ``damaged_footers DIRECTORY FIRST END``. The number alone determines the case.
"""

import json
import random
import resource
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.column_chunks import Footer
from airflow_delta.core.data_files.kept_columns import KeptColumns, PartialFileWriter
from airflow_delta.core.parquet.compact_protocol import Field, Items, struct_bytes
from airflow_delta.core.schema import struct_from_arrow

ROWS = 300
TABLE = pa.table(
    {
        "i": pa.array(range(ROWS), pa.int64()),
        "l": pa.array([None if n % 7 == 2 else n * 3 for n in range(ROWS)], pa.int64()),
        "n": pa.array(range(ROWS), pa.int32()),
        "t": [f"value {n % 20}" for n in range(ROWS)],
        "u": [f"{n * 7919 % 1009}" for n in range(ROWS)],
        "b": [n % 2 == 0 for n in range(ROWS)],
    }
)
SCHEMA = struct_from_arrow(TABLE.schema)
ODD_NUMBERS = (0, 1, -1, 2, 3, 4, 5, 100, 150, ROWS, 1 << 15, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))


def numbers(value, holder=None, key=None):
    """Every number in a struct, as its container and its key there."""
    if isinstance(value, dict):
        for number, field in value.items():
            yield from numbers(field.value, value, number)
    elif isinstance(value, Items):
        for at, item in enumerate(value.values):
            yield from numbers(item, value.values, at)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield holder, key


def damaged(content, draw):
    """The file with a footer in which bits or numbers are changed, or a piece is missing."""
    length = int.from_bytes(content[-8:-4], "little")
    chunks, footer = content[: -8 - length], bytearray(content[-8 - length : -8])
    kind = draw.choice(("bits", "bits", "number", "number", "number", "cut", "swap", "length", "nest"))
    if kind == "bits":
        for _ in range(draw.choice((1, 1, 2, 8))):
            footer[draw.randrange(length)] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        at = draw.randrange(length)
        del footer[at : at + draw.choice((1, 10, length))]
    elif kind == "nest":
        at = draw.randrange(length)
        footer[at:at] = draw.choice((b"\x19", b"\x1c", b"\xff", b"\x1a")) * draw.choice((50, 5_000, 200_000))
    elif kind == "length":
        return chunks + bytes(footer) + draw.choice(ODD_NUMBERS[:13]).to_bytes(8, "little", signed=True)[:4] + b"PAR1"
    else:
        file = Footer.of(pa.BufferReader(content)).file
        places = list(numbers(file))
        for _ in range(draw.choice((1, 1, 3))):
            (holder, key), (other, other_key) = draw.choice(places), draw.choice(places)
            if kind == "swap":
                other_value = other[other_key].value if isinstance(other, dict) else other[other_key]
            else:
                other_value = draw.choice(ODD_NUMBERS)
            holder[key] = Field(holder[key].kind, other_value) if isinstance(holder, dict) else other_value
        try:
            footer = bytearray(struct_bytes(file))
        except ValueError:  # the number no longer fits into a byte
            footer = bytearray(b"\x00")
    return chunks + bytes(footer) + len(footer).to_bytes(4, "little") + b"PAR1"


def column(path, name):
    """What Arrow reads of a column: its values, or the fact that it fails."""
    try:
        return pq.ParquetFile(path).read(columns=[name])[name].to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError):
        return "unreadable"


def outcome(directory, number):
    """The outcome of a case; raises if it is wrong."""
    draw = random.Random(number)
    source, target = directory / f"{number}.source", directory / f"{number}.new"
    pq.write_table(
        TABLE,
        source,
        store_schema=False,
        row_group_size=draw.choice((150, ROWS)),
        data_page_size=300,
        write_batch_size=32,
        write_page_index=draw.random() < 0.7,
        bloom_filter_options={"l": {"ndv": 100, "fpp": 0.01}} if draw.random() < 0.3 else None,
    )
    source.write_bytes(damaged(source.read_bytes(), draw))
    size = source.stat().st_size
    kept = KeptColumns.of(pafs.LocalFileSystem(), str(source), SCHEMA, ["i"], compression="snappy", table="t")
    if kept is None:
        return "not kept"
    try:
        rows = pq.ParquetFile(source).read(columns=list(kept.rest.names)).select(kept.rest.names)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return "unreadable"
    if len(rows) != sum(kept.footer.row_counts):
        return "other rows"
    options = {"compression": "snappy", "selection": StatisticsSelection()}
    with PartialFileWriter(pafs.LocalFileSystem(), str(target), kept, **options) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
    writer.close()
    assert target.stat().st_size < 2 * size + 10_000, "it grew"
    assert pq.read_metadata(target).num_rows == len(rows)
    for name in TABLE.column_names:
        expected = rows[name].to_pylist() if name in rows.column_names else column(source, name)
        found = column(target, name)
        assert found in (expected, TABLE[name].to_pylist()), f"{name}: {str(expected)[:100]} became {str(found)[:100]}"
    for path in (source, target):
        path.unlink()
    return "kept"


def main(directory, first, end):
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    pa.set_cpu_count(1)
    outcomes = Counter()
    for number in range(first, end):
        sys.stdout.write(f"case {number}\n")
        sys.stdout.flush()
        outcomes[outcome(directory, number)] += 1
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
