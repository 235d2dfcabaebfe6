"""The pure-Python packages that travel with the core in the archive for Spark."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

VENDORED_PACKAGES = ("fsspec", "sqlglot")
"""What the core imports beside pyarrow. pyarrow is native and cannot travel in an archive: the cluster must have it."""

VENDOR_FOLDER = "vendor"
"""Not at the archive's root: there it would go before what is installed on the cluster."""


def make_importable() -> None:
    """On drivers and workers that lack one of the packages, look into the archive too, after everything else."""
    if any(find_spec(package) is None for package in VENDORED_PACKAGES):
        sys.path.append(str(Path(__file__).parents[2] / VENDOR_FOLDER))
