"""Where watching a table begins."""

from __future__ import annotations

from typing import Literal

Start = Literal["latest", "earliest"] | int
"""``latest``: after the version of the first poll; ``earliest``: with all commits in the log; a number: with that version."""
