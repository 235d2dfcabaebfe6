"""Runs operations on tables of files with truncated bounds, as a program because Arrow may abort; prints the outcomes as JSON.

Run as ``hostile_tables CASE DIRECTORY``.
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptDataFileError, CorruptLogError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.parquet.compact_protocol import BINARY, Field, read_struct, struct_bytes

ROWS = pa.table({"n": [3, 1, 2], "d": pa.array([Decimal(3), Decimal(1), Decimal(2)], pa.decimal128(30, 2))})
PARSED = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}


def cut_bounds(path, column, *, is_null=False):
    """Rewrite the file: bounds of columns with this in their path lack a byte, and parsed statistics may appear as NULL."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    file = read_struct(content[-8 - length : -8])
    for group in file[4].value.values:
        for chunk in group[1].value.values:
            described = chunk[3].value
            path_of_column = b".".join(described[3].value.values).decode()
            if is_null and "stats_parsed" in path_of_column:
                described[12].value[3] = group[3]
            bounds = described[12].value if 12 in described and column in path_of_column else {}
            bounds.update({key: Field(BINARY, bounds[key].value[:-1]) for key in (5, 6) if key in bounds})
    footer = struct_bytes(file)
    path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def statistics(log):
    return [json.loads(text) for text in log.refresh().files()["stats"].to_pylist()]


def converted(root, column, **properties):
    """A table of one file in which the bounds of this column are truncated."""
    root.mkdir()
    pq.write_table(ROWS, root / "f.parquet", store_schema=False)
    cut_bounds(root / "f.parquet", column)
    DeltaLog.convert(str(root), properties=properties)
    return DeltaLog.for_table(str(root))


def attempted(call):
    try:
        return call()
    except (CorruptDataFileError, CorruptLogError) as error:
        return type(error).__name__


def data(root, column):
    log = converted(root, column)
    before = statistics(log)
    recomputed = attempted(lambda: log.recompute_statistics().changed)
    found = attempted(lambda: log.refresh().to_arrow(["n"], where="n > 1").read_all())
    rows = found["n"].to_pylist() if isinstance(found, pa.Table) else found
    return {"before": before, "recomputed": recomputed, "after": statistics(log), "rows": rows}


def checkpoint(root, column):
    log = converted(root, "neither", **PARSED)
    path = root / log.checkpoint().path
    (root / commit_path(0)).unlink()
    cut_bounds(path, column, is_null=True)
    return attempted(lambda: statistics(DeltaLog.for_table(str(root))))


CASES = {
    "rows that Arrow reads": lambda root: data(root / "table", "d"),
    "rows that Arrow refuses": lambda root: data(root / "table", "n"),
    "checkpoint of decimals": lambda root: checkpoint(root / "table", "Values.d"),
    "checkpoint of actions": lambda root: checkpoint(root / "table", "add"),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]))))
