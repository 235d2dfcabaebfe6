"""Several statements of one job, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.alter import AlterStatement
from airflow_delta.core.statements.copy_into import CopyIntoStatement
from airflow_delta.core.statements.expect import ExpectStatement
from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.statements.health import HealthStatement, MaintenanceStatement
from airflow_delta.core.statements.maintenance import (
    CheckpointStatement,
    CleanUpLogStatement,
    CompactLogStatement,
    ManifestStatement,
    OptimizeStatement,
    ReorgStatement,
    StatisticsStatement,
    VacuumStatement,
)
from airflow_delta.core.statements.merge import MergeStatement
from airflow_delta.core.statements.new_tables import CloneStatement, ConvertStatement, CreateStatement
from airflow_delta.core.statements.restore import RestoreStatement
from airflow_delta.core.statements.row_statements import DeleteStatement, UpdateStatement
from airflow_delta.core.statements.validation import members
from airflow_delta.core.statements.write import WriteStatement

TableStatement = (
    MergeStatement
    | DeleteStatement
    | UpdateStatement
    | WriteStatement
    | CopyIntoStatement
    | CreateStatement
    | AlterStatement
    | CloneStatement
    | ConvertStatement
    | RestoreStatement
    | OptimizeStatement
    | ReorgStatement
    | VacuumStatement
    | CheckpointStatement
    | HealthStatement
    | MaintenanceStatement
    | CompactLogStatement
    | CleanUpLogStatement
    | StatisticsStatement
    | ManifestStatement
    | ExpectStatement
)
"""A statement about one table, which may be part of a sequence."""

STATEMENTS_KEY = "statements"
"""Key in the result's details of the results of the single statements, by name."""

_NAME = re.compile(r"\w[\w.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStatement:
    """Run statements in order, each with its own commit or none; stop at the first that fails.

    Attributes:
        statements: The statements.
        names: A name for each statement, shown to people; ``"0"``, ``"1"`` and so on when empty.
    """

    type_name: ClassVar[str] = "sequence"
    statements: tuple[Any, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "statements", members("SEQUENCE", "statements", self.statements))
        for statement in self.statements:
            if not isinstance(statement, get_args(TableStatement)):
                raise InvalidStatementError(
                    statement="SEQUENCE",
                    detail=f"a statement must be a value such as MergeStatement(...) or OptimizeStatement(...), "
                    f"found {shortened(statement)}; several with names are a mapping of names to statements",
                )
        names = tuple(self.names) or tuple(map(str, range(len(self.statements))))
        if not names:
            raise InvalidStatementError(statement="SEQUENCE", detail="it needs one statement or more")
        if len({*names}) != len(self.statements) or len(names) != len(self.statements):
            detail = f"each statement needs a name of its own, found {len({*names})} for {len(self.statements)} statements"
            raise InvalidStatementError(statement="SEQUENCE", detail=detail)
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                detail = f"a name has letters, digits, and _ . - behind the first character, at most 100; found {name!r}"
                raise InvalidStatementError(statement="SEQUENCE", detail=detail)
        object.__setattr__(self, "names", names)

    @property
    def table(self) -> str:
        """The table of the first statement."""
        table: str = self.statements[0].table
        return table
