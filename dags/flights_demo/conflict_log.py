"""The log file that the example of conflict alerts writes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def log_conflict(context: dict[str, Any]) -> None:
    """Append a conflict to ``conflicts.jsonl`` below the run's root; in production, notify Slack or a pager instead."""
    root = Path(context["params"]["root"])
    line = json.dumps({"run_id": context["run_id"], **context["delta_conflict"]})
    with (root / "conflicts.jsonl").open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")
