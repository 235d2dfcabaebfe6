"""The non-file actions of JSON lines, one Python object each, as there are few.

Protocol: PROTOCOL.md, "Actions". Unknown actions and fields are ignored; a null action is an absent one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_delta.core.errors import CorruptLogError, UnfinishedCommitError
from airflow_delta.core.json_text import JsonTooLongError, parse_json
from airflow_delta.core.log.corrupt_log_errors import UNREADABLE, described
from airflow_delta.core.log.file_names import LogFileKind, parse_name
from airflow_delta.core.log.long_commit_info import long_commit_info
from airflow_delta.core.storage.log_store import UNFINISHED

COMMIT_INFO, PROTOCOL, METADATA, TRANSACTION, DOMAIN = ("commitInfo", "protocol", "metaData", "txn", "domainMetadata")
CHECKPOINT_METADATA, SIDECAR = ("checkpointMetadata", "sidecar")

_FILE_ACTIONS = (b'{"add":', b'{"remove":')
_NOT_NEEDED = (*_FILE_ACTIONS, b'{"commitInfo":')

Action = TypeVar("Action")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogText:
    """A file of JSON lines.

    Attributes:
        path: Path below the table's root.
        version: The version of its actions; for a compacted file, the last version.
        lines: The lines that are not blank.
    """

    path: str
    version: int
    lines: Sequence[bytes]

    @classmethod
    def from_content(cls, path: str, version: int, content: bytes) -> LogText:
        """The log file with this content."""
        lines = [line for line in content.split(b"\n") if line and not line.isspace()]
        return cls(path=path, version=version, lines=lines)

    @property
    def _is_commit(self) -> bool:
        """Whether it is a commit, in the log or staged; checkpoints and compacted files appear as a whole."""
        name = parse_name(self.path.rpartition("/")[2])
        return name is None or name.kind is LogFileKind.COMMIT

    def corrupt(self, table: str, number: int, detail: str) -> CorruptLogError:
        """The error for a line, by its number from 1.

        If a commit breaks off there, an ``UnfinishedCommitError``: only ``read_settled`` finds out whether it is the newest.
        """
        line = self.lines[number - 1]
        if line.startswith(UNFINISHED) or (number == len(self.lines) and not line.rstrip().endswith(b"}")):
            error = UnfinishedCommitError if self._is_commit else CorruptLogError
            return error(table=table, file=self.path, detail=f"it is cut off in line {number}")
        return CorruptLogError(table=table, file=self.path, detail=f"line {number}: {detail}")


class NonFileActions:
    """The actions with certain keys in consecutive log files.

    Lines are found by searching for the keys, so that no file action is parsed. Only the ``commitInfo`` of the last file is
    kept.

    Raises:
        CorruptLogError: A line is not a JSON object, or a file holds two protocols or two metadata.
    """

    def __init__(self, table: str, texts: Sequence[LogText], keys: Collection[str]) -> None:
        self._table = table
        pattern = re.compile("|".join(f'"{key}"' for key in keys).encode())
        self._found = [
            (text, number, self._parse(text, number, line))
            for text in texts
            for number, line in enumerate(text.lines, 1)
            if not line.startswith(_FILE_ACTIONS if text is texts[-1] else _NOT_NEEDED) and pattern.search(line)
        ]
        for key in (PROTOCOL, METADATA):
            self._check_single(key)

    def all_of(self, key: str, build: Callable[[dict[str, Any]], Action]) -> list[tuple[int, Action]]:
        """All actions with this key and their versions, in the order of the log.

        Raises:
            CorruptLogError: An action violates the protocol.
        """
        return [
            (text.version, self._build(text, number, build, document[key]))
            for text, number, document in self._found
            if document.get(key) is not None
        ]

    def last_of(self, key: str, build: Callable[[dict[str, Any]], Action]) -> Action | None:
        """The last action with this key; None if no line has it. Actions that it replaces are not parsed.

        Raises:
            CorruptLogError: The action violates the protocol.
        """
        found = ((text, number, document.get(key)) for text, number, document in reversed(self._found))
        last = next(((text, number, value) for text, number, value in found if value is not None), None)
        return None if last is None else self._build(last[0], last[1], build, last[2])

    def _check_single(self, key: str) -> None:
        holder: LogText | None = None
        for text, number, document in self._found:
            if document.get(key) is not None:
                if holder is text:
                    raise text.corrupt(self._table, number, f"a second {key} action")
                holder = text

    def _parse(self, text: LogText, number: int, line: bytes) -> dict[str, Any]:
        try:
            document = parse_json(line)
        except ValueError as error:
            info = long_commit_info(line) if isinstance(error, JsonTooLongError) else None
            if info is not None:
                return {COMMIT_INFO: info}
            raise text.corrupt(self._table, number, str(error)) from error
        if not isinstance(document, dict):
            raise text.corrupt(self._table, number, "the line is not a JSON object")
        return document

    def _build(self, text: LogText, number: int, build: Callable[[dict[str, Any]], Action], document: Any) -> Action:
        try:
            return build(document)
        except UNREADABLE as error:
            raise text.corrupt(self._table, number, described(error)) from error
