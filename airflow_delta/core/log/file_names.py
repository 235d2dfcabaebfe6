"""Names of the files in ``_delta_log``; the only place where they are built and parsed. No I/O.

Protocol: PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Sidecar Files", "Log Compaction Files", "Version Checksum File",
"Catalog-managed tables".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal
from urllib.parse import unquote

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = f"{LOG_DIRECTORY}/_sidecars"
STAGED_COMMITS_DIRECTORY = f"{LOG_DIRECTORY}/_staged_commits"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"

_NAME = re.compile(
    r"""(?P<version>[0-9]{20})\.(?:
        (?P<commit>json)
      | (?P<checksum>crc)
      | (?P<end>[0-9]{20})\.compacted\.json
      | checkpoint\.parquet
      | checkpoint\.(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet
      | checkpoint\.(?P<uuid>[^.]+)\.(?:json|parquet)
    )""",
    re.VERBOSE,
)

_STAGED = re.compile(r"(?P<version>[0-9]{20})\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json", re.IGNORECASE)

MAX_VERSION = (1 << 63) - 1
"""Versions are 64-bit; a file name with a greater version is not a file of the log."""

END_OF_VERSIONS = ":"
"""Sorts after every name that begins with a digit: an ordered listing may stop here, whatever other files follow."""


class LogFileKind(Enum):
    """What a log file holds."""

    COMMIT = "commit"
    CHECKSUM = "checksum of a version"
    COMPACTED_COMMITS = "consecutive commits in one file"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    CHECKPOINT_PART = "part of a checkpoint"
    V2_CHECKPOINT = "v2 checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileName:
    """The parsed name of a log file.

    Attributes:
        version: The version, or the first one that the file covers.
        end: The last version that a compacted file covers; None for every other kind.
        part: Number of the part of a multi-part checkpoint, from 1; otherwise 1.
        parts: Number of files that make up the checkpoint.
    """

    kind: LogFileKind
    version: int
    end: int | None = None
    part: int = 1
    parts: int = 1


def parse_name(name: str) -> LogFileName | None:
    """The parsed ``name`` (without directory), or None for a file that readers of the log must ignore.

    Staged commits, temporary files and all others are ignored.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if max(version, int(match["end"] or 0)) > MAX_VERSION:
        return None
    if match["commit"]:
        return LogFileName(kind=LogFileKind.COMMIT, version=version)
    if match["checksum"]:
        return LogFileName(kind=LogFileKind.CHECKSUM, version=version)
    if match["end"]:
        return LogFileName(kind=LogFileKind.COMPACTED_COMMITS, version=version, end=int(match["end"]))
    if match["parts"]:
        part, parts = int(match["part"]), int(match["parts"])
        if not 1 <= part <= parts:
            return None
        return LogFileName(kind=LogFileKind.CHECKPOINT_PART, version=version, part=part, parts=parts)
    kind = LogFileKind.V2_CHECKPOINT if match["uuid"] else LogFileKind.CLASSIC_CHECKPOINT
    return LogFileName(kind=kind, version=version)


def version_prefix(version: int) -> str:
    """``00000000000000000007`` for version 7: the names of this version and later ones sort at or after it."""
    return f"{version:020d}"


def commit_file(version: int) -> str:
    """``00000000000000000007.json`` for version 7."""
    return f"{version:020d}.json"


def commit_path(version: int) -> str:
    """``_delta_log/00000000000000000007.json`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def staged_commit_file(version: int, uuid: str) -> str:
    """``00000000000000000007.<uuid>.json``: the name of a staged commit, proposed to a catalog as version 7."""
    return f"{version:020d}.{uuid}.json"


def staged_commit_path(name: str) -> str:
    """``_delta_log/_staged_commits/<name>``: the path of a staged commit."""
    return f"{STAGED_COMMITS_DIRECTORY}/{name}"


def staged_version(name: str) -> int | None:
    """The version that a staged commit of this name is proposed as; None if the name is not that of a staged commit."""
    match = _STAGED.fullmatch(name)
    version = int(match["version"]) if match else MAX_VERSION + 1
    return version if version <= MAX_VERSION else None


def compacted_path(start: int, end: int) -> str:
    """``_delta_log/00000000000000000004.00000000000000000006.compacted.json`` for the commits 4 to 6."""
    return f"{LOG_DIRECTORY}/{start:020d}.{end:020d}.compacted.json"


def checksum_path(version: int) -> str:
    """``_delta_log/00000000000000000007.crc`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def checkpoint_path(version: int) -> str:
    """``_delta_log/00000000000000000007.checkpoint.parquet`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def checkpoint_part_path(version: int, part: int, parts: int) -> str:
    """``_delta_log/00000000000000000007.checkpoint.0000000001.0000000003.parquet`` for the first of three parts."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2_checkpoint_path(version: int, uuid: str, suffix: Literal["json", "parquet"]) -> str:
    """``_delta_log/00000000000000000007.checkpoint.<uuid>.json`` for version 7."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{uuid}.{suffix}"


def sidecar_path(name: str) -> str:
    """``_delta_log/_sidecars/<name>``: the path of a sidecar."""
    return f"{SIDECAR_DIRECTORY}/{name}"


def referenced_sidecar(path: str) -> str:
    """The path of a sidecar that a checkpoint references as ``path``: a bare name, percent-encoded, or a whole URI.

    Sidecars always lie in their own table's directory. So only the last part of a URI counts, which still holds after a table
    was moved.

    Raises:
        ValueError: The path does not end in a name.
    """
    name = unquote(path.rpartition("/")[2])
    if not name or "/" in name or name in (".", ".."):
        raise ValueError(f"{path!r} is not the path of a sidecar")
    return sidecar_path(name)
