"""The transaction core: reads and writes the Delta log, without Spark and without Airflow.

The public names are imported on first access: Spark's Python workers import only parts of the core, and must neither pay for
nor require the SQL parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_delta.core.vendored import make_importable

if TYPE_CHECKING:
    from airflow_delta.core.delta_log import DeltaLog
    from airflow_delta.core.snapshot.snapshot import Snapshot

__all__ = ["DeltaLog", "Snapshot"]

make_importable()

_HOMES = {"DeltaLog": "airflow_delta.core.delta_log", "Snapshot": "airflow_delta.core.snapshot.snapshot"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
