"""Which catalog, as a connection, the command line or a job's environment says it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_delta.catalogs.catalog import Catalog
from airflow_delta.catalogs.errors import InvalidCatalogError

VARIABLE = "AIRFLOW_DELTA_CATALOG"
"""The variable of the environment that names a catalog for scripts and the command line: a type or a JSON object."""

TYPES = ("glue", "hive", "unity")
_PACKAGES = {"glue": "boto3", "hive": "pymetastore", "unity": "urllib3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """A catalog, and how it is reached.

    Attributes:
        type: ``glue``, ``hive`` or ``unity``.
        uri: ``thrift://host:9083`` of a Hive metastore, ``https://host`` of Unity Catalog.
        name: The catalog of names with two parts (Unity), or the account (Glue: its catalog id).
        region: Of Glue.
        endpoint_url: Another endpoint of Glue.
        principal: Whose credentials they are, for errors.
        credentials: Keys of AWS as boto3 names them, or ``token``. Secrets: never shown, and in no document.
    """

    type: str
    uri: str | None = None
    name: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    principal: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise InvalidCatalogError(detail=f"expected the type {', '.join(TYPES)}, found {str(self.type)[:100]!r}")
        if self.uri is None and self.type != "glue":
            example = "thrift://host:9083" if self.type == "hive" else "https://host"
            raise InvalidCatalogError(detail=f"{self.type} needs uri, such as {example}")

    @classmethod
    def parse(cls, value: Any) -> CatalogSettings:
        """Settings from a type alone, a JSON object, or its text.

        Raises:
            InvalidCatalogError: A member is unknown, or is no text.
        """
        document = cls.document(value)
        known = {member.name for member in fields(cls)}
        if "type" not in document or not document.keys() <= known:  # never shown: it may hold a secret
            raise InvalidCatalogError(detail=f"expected a type, or an object with some of {', '.join(sorted(known))}")
        credentials = document.get("credentials", {})
        texts = [text for key, text in document.items() if key != "credentials" and text is not None]
        if not isinstance(credentials, Mapping) or not all(isinstance(text, str) for text in [*texts, *credentials.values()]):
            raise InvalidCatalogError(detail="expected texts as values")
        return cls(**document)

    @staticmethod
    def document(value: Any) -> dict[str, Any]:
        """The JSON object that a type alone, an object or its text stands for. Raises ``InvalidCatalogError``."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        document = {"type": value} if isinstance(value, str) else value
        if not isinstance(document, Mapping):
            raise InvalidCatalogError(detail='expected a type, or a JSON object such as {"type": "glue"}')
        return dict(document)

    def to_json(self) -> dict[str, str]:
        """The settings without credentials."""
        members = {member.name: getattr(self, member.name) for member in fields(self) if member.name != "credentials"}
        return {name: value for name, value in members.items() if value is not None}


def settings_of_environment() -> CatalogSettings | None:
    """The catalog that the environment names; None for none. Raises ``InvalidCatalogError``."""
    value = os.environ.get(VARIABLE)
    return CatalogSettings.parse(value) if value else None


def open_catalog(settings: CatalogSettings) -> Catalog:
    """The catalog; no request is sent yet.

    Raises:
        InvalidCatalogError: A setting is wrong, or the package that the catalog needs is missing.
    """
    try:
        return _opened(settings)
    except ImportError:
        package = _PACKAGES[settings.type]
        detail = f"{settings.type} needs the package {package}: pip install 'airflow-delta[{settings.type}]'"
        raise InvalidCatalogError(detail=detail) from None


# A catalog's package is only loaded by those who use it.
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
            from airflow_delta.catalogs.unity import UnityCatalog

            return UnityCatalog(
                settings.uri or "",
                token=settings.credentials.get("token"),
                catalog=settings.name,
                principal=settings.principal,
            )
