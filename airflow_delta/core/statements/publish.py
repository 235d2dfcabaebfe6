"""Publishing and discarding staged commits, which handles identify."""

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
"""Whether a statement commits now, or stages its commit for another task to publish."""

STAGED_KEY = "staged"
"""Key in a result's details of the handle of the staged commit, as a JSON object."""
PUBLISHED_KEY = "published"
"""Key in a result's details of what was published: a list, in the order of the handles."""

_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)  # used as a file name, whose length is limited


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedHandle:
    """Identifies a staged commit, in XComs and everywhere else.

    Attributes:
        table: URI of the table's root.
        id: Id of the staged commit; None if the statement had nothing to commit, so that nothing is staged.
        base_version: The version that it is based on; the search for its commit starts after it. None if not known.
        digest: SHA-256 of what was staged: different content under this id is not published. None does not check.
        name: The table's name in the catalog, under which it is published as well; None for a table given by its path.
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
        """The handle that an XCom or its JSON text holds; unknown members are ignored.

        Raises:
            InvalidStatementError: The value is not a handle.
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
    """The handle in a statement's field ``staged``; a template stays as it is. Raises as ``StagedHandle.of``."""
    return value if value is None or is_template(value) else StagedHandle.of(value)


def publishes_later(statement: Any) -> bool:
    """Whether the statement stages its commit."""
    return getattr(statement, "publish", "now") == "later" and not getattr(statement, "dry_run", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatement:
    """Commit what other tasks have staged: all staged commits are checked first, then committed one table after the other.

    Attributes:
        handles: The handles of the staged commits.
    """

    type_name: ClassVar[str] = "publish"
    handles: tuple[StagedHandle, ...]

    def __post_init__(self) -> None:
        _convert_handles(self, self.handles, "PUBLISH")

    @property
    def table(self) -> str:
        """The first table; by default the job stores its result beside it."""
        return self.handles[0].table


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardStatement:
    """Drop what other tasks have staged: it can no longer be published, and its files are deleted.

    Attributes:
        handles: The handles of the staged commits.
    """

    type_name: ClassVar[str] = "discard"
    handles: tuple[StagedHandle, ...]

    def __post_init__(self) -> None:
        _convert_handles(self, self.handles, "DISCARD")

    @property
    def table(self) -> str:
        """The first table; by default the job stores its result beside it."""
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
