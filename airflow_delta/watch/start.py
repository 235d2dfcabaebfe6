"""Where watching a table begins."""

from __future__ import annotations

from typing import Literal

Start = Literal["latest", "earliest"] | int
"""After the version of the first poll, with all that the log holds, or with a version."""
