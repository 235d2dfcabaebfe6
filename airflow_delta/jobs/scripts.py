"""Where the job scripts lie."""

from __future__ import annotations

from pathlib import Path


def job_script(name: str) -> Path:
    """The path of ``delta_<name>.py``: inside the package when it was installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_spark_jobs" / f"delta_{name}.py"
    return installed if installed.exists() else package.parent / "spark_jobs" / f"delta_{name}.py"
