"""The pure-Python packages that are shipped to Spark in one archive with the core."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

VENDORED_PACKAGES = ("fsspec", "sqlglot")
"""What the core imports besides pyarrow. pyarrow is native code and cannot be shipped this way: the cluster must provide it."""

VENDOR_FOLDER = "vendor"
"""Not the archive's root: there the packages would take precedence over those installed on the cluster."""


def make_importable() -> None:
    """Where one of the packages is missing, append the archive's ``vendor`` folder to ``sys.path``, after everything else."""
    if any(find_spec(package) is None for package in VENDORED_PACKAGES):
        sys.path.append(str(Path(__file__).parents[2] / VENDOR_FOLDER))
