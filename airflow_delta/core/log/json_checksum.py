"""The checksum of ``_last_checkpoint``, which the file itself contains.

Protocol: PROTOCOL.md, "JSON checksum".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

CHECKSUM = "checksum"
"""The member that holds the checksum; it is excluded from its own computation."""


_LONGEST = 16 << 20  # a deep leaf's path is far longer than the leaf itself


def json_checksum(document: Mapping[str, Any]) -> str:
    """MD5 of the document's canonical form, in hexadecimal; numbers must be integers. Raises as ``canonical_form``."""
    canonical = canonical_form({key: value for key, value in document.items() if key != CHECKSUM})
    return hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


def canonical_form(document: Mapping[str, Any]) -> str:
    """Every leaf with its path, in the byte order of the paths.

    Raises:
        ValueError: The paths take more than ``_LONGEST`` bytes.
    """
    leaves, length = [], 0
    for path, value in _leaves(document):
        leaves.append((path.encode(), value))
        length += len(leaves[-1][0])
        if length > _LONGEST:
            raise ValueError(f"the paths of its members take more than {_LONGEST} bytes")
    leaves.sort(key=lambda leaf: leaf[0])
    return ",".join(f"{path.decode()}={value}" for path, value in leaves)


def _leaves(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    open_values = [("", _members(document))]  # a loop, because nested generators would pass each leaf through every level
    while open_values:
        prefix, members = open_values[-1]
        for name, value in members:
            if isinstance(value, Mapping | list):
                open_values.append((f"{prefix}{name}+", _members(value)))
                break
            yield prefix + name, _quoted(value) if isinstance(value, str) else json.dumps(value)
        else:
            open_values.pop()


def _members(value: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        return ((str(number), child) for number, child in enumerate(value))
    return ((_quoted(key), child) for key, child in value.items())


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="")}"'
