"""The ``--py-files`` archive: the packages that run on Spark, and the pure-Python packages they need."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from airflow_delta.core.vendored import VENDOR_FOLDER, VENDORED_PACKAGES

SHIPPED_PACKAGES = ("core", "spark", "jobs")
"""What a Spark driver and its workers need of ``airflow_delta``."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def archive_name() -> str:
    """The file name of this installation's archive, which names its content: equal sources have equal names anywhere."""
    digest = hashlib.sha256()
    for name, path in sorted(_members()):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return f"airflow-delta-{digest.hexdigest()[:16]}.zip"


def build_archive(directory: Path) -> Path:
    """Write the archive into a directory and return its path.

    Equal sources give equal bytes (by one version of zlib) and an equal name, whatever the machine and the time.

    Args:
        directory: Must belong to this user alone: who can replace the file runs code on the cluster.
    """
    path = directory / archive_name()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_members()):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    return path


def _members() -> Iterator[tuple[str, Path]]:
    package = _package_folder("airflow_delta")
    yield "airflow_delta/__init__.py", package / "__init__.py"
    for name in SHIPPED_PACKAGES:
        yield from _modules(package / name, f"airflow_delta/{name}")
    for vendored in VENDORED_PACKAGES:
        yield from _modules(_package_folder(vendored), f"{VENDOR_FOLDER}/{vendored}")


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*.py"):
        below = path.relative_to(folder)
        if below.parts[0] != "tests":
            yield f"{prefix}/{below.as_posix()}", path


def _package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed, so it cannot be shipped to Spark")
    return Path(spec.origin).parent
