"""A staged commit: what a transaction read and would commit, as one document that another process can commit later.

The document has the form of a commit file, preceded by lines that log readers ignore::

    {"stagedCommit": {"format": 1, "tableId": ..., "baseVersion": 7, "expires": ..., "readPredicates": [...], ...}}
    {"readFiles": ["part-1.parquet", ...]}
    {"commitInfo": ...}
    {"add": ...}

It never changes. When loaded it is untrusted input: bounded, type-checked, and validated again like any commit attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions, Metadata, Protocol
from airflow_delta.core.actions.json_object import JsonObject
from airflow_delta.core.errors import CorruptLogError, InvalidSchemaError, StagedCommitDamagedError, UnfinishedCommitError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.commit_reader import parse_commit
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.log.non_file_actions import LogText
from airflow_delta.core.predicate import TRUE, Expression
from airflow_delta.core.predicate.json_form import predicate_from_json, predicate_to_json
from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.isolation_level import IsolationLevel

FORMAT = 1
_KEY, _FILES_KEY = "stagedCommit", "readFiles"
_FILES_A_LINE = 10_000
_ATTRIBUTES = (
    "isolation_level",
    "enforces",
    "read_predicates",
    "read_files",
    "read_whole_table",
    "read_app_ids",
    "may_rebase",
    "row_wise",
    "row_id_high_water_mark",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedCommit:
    """A commit that waits to be published.

    Attributes:
        id: Id of the staged commit; also the token of the commit that publishes it.
        table_id: The id in the metadata of its table.
        base_version: The version it is rebased on: no commit up to that version conflicts; -1 for a table to be created.
        created: Milliseconds since the epoch.
        expires: Milliseconds since the epoch; from then on a vacuum may delete its files.
        actions: The actions that it would commit.
        attributes: The other attributes of its ``CommitAttempt`` by name, except those of the table.
    """

    id: str
    table_id: str
    base_version: int
    created: int
    expires: int
    actions: CommitActions
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, attempt: CommitAttempt, *, id: str, created: int, expires: int) -> StagedCommit:  # noqa: A002
        """The staged form of an attempt, based on its read version. ``confirm_conflicting_files`` is not kept."""
        return cls(
            id=id,
            table_id=attempt.metadata_after.id,
            base_version=attempt.read_version,
            created=created,
            expires=expires,
            actions=attempt.actions,
            attributes={name: getattr(attempt, name) for name in _ATTRIBUTES},
        )

    def attempt(self, table: str, protocol: Protocol, metadata: Metadata, schema: StructType) -> CommitAttempt:
        """The attempt to commit it to the table, whose protocol, metadata and schema are those of the base version."""
        return CommitAttempt(
            table=table,
            read_version=self.base_version,
            protocol=protocol,
            metadata=metadata,
            schema=schema,
            actions=self.actions,
            **self.attributes,
        )

    @property
    def new_adds(self) -> pa.Table:
        """The files that it adds (``ADD_FILE``), without those that only get another deletion vector."""
        adds, removes = self.actions.adds, self.actions.removes
        return adds.filter(pc.invert(pc.is_in(adds["path"], removes["path"].combine_chunks())))

    def to_content(self) -> bytes:
        """The document."""
        lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in self._lines()]
        return "\n".join([*lines, ""]).encode() + commit_json(self.actions)

    def _lines(self) -> Iterator[dict[str, Any]]:
        read = self.attributes
        yield {
            _KEY: {
                "format": FORMAT,
                "id": self.id,
                "tableId": self.table_id,
                "baseVersion": self.base_version,
                "created": self.created,
                "expires": self.expires,
                "isolationLevel": read["isolation_level"].value,
                "enforces": sorted(read["enforces"]),
                "readPredicates": [_predicate_to_json(predicate) for predicate in read["read_predicates"]],
                "readWholeTable": read["read_whole_table"],
                "readAppIds": sorted(read["read_app_ids"]),
                "mayRebase": read["may_rebase"],
                "rowWise": read["row_wise"],
                "rowIdHighWaterMark": read["row_id_high_water_mark"],
            }
        }
        files = read["read_files"].to_pylist()
        for start in range(0, len(files), _FILES_A_LINE):
            yield {_FILES_KEY: files[start : start + _FILES_A_LINE]}

    @classmethod
    def from_content(cls, content: bytes, *, id: str, table: str, path: str) -> StagedCommit:  # noqa: A002
        """The staged commit that ``to_content`` described.

        Args:
            content: The document.
            id: The id that the document must have.
            table: URI of its table, for errors.
            path: Path of the document, for errors.

        Raises:
            StagedCommitDamagedError: It is not such a document.
            UnfinishedCommitError: It is incomplete.
        """
        text = LogText.from_content(path, 0, content)
        if not text.lines:
            raise UnfinishedCommitError(table=table, file=path, detail="it is empty")
        try:
            actions = parse_commit(table, text)
            header = JsonObject(_header(text))
            staged = cls(
                id=header.required("id", str),
                table_id=header.required("tableId", str),
                base_version=header.required("baseVersion", int),
                created=header.required("created", int),
                expires=header.required("expires", int),
                actions=actions,
                attributes={
                    "isolation_level": IsolationLevel(header.required("isolationLevel", str)),
                    "enforces": frozenset(header.texts("enforces") or ()),
                    "read_predicates": _predicates(_header(text)),
                    "read_files": _read_files(text),
                    "read_whole_table": header.required("readWholeTable", bool),
                    "read_app_ids": frozenset(header.texts("readAppIds") or ()),
                    "may_rebase": header.required("mayRebase", bool),
                    "row_wise": header.required("rowWise", bool),
                    "row_id_high_water_mark": header.required("rowIdHighWaterMark", int),
                },
            )
            staged._check(id, header.required("format", int))
        except UnfinishedCommitError:
            raise
        except CorruptLogError as error:
            raise StagedCommitDamagedError(table=table, file=path, detail=error.detail) from error
        except (InvalidSchemaError, ValueError, TypeError, LookupError, pa.ArrowException) as error:
            detail = f"{type(error).__name__}: {str(error)[:200]!r}"
            raise StagedCommitDamagedError(table=table, file=path, detail=detail) from error
        return staged

    def _check(self, id: str, document_format: int) -> None:  # noqa: A002
        if document_format != FORMAT:
            raise ValueError(f"expected format {FORMAT}, found {document_format}")
        if self.id != id:
            raise ValueError(f"it is of the id {self.id!r:.80}")
        if self.actions.commit_info is None:
            raise ValueError("it has no commitInfo")
        if self.base_version < -1:
            raise ValueError(f"its base version is {self.base_version}")
        metadata = self.actions.metadata
        if self.base_version < 0 and not (metadata and self.actions.protocol):
            raise ValueError("it creates a table without metadata and protocol")
        if metadata is not None and metadata.id != self.table_id:
            raise ValueError(f"its metadata is that of another table, {metadata.id!r:.80}")
        if metadata is not None:
            parse_schema(metadata.schema_string)


def _header(text: LogText) -> Any:
    return _member(text.lines[0], _KEY)


def _member(line: bytes, key: str) -> Any:
    document = parse_json(line)
    if not isinstance(document, dict) or key not in document:
        raise ValueError(f"expected a line with {key}")
    return document[key]


def _predicates(header: dict[str, Any]) -> tuple[Expression, ...]:
    documents = header["readPredicates"]
    if not isinstance(documents, list):
        raise TypeError("readPredicates is not a list")
    return tuple(map(predicate_from_json, documents))


def _predicate_to_json(predicate: Expression) -> dict[str, Any]:
    """The predicate, or TRUE if it has no JSON form: then every added row conflicts."""
    try:
        document = predicate_to_json(predicate)
        parse_json(json.dumps(document))
    except (KeyError, ValueError, RecursionError):
        return predicate_to_json(TRUE)
    return document


def _read_files(text: LogText) -> pa.Array:
    start = b'{"%s":' % _FILES_KEY.encode()
    paths = [path for line in text.lines if line.startswith(start) for path in _member(line, _FILES_KEY)]
    return pa.array(paths, pa.string())
