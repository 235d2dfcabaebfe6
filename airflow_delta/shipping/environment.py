"""The packages that the executors' Python needs, as an archive for ``spark.archives``.

It is not a virtual environment, which links to one Python by absolute paths, but a folder for ``PYTHONPATH``, made by ``pip
install --target``: it can lie anywhere, and any Python of its minor version can use it.
"""

from __future__ import annotations

import platform as machine
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.table_uri import local_path, scheme_of
from airflow_delta.shipping.archive import Member, code_files, content_digest, write_archive
from airflow_delta.shipping.errors import PipMissingError, WheelsNotFoundError
from airflow_delta.shipping.ship import check_destination, upload

PACKAGES = ("pyarrow", "pandas")
"""Packages that executors need in addition to this package's code, which includes the pure-Python ones."""

EXTRAS = {"s3": ("s3fs",), "gcs": ("gcsfs",), "azure": ("adlfs", "azure-storage-blob")}
"""Packages by extra, for the extras that Spark uses: with them, a driver on the cluster reads the log."""

FOLDER = "airflow-delta"
"""Folder below an executor's working directory into which the archive is unpacked."""

_PROGRAMS = frozenset({"bin", "Scripts"})  # the first lines of scripts name pip's Python
_LEFT_OUT = frozenset({"tests", "include", "RECORD"})  # below each package: a tenth of the archive; RECORD lists programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What to pack and for which Python; package versions are those installed here.

    Attributes:
        extras: Keys of ``EXTRAS``.
        packages: Names of further packages, for users' Python functions.
        python: Minor version of the executors' Python, such as ``3.11``.
        platforms: Platforms of the executors, as in the names of wheels, such as ``manylinux_2_28_x86_64``; empty for this
            machine's platform.

    Raises:
        InvalidStatementError: An extra does not exist, a package is not installed, or the version or a platform is malformed.
    """

    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    platforms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for extra in self.extras:
            if extra not in EXTRAS:
                raise InvalidStatementError(statement=f"the extra {extra!r}", detail=f"expected one of {', '.join(EXTRAS)}")
        if not re.fullmatch(r"3\.\d+", self.python):
            raise InvalidStatementError(
                statement=f"the Python {self.python!r}", detail="expected a minor version, such as 3.11"
            )
        for name in self.platforms:
            if not re.fullmatch(r"\w+", name):
                detail = "expected the name of a platform as in wheels, such as manylinux_2_28_x86_64"
                raise InvalidStatementError(statement=f"the platform {name!r}", detail=detail)
        self.requirements()

    def requirements(self) -> list[str]:
        """The packages with their versions; pip adds their dependencies."""
        names = {*PACKAGES, *(name for extra in self.extras for name in EXTRAS[extra]), *self.packages}
        return [f"{name}=={_installed(name)}" for name in sorted(names)]

    @property
    def platform(self) -> str:
        """The platforms as one name."""
        return ".".join(self.platforms) or f"{sys.platform}_{machine.machine()}"


def pack(
    destination: str, environment: Environment, storage_options: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, str]]:
    """Upload the archive to a folder on any filesystem that fsspec supports, unless it is already there.

    Args:
        destination: URI of the folder. Write access to it means running code on the cluster.
        environment: What to pack.
        storage_options: Options of the fsspec filesystem.

    Returns:
        The archive's URI, and the Spark settings that make executors use it.

    Raises:
        InvalidStatementError: Spark does not support the URI's scheme, or would split the URI.
        PipMissingError: This Python has no pip.
        WheelsNotFoundError: Pip did not find the packages.
        UnsupportedStorageError: There is no filesystem for the URI, or its package is missing.
        StorageAccessError: The storage denied access, or the bucket does not exist.
        StorageUnavailableError: The storage did not answer.
    """
    if scheme_of(destination) == "az":
        detail = "Spark knows no az://; name the folder as abfss://container@account.dfs.core.windows.net/..."
        raise InvalidStatementError(statement=f"the folder {destination!r:.200}", detail=detail)
    check_destination(destination)
    with TemporaryDirectory(prefix="airflow-delta-") as private:
        archive = build_environment(Path(private), environment)
        [uri] = upload(destination, {archive.name: archive}, storage_options)
    return uri, settings(uri)


def build_environment(directory: Path, environment: Environment) -> Path:
    """Write the archive into a directory and return its path; the same content has the same name.

    Args:
        directory: Only this user must be able to write there: replacing a file means running code on the cluster.
        environment: What to pack.

    Raises:
        PipMissingError: This Python has no pip.
        WheelsNotFoundError: Pip did not find the packages.
    """
    packages = directory / "packages"
    _install(packages, directory / "constraints.txt", environment)
    members = [*code_files(), *_installed_files(packages)]
    name = f"airflow-delta-python-{environment.python}-{environment.platform}-{content_digest(members)}.zip"
    return write_archive(directory / name, members)


def settings(uri: str) -> dict[str, str]:
    """The settings that make executors unpack the archive and import from it, for ``conf``.

    Args:
        uri: URI of the archive, with the scheme of fsspec or Hadoop.
    """
    match scheme_of(uri):
        case "file":
            archive = str(local_path(uri))
        case "s3":
            archive = f"s3a{uri[2:]}"
        case "gcs":
            archive = f"gs{uri[3:]}"
        case _:
            archive = uri
    return {"spark.archives": f"{archive}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}


def _install(target: Path, constraints: Path, environment: Environment) -> None:
    if find_spec("pip") is None:
        raise PipMissingError(executable=sys.executable)
    # Constrains dependencies to the versions installed here, so that they are the same on executors and in the next archive.
    requirements = environment.requirements()
    constraints.write_text("\n".join(sorted({*_pins()}.difference(requirements))))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-compile", "--only-binary=:all:", "--target", str(target), "--constraint", str(constraints)]
    command += ["--implementation", "cp", "--python-version", environment.python]
    command += [option for name in environment.platforms for option in ("--platform", name)]
    done = subprocess.run(  # noqa: S603 - names are checked
        [*command, *requirements], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        said = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise WheelsNotFoundError(
            packages=tuple(requirements),
            python=environment.python,
            platform=environment.platform,
            detail=" ".join(said) or done.stderr[-1_000:].strip(),
        )


def _pins() -> Iterator[str]:
    """Each installed package with its version, once: if two folders on the path have it, Python imports from the first."""
    seen: set[str] = set()
    for package in distributions():
        name = re.sub(r"[-_.]+", "-", package.name or "").lower()  # None if its files are damaged
        if name and name not in seen:
            seen.add(name)
            yield f"{package.name}=={package.version}"


def _installed_files(folder: Path) -> Iterator[Member]:
    for path in folder.rglob("*"):
        first, *others = path.relative_to(folder).parts
        if path.is_file() and first not in _PROGRAMS and not _LEFT_OUT.intersection(others[:1]):
            yield "/".join((first, *others)), path


def _installed(name: str) -> str:
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):  # ValueError: a blank name
        detail = "expected an installed one, so that driver and executors have the same version; pip install it here first"
        raise InvalidStatementError(statement=f"the package {name!r}", detail=detail) from None
