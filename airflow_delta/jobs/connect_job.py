"""What an operator sends to the driver of a job over Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectJob:
    """The driver's input, as one line of JSON.

    Attributes:
        spec: The job's spec, as ``JobSpec.to_text`` writes it.
        archive: Path of the archive with this package, for the server's Python workers.
        settings: Spark settings of the session.
    """

    spec: str
    archive: str
    settings: Mapping[str, str]

    def to_text(self) -> str:
        """The job as one line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_text(cls, text: str) -> ConnectJob:
        """The job that ``to_text`` wrote."""
        return cls(**json.loads(text))
