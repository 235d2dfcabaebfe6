"""What a commit does, in the words of the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation as every history shows it.

    Attributes:
        name: Delta's name, such as ``MERGE``.
        parameters: Delta's parameter names; JSON values. None is left out.
        changes_data: Whether operations of this kind change rows, even when this one did not. Others commit at
            ``SnapshotIsolation``, so that concurrent appends are no conflict.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    changes_data: bool = True

    def logged_parameters(self) -> dict[str, Any]:
        """The parameters as Delta writes them: single values as they are, lists and objects as JSON text."""
        return {name: _logged(value) for name, value in self.parameters.items() if value is not None}


def _logged(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, separators=(",", ":"))
