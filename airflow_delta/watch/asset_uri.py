"""The URI of a table's asset: one for all spellings, without credentials. Pure."""

from __future__ import annotations

from urllib.parse import quote, unquote

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.storage.object_location import ObjectLocation, ObjectService
from airflow_delta.core.storage.table_uri import local_path, scheme_of

NAME_SCHEME = "delta-table"
"""Of the asset of a table that has a name in a catalog."""

_SCHEMES = {ObjectService.S3: "s3", ObjectService.GCS: "gs", ObjectService.AZURE: "abfss"}


def sanitize_uri(table: str) -> str:
    """The normalized URI of a table, so that all spellings of one table are one asset.

    ``s3a://`` and ``s3n://`` become ``s3://``, ``gcs://`` becomes ``gs://``, ``abfs://container@account...`` becomes ``abfss://``,
    ``hdfs:///x`` becomes ``hdfs:/x``, and a local path ``file://`` with an absolute one. Query, fragment and slashes at the end
    are dropped.

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
    """The URI of the asset of a name: ``delta-table://connection/schema/table``, in small letters, as catalogs compare names.

    Args:
        name: Of the table; where it names the catalog, that stands before the schema.
        delta_conn_id: The connection, whose catalog says which table it is.
    """
    parts = [part.lower() for part in (name.catalog, name.schema, name.table) if part is not None]
    return "/".join([f"{NAME_SCHEME}:/", *(quote(part, safe="") for part in (delta_conn_id, *parts))])


def name_of_asset(uri: str) -> tuple[str, TableName] | None:
    """The connection and the name that the URI of an asset was made of; None where it is the URI of a table's place."""
    prefix = f"{NAME_SCHEME}://"
    if not uri.startswith(prefix):
        return None
    delta_conn_id, *catalog, schema, table = map(unquote, uri.removeprefix(prefix).split("/"))
    return delta_conn_id, TableName(table, schema, *catalog)
