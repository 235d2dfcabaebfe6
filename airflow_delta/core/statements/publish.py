"""Staged commits by their handles: publishing them, and discarding them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import Number, convert_fields, is_template, shortened
from airflow_delta.core.statements.validation import members, require_text, require_type

Publish = Literal["now", "later"]
"""Whether a statement commits, or stages its commit to be published by another task."""

STAGED_KEY = "staged"
"""Key of a result's details with the handle of what was staged, as a JSON object."""
PUBLISHED_KEY = "published"
"""Key of a result's details with what was published: a list in the order of the handles."""

_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)  # it is the name of a file, whose bytes are bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedHandle:
    """What names a staged commit, in XComs and everywhere else.

    Attributes:
        table: URI of the table's root.
        id: Of the staged commit; None where the statement had nothing to commit, so that nothing is staged.
        base_version: The version behind which it holds, where the search for its commit begins; None where it is not known.
        digest: SHA-256 of what was staged: something else under this id is not published. None does not check.
        name: The table's name in the catalog, under which it is published there, too; None for a table named by its path.
    """

    type_name: ClassVar[str] = "staged_handle"
    table: str
    id: str | None
    base_version: Number | None = None
    digest: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("StagedHandle", "table", self.table)
        if self.id is not None and not is_template(self.id) and not _ID.fullmatch(self.id):
            detail = f"the id {shortened(self.id)} may only contain letters, digits, dashes and underscores"
            raise InvalidStatementError(statement="StagedHandle", detail=detail)

    @classmethod
    def of(cls, value: Any) -> StagedHandle:
        """The handle that an XCom or its JSON text holds; members that are no field are ignored.

        Raises:
            InvalidStatementError: It is no handle.
        """
        if isinstance(value, StagedHandle):
            return value
        document = value
        if isinstance(value, str):
            try:
                document = json.loads(value)
            except ValueError:
                document = None
        if not isinstance(document, Mapping) or not {"table", "id"} <= document.keys():
            detail = (
                f"expected the XCom delta_staged of the task that staged, as a dict or as JSON text, found {shortened(value)}; "
                "write task.output['delta_staged'], as text {{ ti.xcom_pull(task_ids='...', key='delta_staged') | tojson }}"
            )
            raise InvalidStatementError(statement="StagedHandle", detail=detail)
        return cls(**{field.name: document[field.name] for field in fields(cls) if field.name in document})


def staged_handle(value: Any) -> StagedHandle | str | None:
    """The field of a statement that says what staged version it reads; a template stays as it is. Raises as ``of``."""
    return value if value is None or is_template(value) else StagedHandle.of(value)


def publishes_later(statement: Any) -> bool:
    """Whether the statement stages its commit."""
    return getattr(statement, "publish", "now") == "later" and not getattr(statement, "dry_run", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatement:
    """Commit what other tasks have staged: first all of it is checked, then each table gets its commit, one after the other.

    Attributes:
        handles: What was staged.
    """

    type_name: ClassVar[str] = "publish"
    handles: tuple[StagedHandle, ...]

    def __post_init__(self) -> None:
        _convert_handles(self, self.handles, "PUBLISH")

    @property
    def table(self) -> str:
        """The first table: beside it the job leaves its result, where nothing else is configured."""
        return self.handles[0].table


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardStatement:
    """Drop what other tasks have staged: it can no longer be published, and its files are deleted.

    Attributes:
        handles: What was staged.
    """

    type_name: ClassVar[str] = "discard"
    handles: tuple[StagedHandle, ...]

    def __post_init__(self) -> None:
        _convert_handles(self, self.handles, "DISCARD")

    @property
    def table(self) -> str:
        """The first table: beside it the job leaves its result, where nothing else is configured."""
        return self.handles[0].table


def _convert_handles(statement: Any, handles: Sequence[StagedHandle], name: str) -> None:
    listed = members(name, "handles", handles)
    for handle in listed:
        require_type(name, "a handle", handle, StagedHandle)
    if not listed:
        raise InvalidStatementError(statement=name, detail="it needs one handle or more")
    ids = [(handle.table, handle.id) for handle in listed if handle.id is not None]
    if len({*ids}) < len(ids):
        raise InvalidStatementError(statement=name, detail="a handle is given twice")
    object.__setattr__(statement, "handles", listed)
