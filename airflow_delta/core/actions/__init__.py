"""The actions of a commit, named as in PROTOCOL.md, "Actions".

Those that are Arrow tables are imported on first access: a DAG file uses ``Origin`` and should not import Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_delta.core.actions.commit_info import CommitInfo, Origin
from airflow_delta.core.actions.domain_metadata import DomainMetadata
from airflow_delta.core.actions.metadata import Metadata
from airflow_delta.core.actions.protocol import Protocol
from airflow_delta.core.actions.set_transaction import SetTransaction

if TYPE_CHECKING:
    from airflow_delta.core.actions.commit_actions import CommitActions
    from airflow_delta.core.actions.file_actions import (
        ADD_FILE,
        CHANGE_FILE,
        NO_ADDS,
        NO_CHANGES,
        NO_REMOVES,
        REMOVE_FILE,
        removes_of,
    )

__all__ = [
    "ADD_FILE",
    "CHANGE_FILE",
    "NO_ADDS",
    "NO_CHANGES",
    "NO_REMOVES",
    "REMOVE_FILE",
    "CommitActions",
    "CommitInfo",
    "DomainMetadata",
    "Metadata",
    "Origin",
    "Protocol",
    "SetTransaction",
    "removes_of",
]

_OF_ARROW = {"CommitActions": "commit_actions"} | dict.fromkeys(
    ("ADD_FILE", "CHANGE_FILE", "NO_ADDS", "NO_CHANGES", "NO_REMOVES", "REMOVE_FILE", "removes_of"), "file_actions"
)


def __getattr__(name: str) -> Any:
    if name not in _OF_ARROW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OF_ARROW[name]}"), name)
