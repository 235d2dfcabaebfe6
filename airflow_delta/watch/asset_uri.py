"""The URI of a table's asset: the same for all spellings, without credentials."""

from __future__ import annotations

from urllib.parse import quote, unquote

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.table_uri import local_path, scheme_of

NAME_SCHEME = "delta-table"
"""URI scheme of the asset of a table that is given by its name in a catalog."""

_SCHEMES = {ObjectService.S3: "s3", ObjectService.GCS: "gs", ObjectService.AZURE: "abfss"}


def sanitize_uri(table: str) -> str:
    """The normalized URI of a table, so that all spellings of its URI give the same asset.

    ``s3a://`` and ``s3n://`` become ``s3://``, ``gcs://`` becomes ``gs://``, ``abfs://container@account...`` becomes
    ``abfss://``, ``hdfs:///x`` becomes ``hdfs:/x``, and a local path becomes ``file://`` with an absolute path. Query, fragment
    and slashes at the end are dropped.

    Raises:
        InvalidStatementError: The URI holds credentials, or names no bucket.
    """
    scheme = scheme_of(table)
    if scheme == "file":
        return f"file://{local_path(table)}"
    bare = table.partition("?")[0].partition("#")[0]
    location = ObjectLocation.from_uri(bare)
    if location is None:
        rest = bare[len(scheme) + 1 :].rstrip("/")
        return f"{scheme}:{rest.removeprefix('//') if rest.startswith('///') else rest}"  # as Airflow writes it
    container = f"{location.container}@{location.host}" if location.host else location.container
    scheme = _SCHEMES[location.service] if location.service is not ObjectService.AZURE or location.host else scheme
    return f"{scheme}://{container}/{location.key}"


def named_uri(name: TableName, delta_conn_id: str) -> str:
    """The URI of a name's asset: ``delta-table://connection/schema/table``, in lower case, as catalogs compare names.

    Args:
        name: The table's name; if it includes the catalog, that precedes the schema.
        delta_conn_id: The connection whose catalog has the name.
    """
    parts = [part.lower() for part in (name.catalog, name.schema, name.table) if part is not None]
    return "/".join([f"{NAME_SCHEME}:/", *(quote(part, safe="") for part in (delta_conn_id, *parts))])


def name_of_asset(uri: str) -> tuple[str, TableName] | None:
    """The connection and the name in the URI of an asset; None if the URI is a table's location."""
    prefix = f"{NAME_SCHEME}://"
    if not uri.startswith(prefix):
        return None
    delta_conn_id, *catalog, schema, table = map(unquote, uri.removeprefix(prefix).split("/"))
    return delta_conn_id, TableName(table, schema, *catalog)
