"""Pinning: decides once which version of each table a run reads, for all of its tasks and retries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import Number, Time, convert_fields, is_settled
from airflow_delta.core.statements.validation import members, require_text, require_type

_ALIAS = re.compile(r"\w[\w.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Version:
    """A version, by its number."""

    type_name: ClassVar[str] = "version"
    version: Number

    def __post_init__(self) -> None:
        convert_fields(self)


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The version that was the latest at a time: milliseconds since the epoch, or ISO text (UTC where it names no zone)."""

    type_name: ClassVar[str] = "timestamp"
    timestamp: Time

    def __post_init__(self) -> None:
        convert_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedBy:
    """The version that a task run of this package's operators committed; the newest one if it committed several times.

    Attributes:
        logical_date: The DAG run's logical date, as ISO text; give either this or ``run_id``.
        map_index: Index of a mapped task; None is the newest commit over all indexes.
    """

    type_name: ClassVar[str] = "produced_by"
    dag_id: str
    task_id: str
    logical_date: str | None = None
    run_id: str | None = None
    map_index: Number | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("ProducedBy", "dag_id", self.dag_id)
        require_text("ProducedBy", "task_id", self.task_id)
        if not self.logical_date and not self.run_id:
            raise InvalidStatementError(statement="ProducedBy", detail="it needs a logical_date or a run_id")

    @property
    def record(self) -> dict[str, str | int]:
        """What the commit records of the task run, as ``DeltaLog.produced_by`` takes it."""
        return {name: value for name, value in asdict(self).items() if value not in {None, ""}}


AsOf = Version | Timestamp | ProducedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTable:
    """One table to pin.

    Attributes:
        alias: The table's name within the run.
        table: URI of the table's root.
        as_of: Which version; None is the latest.
        table_id: The table id expected at that version, which detects that the table was replaced since it was last pinned;
            None does not check.
    """

    type_name: ClassVar[str] = "pinned_table"
    alias: str
    table: str
    as_of: AsOf | None = None
    table_id: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        if not _ALIAS.fullmatch(self.alias):
            detail = f"the alias {self.alias!r} may only contain letters, digits, dots, dashes and underscores"
            raise InvalidStatementError(statement="PIN", detail=detail)
        require_text("PIN", "table", self.table)
        require_type("PIN", "as_of", self.as_of, AsOf | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinStatement:
    """Resolve one version of each table, and protect it from vacuums.

    Attributes:
        tables: The tables, with unique aliases.
        id: Id of the pins, letters and digits; the same in all tries of a task run.
        keep_for_hours: Hours after which the pins expire.
        must_protect: Whether to fail if a pin cannot be written into the folder of its table; otherwise that is only reported.
    """

    type_name: ClassVar[str] = "pin"
    tables: Sequence[PinnedTable]
    id: str
    keep_for_hours: float = 720.0
    must_protect: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        object.__setattr__(self, "tables", members("PIN", "tables", self.tables))
        for table in self.tables:
            require_type("PIN", "a table", table, PinnedTable)
        if not self.tables or len({table.alias for table in self.tables}) < len(self.tables):
            raise InvalidStatementError(statement="PIN", detail="it needs one table or more, each with a unique alias")
        if not self.id.isalnum():
            raise InvalidStatementError(statement="PIN", detail=f"the id {self.id!r} may only contain letters and digits")
        if is_settled(self, "keep_for_hours") and not self.keep_for_hours > 0:
            raise InvalidStatementError(statement="PIN", detail=f"keep_for_hours is {self.keep_for_hours}")

    @property
    def table(self) -> str:
        """The first table; by default the job stores its result beside it."""
        return self.tables[0].table
