"""Names of the files in ``_delta_log``: made and understood here only, with no I/O.

Protocol: PROTOCOL.md, "Delta Log Entries", "Checkpoints".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"

_NAME = re.compile(
    r"""(?P<version>\d{20})\.(?:
        (?P<commit>json)
      | checkpoint\.parquet
      | checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet
      | checkpoint\.(?P<uuid>[^.]+)\.(?:json|parquet)
    )""",
    re.VERBOSE,
)

END_OF_VERSIONS = ":"
"""Sorts after every name that begins with a digit: a listing in order may stop here, whatever stray files follow."""


class LogFileKind(Enum):
    """What a log file holds, in so far as a reader needs it."""

    COMMIT = "commit"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    CHECKPOINT_PART = "part of a checkpoint"
    V2_CHECKPOINT = "v2 checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileName:
    """What the name of a log file says.

    Attributes:
        part: Number of this part, from 1; 1 for a checkpoint of one file.
        parts: Files that the checkpoint consists of.
    """

    kind: LogFileKind
    version: int
    part: int = 1
    parts: int = 1


def parse_name(name: str) -> LogFileName | None:
    """What ``name`` (without a directory) says, or None for a file that readers of the log must ignore.

    Ignored are checksums, compacted commits, staged commits, temporary and any other files.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if match["commit"]:
        return LogFileName(kind=LogFileKind.COMMIT, version=version)
    if match["parts"]:
        part, parts = int(match["part"]), int(match["parts"])
        return LogFileName(kind=LogFileKind.CHECKPOINT_PART, version=version, part=part, parts=parts)
    kind = LogFileKind.V2_CHECKPOINT if match["uuid"] else LogFileKind.CLASSIC_CHECKPOINT
    return LogFileName(kind=kind, version=version)


def version_prefix(version: int) -> str:
    """``00000000000000000007`` for version 7: no name of that version or a later one sorts before it."""
    return f"{version:020d}"


def commit_file(version: int) -> str:
    """``00000000000000000007.json`` for version 7."""
    return f"{version:020d}.json"


def commit_path(version: int) -> str:
    """``_delta_log/00000000000000000007.json`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """``_delta_log/00000000000000000007.checkpoint.parquet`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"
