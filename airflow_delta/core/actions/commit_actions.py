"""All actions of one commit file; file actions as columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from airflow_delta.core.actions.commit_info import CommitInfo
from airflow_delta.core.actions.domain_metadata import DomainMetadata
from airflow_delta.core.actions.file_actions import NO_ADDS, NO_CHANGES, NO_REMOVES
from airflow_delta.core.actions.metadata import Metadata
from airflow_delta.core.actions.protocol import Protocol
from airflow_delta.core.actions.set_transaction import SetTransaction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitActions:
    """The content of one commit, whether of an attempt or of a winner.

    Protocol: PROTOCOL.md, "Actions".

    Attributes:
        commit_info: The ``commitInfo``; None when the writer left none.
        adds: Added files, columns ``ADD_FILE``.
        removes: Removed files, columns ``REMOVE_FILE``.
        changes: Change data files, columns ``CHANGE_FILE``.
    """

    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    removes: pa.Table = field(default_factory=lambda: NO_REMOVES)
    changes: pa.Table = field(default_factory=lambda: NO_CHANGES)
    transactions: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
