"""From commit files to actions: many commits in one go, file actions as columns.

Protocol: PROTOCOL.md, "Delta Log Entries", "Actions". Unknown actions and fields are ignored; a null field is an absent one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from airflow_delta.core.actions import (
    ADD_FILE,
    CHANGE_FILE,
    REMOVE_FILE,
    CommitActions,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from airflow_delta.core.errors import CorruptLogError, LogGapError
from airflow_delta.core.log.file_columns import file_columns, log_name
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.schema.schema_json import parse_schema
from airflow_delta.core.storage.log_store import LogStore

VERSION = pa.field("version", pa.int64())
"""Last column of the file actions of a ``CommitBatch``: the version whose commit holds the action."""

_BLOCK_SIZE = 4 << 20  # Bytes that one thread parses; large enough that columns are built in few pieces.
_PARTITION_VALUES, _TAGS = (
    re.compile(rb'"%s"\s*:\s*(\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})' % key) for key in (b"partitionValues", b"tags")
)
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_SMALL_ACTIONS = ("commitInfo", "protocol", "metaData", "txn", "domainMetadata")

_FILE_ACTIONS = (b'{"add":', b'{"remove":')
_NOT_NEEDED = (*_FILE_ACTIONS, b'{"commitInfo":')

Action = TypeVar("Action")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitBatch:
    """What consecutive commits say, taken together.

    Attributes:
        adds: Columns ``ADD_FILE`` and ``VERSION``, versions ascending.
        removes: Columns ``REMOVE_FILE`` and ``VERSION``, versions ascending.
        changes: Columns ``CHANGE_FILE`` and ``VERSION``, versions ascending.
        protocol: The last one; None when no commit holds one.
        metadata: The last one; None when no commit holds one.
        transactions: The last of each application.
        domains: The last of each domain, also when it says that the domain is removed.
        commit_info: Of the last commit; None when that commit has none.
    """

    adds: pa.Table = field(default_factory=lambda: ADD_FILE.append(VERSION).empty_table())
    removes: pa.Table = field(default_factory=lambda: REMOVE_FILE.append(VERSION).empty_table())
    changes: pa.Table = field(default_factory=lambda: CHANGE_FILE.append(VERSION).empty_table())
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    commit_info: CommitInfo | None = None

    def followed_by(self, later: CommitBatch) -> CommitBatch:
        """This batch and the commits right after it as one."""
        return CommitBatch(
            adds=pa.concat_tables([self.adds, later.adds]),
            removes=pa.concat_tables([self.removes, later.removes]),
            changes=pa.concat_tables([self.changes, later.changes]),
            protocol=later.protocol or self.protocol,
            metadata=later.metadata or self.metadata,
            transactions={**self.transactions, **later.transactions},
            domains={**self.domains, **later.domains},
            commit_info=later.commit_info,
        )


def read_commits(store: LogStore, versions: Iterable[int]) -> CommitBatch:
    """The actions of these commits, whose versions ascend.

    Raises:
        LogGapError: A commit file is not there.
        CorruptLogError: A line is no JSON object, or an action is not what the protocol says.
    """
    commits = [(version, _lines(_content(store, version))) for version in versions]
    if not commits:
        return CommitBatch()
    small = _SmallActions(store.table_uri, commits)
    metadata = small.all_of("metaData", Metadata.from_json)
    adds, removes, changes = _file_actions(store.table_uri, commits, metadata)
    protocols = small.all_of("protocol", Protocol.from_json)
    infos = small.all_of("commitInfo", CommitInfo.from_json)
    transactions = small.all_of("txn", SetTransaction.from_json)
    domains = small.all_of("domainMetadata", DomainMetadata.from_json)
    return CommitBatch(
        adds=adds,
        removes=removes,
        changes=changes,
        protocol=protocols[-1][1] if protocols else None,
        metadata=metadata[-1][1] if metadata else None,
        transactions={each.app_id: each for _, each in transactions},
        domains={each.domain: each for _, each in domains},
        commit_info=next((info for version, info in reversed(infos) if version == commits[-1][0]), None),
    )


def read_commit(store: LogStore, version: int) -> CommitActions:
    """All that the commit of this version says.

    Raises:
        LogGapError: The commit file is not there.
        CorruptLogError: A line is no JSON object, or an action is not what the protocol says.
    """
    batch = read_commits(store, [version])
    return CommitActions(
        commit_info=batch.commit_info,
        protocol=batch.protocol,
        metadata=batch.metadata,
        adds=batch.adds.drop_columns([VERSION.name]),
        removes=batch.removes.drop_columns([VERSION.name]),
        changes=batch.changes.drop_columns([VERSION.name]),
        transactions=tuple(batch.transactions.values()),
        domains=tuple(batch.domains.values()),
    )


def read_commit_info(store: LogStore, version: int) -> CommitInfo | None:
    """Who made this version; None when the writer left no word.

    Raises:
        LogGapError: The commit file is not there.
        CorruptLogError: The commit info is no JSON object.
    """
    lines = [line for line in _lines(_content(store, version)) if b'"commitInfo"' in line]
    infos = _SmallActions(store.table_uri, [(version, lines)]).all_of("commitInfo", CommitInfo.from_json)
    return infos[0][1] if infos else None


def read_metadata(store: LogStore, version: int) -> Metadata | None:
    """The metadata that the commit of this version sets; None when it sets none.

    Raises:
        LogGapError: The commit file is not there.
        CorruptLogError: The metadata is not what the protocol says.
    """
    lines = [line for line in _lines(_content(store, version)) if b'"metaData"' in line]
    found = _SmallActions(store.table_uri, [(version, lines)]).all_of("metaData", Metadata.from_json)
    return found[-1][1] if found else None


def _content(store: LogStore, version: int) -> bytes:
    try:
        return store.read(commit_path(version))
    except FileNotFoundError as error:
        raise LogGapError(table=store.table_uri, file=commit_path(version), detail="it was there a moment ago") from error


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line and not line.isspace()]


class _SmallActions:
    """The few actions of which each is a Python object, found by their key so that no file action is parsed for it.

    Of the commit infos only that of the last commit counts.
    """

    def __init__(self, table: str, commits: Sequence[tuple[int, list[bytes]]]) -> None:
        self._table = table
        keys = re.compile("|".join(f'"{key}"' for key in _SMALL_ACTIONS).encode())
        self._found = [
            (version, number, self._parse(version, number, line))
            for version, lines in commits
            for number, line in enumerate(lines, 1)
            if not line.startswith(_FILE_ACTIONS if version == commits[-1][0] else _NOT_NEEDED) and keys.search(line)
        ]

    def all_of(self, key: str, build: Callable[[dict[str, Any]], Action]) -> list[tuple[int, Action]]:
        """All actions below this key with their versions, in the order of the log."""
        return [
            (version, self._build(version, number, build, document[key]))
            for version, number, document in self._found
            if document.get(key) is not None
        ]

    def _parse(self, version: int, number: int, line: bytes) -> dict[str, Any]:
        try:
            document = json.loads(line)
        except ValueError as error:
            raise self._corrupt(version, number, str(error)) from error
        if not isinstance(document, dict):
            raise self._corrupt(version, number, "the line is no JSON object")
        return document

    def _build(self, version: int, number: int, build: Callable[[dict[str, Any]], Action], document: Any) -> Action:
        try:
            return build(document)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._corrupt(version, number, f"{type(error).__name__}: {error}") from error

    def _corrupt(self, version: int, number: int, detail: str) -> CorruptLogError:
        return _corrupt(self._table, version, f"line {number}: {detail}")


def _file_actions(
    table: str, commits: Sequence[tuple[int, list[bytes]]], metadata: Sequence[tuple[int, Metadata]]
) -> tuple[pa.Table, pa.Table, pa.Table]:
    lines = [line for _, found in commits for line in found]
    if not lines:
        return CommitBatch().adds, CommitBatch().removes, CommitBatch().changes
    body = b"\n".join(lines)
    is_from_metadata_on = bool(metadata) and metadata[0][0] == commits[0][0]
    schema = _json_schema(body, [each for _, each in metadata], is_from_metadata_on=is_from_metadata_on)
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return _parsed(body, commits, parse)
    except ValueError as error:  # what Arrow raises; where many threads parse it does not tell the line
        raise _first_corrupt_line(table, commits, parse) or _corrupt(table, commits[-1][0], str(error)) from error


def _parsed(
    body: bytes, commits: Sequence[tuple[int, list[bytes]]], parse: pyarrow.json.ParseOptions
) -> tuple[pa.Table, pa.Table, pa.Table]:
    longest = max(len(line) for _, lines in commits for line in lines)
    block = pyarrow.json.ReadOptions(block_size=max(_BLOCK_SIZE, longest + 1))
    rows = pyarrow.json.read_json(pa.BufferReader(body), read_options=block, parse_options=parse)
    versions = pa.concat_arrays([pa.repeat(pa.scalar(version, pa.int64()), len(lines)) for version, lines in commits])
    if len(rows) != len(versions):  # Arrow takes {...}{...} for two rows
        raise ValueError("a line holds more than one value")
    batches = rows.append_column(VERSION, pa.chunked_array([versions])).to_batches()
    changes = batches if "cdc" in rows.column_names else ()
    return _table(batches, "add", ADD_FILE), _table(batches, "remove", REMOVE_FILE), _table(changes, "cdc", CHANGE_FILE)


def _first_corrupt_line(
    table: str, commits: Sequence[tuple[int, list[bytes]]], parse: pyarrow.json.ParseOptions
) -> CorruptLogError | None:
    for version, lines in commits:
        for number, line in enumerate(lines, 1):
            try:
                _parsed(line, [(version, [line])], parse)
            except ValueError as error:
                return _corrupt(table, version, f"line {number}: {error}")
    return None


def _corrupt(table: str, version: int, detail: str) -> CorruptLogError:
    return CorruptLogError(table=table, file=commit_path(version), detail=detail)


def _table(batches: Iterable[pa.RecordBatch], key: str, schema: pa.Schema) -> pa.Table:
    """The actions below this key, in pieces as they were parsed: all texts together may be too long for one array."""
    columns = schema.append(VERSION)
    pieces = []
    for batch in batches:
        present = batch.filter(pc.is_valid(batch[key]))
        files = file_columns(present[key], schema)
        files.validate(full=True)  # Arrow's JSON reader takes any bytes for text
        pieces.append(pa.RecordBatch.from_arrays([*files.columns, present[VERSION.name]], schema=columns))
    return pa.Table.from_batches(pieces, columns)


def _json_schema(body: bytes, metadata: Sequence[Metadata], *, is_from_metadata_on: bool) -> pa.Schema:
    """What Arrow is to parse: maps as structs of all keys that occur, because Arrow must know them before.

    Where the commits begin with the table's metadata, all partition columns are known from it. Otherwise each file is asked:
    some writers leave out keys of null values, so that no file speaks for the others.
    """
    partitions = _PARTITION_VALUES.finditer(body)
    tags = _TAGS.finditer(body) if b'"tags"' in body else ()
    keys = {
        "partition_values": _struct_of_keys(
            [*_keys(islice(partitions, 1) if is_from_metadata_on else partitions), *map(_physical_partition_columns, metadata)]
        ),
        "tags": _struct_of_keys(_keys(tags)),
    }
    actions = {"add": ADD_FILE, "remove": REMOVE_FILE, **({"cdc": CHANGE_FILE} if b'"cdc"' in body else {})}
    return pa.schema([(key, _json_type(columns, keys)) for key, columns in actions.items()])


def _json_type(fields: Iterable[pa.Field], keys: Mapping[str, pa.StructType]) -> pa.StructType:
    def of(field: pa.Field) -> pa.DataType:
        if pa.types.is_map(field.type):
            return keys[field.name]
        return _json_type(field.type, keys) if pa.types.is_struct(field.type) else field.type

    return pa.struct([(log_name(each.name), of(each)) for each in fields])


def _struct_of_keys(found: Iterable[Iterable[str]]) -> pa.StructType:
    return pa.struct([(key, pa.string()) for key in dict.fromkeys(key for keys in found for key in keys)])


def _keys(objects: Iterable[re.Match[bytes]]) -> Iterator[Iterable[str]]:
    """The keys of the objects; equal objects, of which there are many, are parsed once."""
    return (json.loads(text).keys() for text in {match[1] for match in objects})


def _physical_partition_columns(metadata: Metadata) -> Iterable[str]:
    fields = {each.name: each for each in parse_schema(metadata.schema_string).fields}
    return [fields[name].metadata.get(_PHYSICAL_NAME, name) for name in metadata.partition_columns if name in fields]
