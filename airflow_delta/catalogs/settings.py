"""The settings of a catalog, from a connection, the command line or a job's environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.core.foreign_values import json_value
from airflow_delta.core.log.managed_commits import Maintenance

if TYPE_CHECKING:
    from airflow_delta.catalogs.catalog import Catalog
    from airflow_delta.catalogs.unity import UnityCatalog

VARIABLE = "AIRFLOW_DELTA_CATALOG"
"""The environment variable with the catalog of scripts, jobs and the command line: a type or a JSON object."""

_WORD = re.compile(r"[a-z_]{1,30}")
_NOT_OF_USERS = {"type", "credentials", "principal"}
_SECRET_WORDS = {"conn_id", "token", "password", "login"}
_OF_SECRETS = (
    "a delta connection names the connection with the token in conn_id, --catalog and the variable "
    f'{VARIABLE} have it as "credentials": {{"token": "..."}}'
)
TYPES = ("glue", "hive", "unity", "spark")
_MAINTENANCE = {work.name.lower(): work for work in Maintenance}
_PACKAGES = {"glue": "boto3", "hive": "pymetastore", "unity": "urllib3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """The type of a catalog, and how to reach it.

    Attributes:
        type: ``glue``, ``hive``, ``unity``, or ``spark``: the catalog of the job's own session, which only jobs and scripts can
            reach.
        uri: ``thrift://host:9083`` of a Hive metastore, ``https://host`` of Unity Catalog.
        name: For Unity, the catalog of names with two parts; for Glue, the catalog id (the AWS account).
        region: AWS region of Glue.
        endpoint_url: URL of another endpoint for Glue.
        principal: Owner of the credentials, for errors.
        permits: The maintenance of managed tables that the catalog leaves to its clients: ``vacuum``, ``log_cleanup``,
            ``data_layout``.
        vends_credentials: Whether the storage of managed tables is accessed with temporary credentials from the catalog.
        credentials: AWS keys by boto3's names, or ``token``. Secrets: not shown, and not in ``to_json``.
    """

    type: str
    uri: str | None = None
    name: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    principal: str | None = None
    permits: tuple[str, ...] = ()
    vends_credentials: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise InvalidCatalogError(detail=f"expected the type {', '.join(TYPES)}, found {str(self.type)[:100]!r}")
        if self.uri is None and self.type in {"hive", "unity"}:
            example = "thrift://host:9083" if self.type == "hive" else "https://host"
            raise InvalidCatalogError(detail=f"{self.type} needs uri, such as {example}")
        if unknown := sorted(set(self.permits) - _MAINTENANCE.keys()):
            detail = f"expected of permits some of {', '.join(_MAINTENANCE)}, found {', '.join(unknown)[:100]!r}"
            raise InvalidCatalogError(detail=detail)

    @property
    def maintenance(self) -> frozenset[Maintenance]:
        """The kinds of maintenance in ``permits``."""
        return frozenset(map(_MAINTENANCE.__getitem__, self.permits))

    @property
    def is_of_session(self) -> bool:
        """Whether it is the catalog of a Spark session, which is opened through the session."""
        return self.type == "spark"

    @classmethod
    def parse(cls, value: Any) -> CatalogSettings:
        """Settings from a type as a string, a JSON object, or a JSON object as text.

        Raises:
            InvalidCatalogError: A member is unknown, or has a wrong type or value.
        """
        document = cls.document(value)
        known = {member.name for member in fields(cls)}
        if "type" not in document or not document.keys() <= known:
            raise InvalidCatalogError(detail=_of_members(document.keys() - known, known))
        credentials, permits = document.get("credentials", {}), document.get("permits") or []
        vends = document.get("vends_credentials", False)
        others = {"credentials", "permits", "vends_credentials"}
        texts = [text for key, text in document.items() if key not in others and text is not None]
        if not isinstance(vends, bool):
            raise InvalidCatalogError(detail=f"expected vends_credentials to be true or false, found {str(vends)[:20]!r}")
        if not isinstance(credentials, Mapping) or not isinstance(permits, list | tuple):
            raise InvalidCatalogError(detail="expected credentials as an object, and permits as a list")
        if not all(isinstance(text, str) for text in [*texts, *permits, *credentials.values()]):
            raise InvalidCatalogError(detail="expected texts as values")
        return cls(**{**document, "permits": tuple(permits)})

    @staticmethod
    def document(value: Any) -> dict[str, Any]:
        """The JSON object for a type as a string, an object, or an object as text. Raises ``InvalidCatalogError``."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        document = {"type": value} if isinstance(value, str) else value
        if not isinstance(document, Mapping):
            raise InvalidCatalogError(detail='expected a type, or a JSON object such as {"type": "glue"}')
        return dict(document)

    def to_json(self) -> dict[str, Any]:
        """The settings without credentials."""
        members = {member.name: json_value(getattr(self, member.name)) for member in fields(self)}
        return {name: value for name, value in members.items() if value and name != "credentials"}

    def to_environment(self) -> dict[str, str]:
        """The environment variable that gives a process this catalog, with credentials: never show or send it."""
        return {VARIABLE: json.dumps({**self.to_json(), "credentials": dict(self.credentials)})}


def _of_members(unknown: Iterable[Any], known: Iterable[str]) -> str:
    """Error detail for unknown members; only names that are plain words are shown, as others may be secrets."""
    expected = f"expected a type, or an object with type and some of {', '.join(sorted({*known} - _NOT_OF_USERS))}"
    words = sorted(name for name in unknown if isinstance(name, str) and _WORD.fullmatch(name))
    hint = f"; {_OF_SECRETS}" if _SECRET_WORDS.intersection(words) else ""
    return f"{expected}; found {', '.join(words)}{hint}" if words else expected


def catalog_secrets() -> set[str]:
    """The secrets of the environment's catalog, for removing them from texts."""
    try:
        settings = settings_of_environment()
    except InvalidCatalogError:
        return set()
    return set() if settings is None else set(filter(None, settings.credentials.values()))


def settings_of_environment() -> CatalogSettings | None:
    """The catalog that the environment names; None without one. Raises ``InvalidCatalogError``."""
    value = os.environ.get(VARIABLE)
    return CatalogSettings.parse(value) if value else None


def open_catalog(settings: CatalogSettings) -> Catalog:
    """Open a catalog, without sending a request yet.

    Raises:
        InvalidCatalogError: A setting is invalid, the catalog's package is missing, or the catalog is a session's.
    """
    if settings.is_of_session:
        detail = "the names of the catalog spark are those of a Spark session: only jobs and scripts know them"
        raise InvalidCatalogError(detail=f"{detail}, not this process; name the catalog behind it here, such as hive")
    try:
        return _opened(settings)
    except ImportError:
        package = _PACKAGES[settings.type]
        detail = f"{settings.type} needs the package {package}: pip install 'airflow-delta[{settings.type}]'"
        raise InvalidCatalogError(detail=detail) from None


# Imported late: each catalog needs its own package.
def _opened(settings: CatalogSettings) -> Catalog:
    match settings.type:
        case "glue":
            from airflow_delta.catalogs.glue import GlueCatalog

            return GlueCatalog(
                region=settings.region,
                catalog_id=settings.name,
                endpoint_url=settings.endpoint_url,
                credentials=settings.credentials,
            )
        case "hive":
            from airflow_delta.catalogs.hive import HiveCatalog

            return HiveCatalog(settings.uri or "")
        case _:
            return open_unity(settings)


def open_unity(settings: CatalogSettings) -> UnityCatalog:
    """The Unity Catalog of these settings. Raises ``ImportError`` without its package."""
    from airflow_delta.catalogs.unity import UnityCatalog

    return UnityCatalog(
        settings.uri or "", token=settings.credentials.get("token"), catalog=settings.name, principal=settings.principal
    )
