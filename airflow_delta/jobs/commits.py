"""How the statements of each type commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from airflow_delta.core.statements import (
    CheckpointStatement,
    CleanUpLogStatement,
    CompactLogStatement,
    DiscardStatement,
    DropStatement,
    ExpectStatement,
    HealthStatement,
    MaintenanceStatement,
    ManifestStatement,
    PinStatement,
    PublishStatement,
    SequenceStatement,
    Statement,
    StatisticsStatement,
    VacuumStatement,
)

Commits = Literal["once", "in steps", "without token", "never"]
"""How a statement commits.

``once``: its only commit carries the token and is its result, which a retry finds. ``in steps``: a commit with the token is one
of several. ``without token`` and ``never``: a retry runs the statement again.
"""

_NOT_ONCE: Mapping[type, Commits] = {
    CheckpointStatement: "never",
    CleanUpLogStatement: "never",
    CompactLogStatement: "never",
    DiscardStatement: "never",
    DropStatement: "never",
    ExpectStatement: "never",
    HealthStatement: "never",
    MaintenanceStatement: "in steps",
    ManifestStatement: "never",
    PinStatement: "never",
    PublishStatement: "in steps",
    SequenceStatement: "in steps",
    StatisticsStatement: "without token",
    VacuumStatement: "without token",
}


def commits_of(statement: Statement) -> Commits:
    """How the statement commits, if it changes anything."""
    return _NOT_ONCE.get(type(statement), "once")
