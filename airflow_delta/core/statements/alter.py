"""ALTER TABLE: changes of schema, properties and features, in one commit.

A column is named by its path (``address.zip``, ``stops.element.airport``); a part that contains a dot is put in backticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.columns import Columns, columns_text
from airflow_delta.core.statements.fields import convert_fields, exclude_each_other, is_settled, is_template
from airflow_delta.core.statements.validation import members, require_mapping, require_text, require_texts, require_type, texts


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Add columns; they are NULL in existing rows.

    Attributes:
        columns: Columns as for a new table, but without NOT NULL, defaults or generated values; a name may be the path of a
            nested field.
        first: Whether to place them before all others.
        after: The column to place them after; None places them at the end of their struct.
        if_not_exists: Whether to leave existing columns unchanged, rather than fail.
    """

    type_name: ClassVar[str] = "add_columns"
    columns: Columns
    _: KW_ONLY
    first: bool = False
    after: str | None = None
    if_not_exists: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        object.__setattr__(self, "columns", columns_text("AddColumns", self.columns, paths=True))
        _check_position(self, self.after)


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; data files stay unchanged. Requires ``delta.columnMapping.mode = name``."""

    type_name: ClassVar[str] = "rename_column"
    column: str
    to: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column", "to")


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Drop columns; their values stay in the files until these are rewritten. Requires ``delta.columnMapping.mode = name``.

    Attributes:
        columns: Paths of the columns.
        if_exists: Whether to ignore columns that do not exist, rather than fail.
    """

    type_name: ClassVar[str] = "drop_columns"
    columns: tuple[str, ...]
    _: KW_ONLY
    if_exists: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        object.__setattr__(self, "columns", texts("DropColumns", "columns", self.columns))


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Widen the type of a column, or of the element, key or value of one. Requires ``delta.enableTypeWidening = true``."""

    type_name: ClassVar[str] = "widen_column"
    column: str
    to: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column", "to")


@dataclass(frozen=True, slots=True)
class AllowNull:
    """Allow NULL in a column (DROP NOT NULL)."""

    type_name: ClassVar[str] = "allow_null"
    column: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column")


@dataclass(frozen=True, slots=True)
class CommentColumn:
    """Set the comment of a column."""

    type_name: ClassVar[str] = "comment_column"
    column: str
    comment: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column")


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set the default of a column for rows written later, as a SQL expression; None drops the default."""

    type_name: ClassVar[str] = "set_default"
    column: str
    sql: str | None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column")
        if self.sql is not None:
            require_texts(self, "sql")


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a column within its struct: first, or after another column."""

    type_name: ClassVar[str] = "move_column"
    column: str
    _: KW_ONLY
    first: bool = False
    after: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "column")
        _check_position(self, self.after)
        if is_settled(self, "first") and not self.first and self.after is None:
            raise InvalidStatementError(statement="MoveColumn", detail="it needs first=True, or after")


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties, and enable the features that they require; the property ``comment`` is the table's description."""

    type_name: ClassVar[str] = "set_properties"
    properties: Mapping[str, str]

    def __post_init__(self) -> None:
        convert_fields(self)
        require_mapping("SetProperties", "properties", self.properties)
        if not self.properties:
            raise InvalidStatementError(statement="SetProperties", detail="it needs one property or more")


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """Unset table properties, so that their defaults apply.

    Attributes:
        names: Names of the properties.
        if_exists: Whether to ignore properties that are not set, rather than fail.
    """

    type_name: ClassVar[str] = "unset_properties"
    names: tuple[str, ...]
    _: KW_ONLY
    if_exists: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        object.__setattr__(self, "names", texts("UnsetProperties", "names", self.names))


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """Add a CHECK constraint, after checking that every existing row satisfies it.

    Attributes:
        name: Name of the constraint.
        sql: A condition in Spark SQL that must be TRUE; NULL violates it.
    """

    type_name: ClassVar[str] = "add_constraint"
    name: str
    sql: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "name", "sql")


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """Drop a CHECK constraint.

    Attributes:
        name: Name of the constraint.
        if_exists: Whether to ignore a constraint that does not exist, rather than fail.
    """

    type_name: ClassVar[str] = "drop_constraint"
    name: str
    _: KW_ONLY
    if_exists: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "name")


@dataclass(frozen=True, slots=True)
class ClusterBy:
    """Cluster files written from now on by these columns, at most four; an empty list ends clustering."""

    type_name: ClassVar[str] = "cluster_by"
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        convert_fields(self)
        object.__setattr__(self, "columns", texts("ClusterBy", "columns", self.columns, may_be_empty=True))


@dataclass(frozen=True, slots=True)
class AddFeature:
    """Add a table feature to the protocol, and those that it depends on."""

    type_name: ClassVar[str] = "add_feature"
    name: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "name")


@dataclass(frozen=True, slots=True)
class DropFeature:
    """Drop a feature from the protocol, after removing every trace of it. Must be the only change: it may need several commits.

    Attributes:
        name: Name of the feature.
        truncate_history: Whether to delete older versions, rather than protect those that readers need the feature for.
    """

    type_name: ClassVar[str] = "drop_feature"
    name: str
    _: KW_ONLY
    truncate_history: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_texts(self, "name")


@dataclass(frozen=True, slots=True)
class UpgradeProtocol:
    """Require at least these protocol versions; reader version 3 and writer version 7 allow table features."""

    type_name: ClassVar[str] = "upgrade_protocol"
    reader_version: int
    writer_version: int

    def __post_init__(self) -> None:
        convert_fields(self)


TableChange = (
    AddColumns
    | RenameColumn
    | DropColumns
    | WidenColumn
    | AllowNull
    | CommentColumn
    | SetDefault
    | MoveColumn
    | SetProperties
    | UnsetProperties
    | AddConstraint
    | DropConstraint
    | ClusterBy
    | AddFeature
    | DropFeature
    | UpgradeProtocol
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterStatement:
    """Change the definition of a table, as one commit: all changes or none.

    Attributes:
        table: URI of the table's root.
        changes: The changes, applied in order.
        dry_run: Report what the table would become, but commit nothing.
    """

    type_name: ClassVar[str] = "alter"
    table: str
    changes: tuple[TableChange, ...]
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("ALTER", "table", self.table)
        if is_template(self.changes):
            return
        changes = (self.changes,) if isinstance(self.changes, TableChange) else members("ALTER", "changes", self.changes)
        if not changes:
            raise InvalidStatementError(statement="ALTER", detail="it needs one change or more")
        for change in changes:
            require_type("ALTER", "a change", change, TableChange)
        if any(isinstance(change, DropFeature) for change in changes) and (len(changes) > 1 or self.dry_run is True):
            detail = "DropFeature makes its own commits: it must be the only change, and has no dry run"
            raise InvalidStatementError(statement="ALTER", detail=detail)
        object.__setattr__(self, "changes", changes)


def _check_position(value: object, after: str | None) -> None:
    exclude_each_other(value, "first", "after")
    if after is not None:
        require_text(type(value).__name__, "after", after)
