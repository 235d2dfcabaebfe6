"""The sidecars that checkpoints reference.

Protocol: PROTOCOL.md, "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.corrupt_log_errors import corrupt_log_errors
from airflow_delta.core.log.file_names import referenced_sidecar
from airflow_delta.core.storage.log_store import LogStore


def sidecars_of(store: LogStore, checkpoints: Iterable[str]) -> Iterator[str]:
    """Paths, below the table's root, of the sidecars that these checkpoint files reference.

    Raises:
        CorruptLogError: A checkpoint file is unreadable.
    """
    for path in checkpoints:
        with corrupt_log_errors(store.table_uri, path):
            named = _in_json(store, path) if path.endswith(".json") else _in_parquet(store, path)
            sidecars = [*map(referenced_sidecar, named)]
        yield from sidecars


def _in_json(store: LogStore, path: str) -> list[str]:
    actions = map(parse_json, store.read(path).splitlines())
    return [action["sidecar"]["path"] for action in actions if action.get("sidecar")]


def _in_parquet(store: LogStore, path: str) -> list[str]:
    with store.open_input(path) as stream:
        file = pq.ParquetFile(stream)
        if "sidecar" not in file.schema_arrow.names:
            return []
        paths = pc.struct_field(file.read(columns=["sidecar.path"])["sidecar"], "path")
        return [path for path in paths.to_pylist() if path is not None]
