"""Paths of the job scripts."""

from __future__ import annotations

import hashlib
from pathlib import Path


def job_script(name: str) -> Path:
    """The path of ``delta_<name>.py``: inside the package when it was installed, beside it in a checkout."""
    return _folder() / f"delta_{name}.py"


def job_scripts() -> list[Path]:
    """The paths of all scripts."""
    return sorted(_folder().glob("delta_*.py"))


def shipped_name(script: Path) -> str:
    """The file name under which a script is shipped; it contains a hash of the content."""
    return f"{script.stem}-{hashlib.sha256(script.read_bytes()).hexdigest()[:16]}.py"


def _folder() -> Path:
    package = Path(__file__).parents[1]
    installed = package / "_spark_jobs"
    return installed if installed.exists() else package.parent / "spark_jobs"
