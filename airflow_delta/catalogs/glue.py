"""The AWS Glue Data Catalog, through boto3."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from airflow_delta.catalogs.entry import CatalogEntry, TableDescription
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.spark_form import PATH, entry_of, parameters_of
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.foreign_values import text_members

# As in Delta tables that Athena creates; no engine reads a Delta table by these.
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_INPUT = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"

_DENIED = re.compile(r"User: (?P<principal>\S+) is not authorized to perform: (?P<privilege>[\w:]+)")
_LAKE_FORMATION = re.compile(r"Required (?P<privilege>[\w ]+?) on")
_DENIALS = {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"}
_PASSING = {
    "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException", "InternalServiceException",
    "OperationTimeoutException", "ConcurrentModificationException", "ResourceNotReadyException",
}  # fmt: skip
_SERVER_ERRORS = 500
_TABLE_INPUT = {
    "Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys",
    "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable",
}  # fmt: skip
_LONGEST_COMMENT, _LONGEST_DESCRIPTION, _LONGEST_NAME, _LONGEST_TYPE = 255, 2_048, 255, 131_072
_NO_TYPES = re.compile(r"void|variant|geo|interval|\{")
_NO_LINE = re.compile(r"[\x00-\x08\x0a-\x1f\ufffe\uffff]+")
"""Characters that Glue refuses in the name, type or comment of a column (``CommentString``, ``NameString``)."""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+")
"""Characters that Glue refuses in a description (``DescriptionString``)."""
_NAMES = ("awsdatacatalog", "glue_catalog", "spark_catalog")
"""What Athena, EMR and Spark call the Glue catalog."""
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "profile_name")
_Answer = TypeVar("_Answer")


class GlueCatalog:
    """Glue as a catalog. Without ``credentials``, boto3 uses the identity of the machine.

    Args:
        region: AWS region of the catalog; None for the environment's region.
        catalog_id: The AWS account of the catalog; None for the account of the credentials.
        endpoint_url: URL of another endpoint for Glue.
        credentials: ``aws_access_key_id``, ``aws_secret_access_key``, ``aws_session_token``, or ``profile_name``.
    """

    label = "glue"

    def __init__(
        self,
        *,
        region: str | None = None,
        catalog_id: str | None = None,
        endpoint_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self._scope = {"CatalogId": catalog_id} if catalog_id else {}
        self._names = (*_NAMES, *self._scope.values())
        config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": 5})
        given = credentials or {}
        if not set(given) <= set(_CREDENTIALS):  # not shown: the names may be secrets
            raise InvalidCatalogError(detail=f"expected of credentials some of {', '.join(_CREDENTIALS)}, found others")
        try:
            self._client = boto3.Session(**given, region_name=region).client("glue", endpoint_url=endpoint_url, config=config)
        except (BotoCoreError, ValueError) as error:
            raise InvalidCatalogError(detail=f"{error}; Glue needs a region, such as eu-west-1") from None

    def find(self, name: TableName) -> CatalogEntry | None:
        """Glue's entry for a name."""
        table = self._table(name)
        if table is None:
            return None
        storage = _object(table, "StorageDescriptor")
        path = text_members(_object(_object(storage, "SerdeInfo"), "Parameters")).get(PATH)
        location = path or text_members(storage).get("Location") or ""
        said = text_members(table)
        parameters = text_members(_object(table, "Parameters"))
        return entry_of(name, location, parameters, kind=said.get("TableType"), comment=said.get("Description"))

    def default_location(self, name: TableName) -> str | None:
        """A folder below the database's location."""
        found = self._request(name, "glue:GetDatabase", lambda: self._client.get_database(**self._scope, Name=name.schema))
        if found is None:
            raise TableNameNotFoundError.without_schema(self.label, str(name), name.schema)
        root = text_members(self._member(name, found, "Database")).get("LocationUri")
        return f"{root.rstrip('/')}/{name.table}" if root else None

    def create(self, name: TableName, table: TableDescription) -> None:
        """Create the table in Glue."""
        given = {"Name": name.table.lower(), "TableType": "EXTERNAL_TABLE", **_described(table, {})}
        try:
            done = self._request(
                name,
                "glue:CreateTable",
                lambda: self._client.create_table(**self._scope, DatabaseName=name.schema, TableInput=given),
            )
        except self._client.exceptions.AlreadyExistsException:
            taken = self.find(name)
            raise TableNameTakenError(
                catalog=self.label, name=str(name), table=table.location, location=taken.location if taken else "unknown"
            ) from None
        if done is None:
            raise TableNameNotFoundError.without_schema(self.label, str(name), name.schema)

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Update the table in Glue. Its earlier version is not archived, because Glue only keeps a limited number."""
        name, found = entry.name, self._table(entry.name)
        given = {key: value for key, value in (found or {}).items() if key in _TABLE_INPUT}
        given |= _described(table, text_members(_object(given, "Parameters")))
        done = found and self._request(
            name,
            "glue:UpdateTable",
            lambda: self._client.update_table(
                **self._scope,
                DatabaseName=name.schema,
                TableInput=given,
                SkipArchive=True,
                **({"VersionId": found["VersionId"]} if found.get("VersionId") else {}),
            ),
        )
        if done is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="it was dropped meanwhile")

    def drop(self, name: TableName) -> bool:
        """Remove the table from Glue; its files stay."""
        done = self._request(
            name,
            "glue:DeleteTable",
            lambda: self._client.delete_table(**self._scope, DatabaseName=name.schema, Name=name.table),
        )
        return done is not None

    def _table(self, name: TableName) -> Mapping[str, Any] | None:
        found = self._request(
            name, "glue:GetTable", lambda: self._client.get_table(**self._scope, DatabaseName=name.schema, Name=name.table)
        )
        return None if found is None else self._member(name, found, "Table")

    def _member(self, name: TableName, answer: Any, member: str) -> Mapping[str, Any]:
        """A member of an answer, which may be missing, as in the page of a proxy."""
        found = answer.get(member) if isinstance(answer, Mapping) else None
        if not isinstance(found, Mapping):
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=f"its answer has no {member}")
        return found

    def _request(self, name: TableName, privilege: str, send: Callable[[], _Answer]) -> _Answer | None:
        """The answer; None for an entity that does not exist. ``AlreadyExistsException`` is left to the caller."""
        name.check_in(*self._names)
        try:
            return send()
        except self._client.exceptions.EntityNotFoundException:
            return None
        except self._client.exceptions.AlreadyExistsException:
            raise
        except ClientError as error:
            code, detail = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")[:1_000]
            if code in _DENIALS:
                said, lake = _DENIED.search(detail), _LAKE_FORMATION.search(detail)
                raise CatalogAccessDeniedError(
                    catalog=self.label,
                    table=str(name),
                    principal=said["principal"] if said else "the AWS identity of this process",
                    privilege=said["privilege"] if said else lake["privilege"] if lake else privilege,
                    detail=detail or code,
                ) from None
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            kind = CatalogUnavailableError if code in _PASSING or status >= _SERVER_ERRORS else CatalogRequestError
            raise kind(catalog=self.label, name=str(name), detail=f"{code}: {detail}") from None
        except (NoCredentialsError, PartialCredentialsError) as error:
            principal = "a process without credentials"
            raise CatalogAccessDeniedError(
                catalog=self.label, table=str(name), principal=principal, privilege=privilege, detail=str(error)[:1_000]
            ) from None
        except BotoCoreError as error:
            raise CatalogUnavailableError(catalog=self.label, name=str(name), detail=str(error)[:1_000]) from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # boto3 parses any answer as one of Glue
            detail = f"its answer cannot be read: {type(error).__name__}"
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=detail) from None


def _object(document: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    found = document.get(member)
    return found if isinstance(found, Mapping) else {}


def _described(table: TableDescription, existing: Mapping[str, str]) -> dict[str, Any]:
    """The table as Glue's ``TableInput``, with columns and comments for Athena, Lake Formation and the console."""
    comments = [_NO_LINE.sub(" ", str(member.metadata.get("comment") or "")) for member in table.schema.fields]
    columns = [
        {"Name": member.name, "Type": str(member.type), "Comment": comment[:_LONGEST_COMMENT]}
        for member, comment in zip(table.schema.fields, comments, strict=True)
    ]
    fits = not any(
        len(column["Name"]) > _LONGEST_NAME
        or len(column["Type"]) > _LONGEST_TYPE
        or _NO_TYPES.search(column["Type"])
        or _NO_LINE.search(column["Name"] + column["Type"])
        for column in columns
    )
    return {
        "Description": _NO_TEXT.sub(" ", table.comment or "")[:_LONGEST_DESCRIPTION],
        "Parameters": {**parameters_of(table, existing), "table_type": "DELTA"},
        "PartitionKeys": [],  # else engines would ask Glue for the partitions, which are in the log
        "StorageDescriptor": {
            "Columns": columns if fits else [{"Name": "col", "Type": "array<string>"}],
            "Location": table.location_uri,
            "InputFormat": _INPUT,
            "OutputFormat": _OUTPUT,
            "SerdeInfo": {
                "SerializationLibrary": _SERDE,
                "Parameters": {PATH: table.location_uri, "serialization.format": "1"},
            },
        },
    }
