"""The ``--py-files`` archive: the packages that run on Spark, and the pure-Python packages they need."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from airflow_delta.core.vendored import VENDOR_FOLDER, VENDORED_PACKAGES

SHIPPED_PACKAGES = ("core", "catalogs", "spark", "jobs")
"""The packages of ``airflow_delta`` that a Spark driver and its Python workers need."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


Member = tuple[str, Path]
"""The name of a file in an archive, and the file."""


@cache
def archive_name() -> str:
    """The file name of this installation's archive, with a hash of its content: the same on all machines with the same code."""
    return f"airflow-delta-{content_digest(code_files())}.zip"


def build_archive(directory: Path) -> Path:
    """Write the archive into a directory and return its path.

    Args:
        directory: Only this user must be able to write there: replacing the file means running code on the cluster.
    """
    return write_archive(directory / archive_name(), code_files())


def content_digest(members: Iterable[Member]) -> str:
    """A hash of names and contents, the same on every machine."""
    digest = hashlib.sha256()
    for name, path in sorted(members):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def write_archive(path: Path, members: Iterable[Member]) -> Path:
    """Write a zip file and return its path.

    The same members give the same bytes (with the same version of zlib), whatever the machine and the time.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(members):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    return path


def code_files() -> Iterator[Member]:
    """The code that runs on Spark and, below ``VENDOR_FOLDER``, the pure-Python packages that it needs."""
    package = _package_folder("airflow_delta")
    yield "airflow_delta/__init__.py", package / "__init__.py"
    for name in SHIPPED_PACKAGES:
        yield from _modules(package / name, f"airflow_delta/{name}")
    for vendored in VENDORED_PACKAGES:
        yield from _modules(_package_folder(vendored), f"{VENDOR_FOLDER}/{vendored}")


def _modules(folder: Path, prefix: str) -> Iterator[Member]:
    for path in folder.rglob("*.py"):
        below = path.relative_to(folder)
        if below.parts[0] != "tests":
            yield f"{prefix}/{below.as_posix()}", path


def _package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed, so it cannot be shipped to Spark")
    return Path(spec.origin).parent
