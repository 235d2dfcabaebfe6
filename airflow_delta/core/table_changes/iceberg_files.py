"""Checks that existing data files are readable for Iceberg, before a property declares compatibility.

Protocol: PROTOCOL.md, "Writer Requirements for IcebergCompatV1", "... V2": what each data file must contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.data_files.reader import read_footer
from airflow_delta.core.data_files.writer import storable
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.schema import StructType, physical_name, writing_schema
from airflow_delta.core.schema.arrow_conversion import FIELD_ID
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.core.table_features.iceberg_compat import COMPATIBLE
from airflow_delta.core.table_features.iceberg_rules import Violation, raise_for
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.wording import counted

MOST_FILES: Final = 10_000
"""Most files whose footers are checked; a table with more files is refused."""

_THREADS = 8
_EXAMPLES = 3
_NEW_TABLE = "write the rows into a new table with the property"


def check_files_conform(snapshot: Snapshot, after: Definition, version: int) -> None:
    """Return if every file of the table may stay when this version of Iceberg compatibility is enabled.

    Args:
        snapshot: The table, with its files.
        after: The table's definition after the change.
        version: The version of Iceberg compatibility.

    Raises:
        IcebergCompatError: Some files may not; the error names them, and why.
        CorruptDataFileError: A file cannot be read.
    """
    files = snapshot.files(columns=["path", "deletion_vector", NUM_RECORDS.name])
    details = list(_wrong_in_log(files, version))
    if not details and len(files) > MOST_FILES:
        details = [f"it has {len(files)} files, and the footers of no more than {MOST_FILES} are looked at"]
    if not details and len(files):
        details = _wrong_in_files(snapshot, files["path"].to_pylist(), after, version)
    raise_for(
        snapshot.table_uri,
        [Violation(property=COMPATIBLE[version], detail=detail, cure=_NEW_TABLE) for detail in details],
    )


def _wrong_in_log(files: pa.Table, version: int) -> Iterator[str]:
    uncounted = files["path"].filter(pc.is_null(files[NUM_RECORDS.name]))
    if len(uncounted):
        yield f"{counted(len(uncounted), 'file')} whose statistics lack the number of rows, {uncounted[0].as_py()} for one"
    marked = files["path"].filter(pc.is_valid(files["deletion_vector"]))
    if version <= 2 and len(marked):  # noqa: PLR2004 (the third allows them)
        yield f"{counted(len(marked), 'file')} with deletion vectors, {marked[0].as_py()} for one"


def _wrong_in_files(snapshot: Snapshot, paths: list[str], after: Definition, version: int) -> list[str]:
    schema = after.schema.without(after.metadata.partition_columns)
    partitions = materialized_columns(after.schema, after.protocol, after.metadata)
    wanted = writing_schema(storable(StructType((*schema.fields, *partitions.fields))))
    required = {physical_name(field) for field in partitions.fields}
    locate = FileLocator.from_store(snapshot.store)

    def problem(path: str) -> str | None:
        footer = read_data(lambda: read_footer(*locate(path)), table=snapshot.table_uri, file=path)
        return next(problems_of(footer.metadata, wanted, required, needs_int64=version > 1), None)

    with ThreadPoolExecutor(_THREADS) as pool:
        found = [f"{path}: {detail}" for path, detail in zip(paths, pool.map(problem, paths), strict=True) if detail]
    more = [f"and {len(found) - _EXAMPLES} more files"] if len(found) > _EXAMPLES else []
    return [*found[:_EXAMPLES], *more]


def problems_of(footer: pq.FileMetaData, wanted: pa.Schema, required: set[str], *, needs_int64: bool) -> Iterator[str]:
    """What is wrong with a file.

    Args:
        footer: Footer of the file.
        wanted: The columns as such files must have them, with their ids.
        required: Names of the columns that it must contain.
        needs_int64: Whether timestamps must be 64-bit integers.
    """
    held = footer.schema.to_arrow_schema()
    for field in wanted:
        index = held.get_field_index(field.name)
        if index >= 0:
            yield from _differing_ids(field.name, held.field(index), field)
        elif field.name in required:
            yield f"it lacks the partition column {field.name}"
    if needs_int64:
        leaves = map(footer.schema.column, range(footer.num_columns))
        yield from (f"{leaf.path} is stored as INT96" for leaf in leaves if leaf.physical_type == "INT96")


def _differing_ids(path: str, held: pa.Field, wanted: pa.Field) -> Iterator[str]:
    ids = [(field.metadata or {}).get(FIELD_ID, b"").decode() for field in (held, wanted)]
    if ids[0] != ids[1]:
        yield f"{path} has {f'the id {ids[0]}' if ids[0] else 'no id'}, not {ids[1] or 'none'}"
    inside = {field.name: field for field in _inside(held.type)}
    for field in _inside(wanted.type):
        if field.name in inside:
            yield from _differing_ids(f"{path}.{field.name}", inside[field.name], field)


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_list(kind):
        return [kind.value_field.with_name("element")]
    if pa.types.is_map(kind):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    return list(kind) if pa.types.is_struct(kind) else []
