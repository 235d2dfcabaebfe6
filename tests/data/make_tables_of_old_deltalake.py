"""Makes ``tests/data/deltalake-<version>``: a table of a deltalake release that stored NULL counts under wrong names.

Before 2026-07 the NULLs of a list's elements were counted for the column ``item``, and those of a map's keys and values for
``key`` and ``value``, whatever these columns themselves contain. Run it with each such release::

    pip install --target /tmp/old deltalake==0.25.5 && PYTHONPATH=/tmp/old python tests/data/make_tables_of_old_deltalake.py
"""

from pathlib import Path

import deltalake
import pyarrow as pa

NUMBERS, MAPS = pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())
SCHEMA = pa.schema(
    {"id": pa.int64(), "value": pa.int64(), "item": pa.string(), "key": pa.bool_(), "list": NUMBERS, "map": MAPS}
)
FILES = (
    # The columns have values where the list and the map have only NULLs: counted as NULLs.
    [
        {"id": 1, "value": 5, "item": "x", "key": True, "list": [None], "map": [("a", None)]},
        {"id": 2, "value": 5, "item": "x", "key": True, "list": [None], "map": [("b", None)]},
    ],
    # The columns have NULLs where the list and the map have no NULLs: not counted.
    [
        {"id": 3, "value": 6, "item": "y", "key": True, "list": [1], "map": [("a", 1)]},
        {"id": 4, "value": None, "item": None, "key": None, "list": [2], "map": [("b", 2)]},
    ],
    [
        {"id": 5, "value": 7, "item": "z", "key": False, "list": None, "map": None},
        {"id": 6, "value": 7, "item": "z", "key": False, "list": None, "map": None},
    ],
)

if __name__ == "__main__":
    for rows in FILES:
        table = Path(__file__).parent / f"deltalake-{deltalake.__version__}"
        deltalake.write_deltalake(str(table), pa.Table.from_pylist(rows, SCHEMA), mode="append")
