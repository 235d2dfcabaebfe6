"""The records of a commit, named as in PROTOCOL.md, "Actions"."""

from airflow_delta.core.actions.commit_actions import CommitActions
from airflow_delta.core.actions.commit_info import CommitInfo, Origin
from airflow_delta.core.actions.domain_metadata import DomainMetadata
from airflow_delta.core.actions.file_actions import (
    ADD_FILE,
    CHANGE_FILE,
    NO_ADDS,
    NO_CHANGES,
    NO_REMOVES,
    REMOVE_FILE,
    removes_of,
)
from airflow_delta.core.actions.metadata import Metadata
from airflow_delta.core.actions.protocol import Protocol
from airflow_delta.core.actions.set_transaction import SetTransaction

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
