"""A Hive metastore, through Thrift.

``pymetastore`` is pure Python and has the Thrift calls that Hive defines. Its own higher-level methods are not used, because
they fail for tables whose serde has no parameters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport import TTransport
from thrift.transport.TSocket import TSocket

from airflow_delta.catalogs.bounded_call import within
from airflow_delta.catalogs.entry import CatalogEntry, TableDescription
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    InvalidCatalogError,
    InvalidTableNameError,
    TableNameNotFoundError,
    TableNameTakenError,
)
from airflow_delta.catalogs.metastore_errors import is_denied, passes
from airflow_delta.catalogs.spark_form import PATH, PROVIDER, entry_of, parameters_of
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.server_uri import server_parts

logging.getLogger("thrift").addHandler(logging.NullHandler())  # what thrift logs as an error is also raised

_PORT, _MILLISECONDS = 9083, 60_000
_TAKEN = re.compile(r"\w+", re.ASCII)
"""Names of tables that a metastore accepts, quoted or not."""
# As Spark writes these for a table that Hive itself cannot read.
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_COLUMN = ("col", "array<string>", "from deserializer")

_DENIED = re.compile(
    r"user[ =:]+'?(?P<principal>[\w.@/-]+)'?,? "
    r"(?:.*?access=(?P<access>\w+)|does not have .*?privileges? (?:for )?(?P<privilege>[\w ]+))",
    re.IGNORECASE,
)
_NAMES = ("spark_catalog", "hive_metastore", "hive")
"""What Spark, Databricks and Trino call a Hive metastore."""
_Answer = TypeVar("_Answer")


class HiveCatalog:
    """A Hive metastore as a catalog; each request has its own connection.

    Args:
        uri: ``thrift://host:9083``; several URIs, separated by commas, are tried in order.
        timeout: Most seconds that a request may take in total.
    """

    label = "hive"

    def __init__(self, uri: str, *, timeout: float = 120.0) -> None:
        self._timeout = timeout
        self._addresses = [_address(text.strip()) for text in uri.split(",")]

    def find(self, name: TableName) -> CatalogEntry | None:
        """The metastore's entry for a name."""
        table = self._request(name, "SELECT", lambda client: client.get_table(name.schema, name.table))
        if table is None:
            return None
        storage, parameters = table.sd, dict(table.parameters or {})
        path = (storage.serdeInfo.parameters or {}).get(PATH) if storage and storage.serdeInfo else None
        # For Spark's own tables, the serde's path counts: the descriptor names a folder that does not exist.
        location = (path if PROVIDER in parameters else None) or (storage.location if storage else None) or path or ""
        return entry_of(name, location, parameters, kind=table.tableType)

    def default_location(self, name: TableName) -> str | None:
        """A folder below the database's location. Raises ``InvalidTableNameError`` for a name that a metastore refuses."""
        if not _TAKEN.fullmatch(name.table):
            raise self._invalid(name)
        database = self._request(name, "USAGE", lambda client: client.get_database(name.schema))
        if database is None:
            raise self._no_database(name)
        root = database.locationUri
        return f"{root.rstrip('/')}/{name.table.lower()}" if root else None

    def create(self, name: TableName, table: TableDescription) -> None:
        """Create the table in the metastore."""
        made = ttypes.Table(
            dbName=name.schema,
            tableName=name.table,
            owner="airflow-delta",
            tableType="EXTERNAL_TABLE",
            partitionKeys=[],
            parameters=parameters_of(table, {}),
            sd=_storage(table.location_uri),
        )
        try:
            self._request(name, "CREATE", lambda client: client.create_table(made) or made)
        except ttypes.AlreadyExistsException:
            taken = self.find(name)
            raise TableNameTakenError(
                catalog=self.label, name=str(name), table=table.location, location=taken.location if taken else "unknown"
            ) from None
        except ttypes.InvalidObjectException as error:
            raise self._invalid_object(name, str(error.message)[:1_000]) from None

    def update(self, entry: CatalogEntry, table: TableDescription) -> None:
        """Update the table in the metastore."""
        name = entry.name

        def alter(client: Any) -> Any:
            found = client.get_table(name.schema, name.table)
            found.parameters = parameters_of(table, found.parameters or {})
            found.sd = _storage(table.location_uri)
            client.alter_table(name.schema, name.table, found)
            return found

        if self._request(name, "ALTER", alter) is None:
            raise TableNameNotFoundError(catalog=self.label, name=str(name), detail="it was dropped meanwhile")

    def drop(self, name: TableName) -> bool:
        """Remove the table from the metastore; its files stay."""
        done = self._request(name, "DROP", lambda client: client.drop_table(name.schema, name.table, False) or True)
        return done is not None

    def _no_database(self, name: TableName) -> TableNameNotFoundError:
        return TableNameNotFoundError.without_schema(self.label, str(name), name.schema)

    def _invalid(self, name: TableName) -> InvalidTableNameError:
        detail = "a Hive metastore takes letters, digits and _ in a table's name, and nothing else"
        return InvalidTableNameError(name=str(name), detail=detail, cure="choose such a name, or name the table by its path")

    def _invalid_object(self, name: TableName, detail: str) -> DeltaError:
        """The error for a table that the metastore refuses to create."""
        if "not a valid object name" in detail:
            return self._invalid(name)
        if self._request(name, "USAGE", lambda client: client.get_database(name.schema)) is None:
            return self._no_database(name)
        return CatalogRequestError(catalog=self.label, name=str(name), detail=detail)

    def _request(self, name: TableName, privilege: str, send: Callable[[Any], _Answer]) -> _Answer | None:
        """The answer; None for an object that does not exist. ``AlreadyExistsException`` is left to the caller."""
        name.check_in(*_NAMES)
        transport = self._connected(name)
        client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        try:
            return within(self._timeout, lambda: send(client))
        except ttypes.NoSuchObjectException:
            return None
        except (ttypes.AlreadyExistsException, ttypes.InvalidObjectException):
            raise
        except (TTransport.TTransportException, OSError) as error:
            detail = str(error)[:1_000] or f"{type(error).__name__}: there was no whole answer in {self._timeout:g} seconds"
            raise CatalogUnavailableError(catalog=self.label, name=str(name), detail=detail) from None
        except UnicodeError as error:
            detail = f"a text in the request or the answer is not UTF-8: {error}"
            raise CatalogRequestError(catalog=self.label, name=str(name), detail=detail[:1_000]) from None
        except (TException, TApplicationException) as error:
            raise self._refusal(name, privilege, str(getattr(error, "message", error))[:1_000]) from None
        finally:
            transport.close()

    def _refusal(self, name: TableName, privilege: str, detail: str) -> DeltaError:
        if not is_denied(detail):
            kind = CatalogUnavailableError if passes(detail) else CatalogRequestError
            return kind(catalog=self.label, name=str(name), detail=detail)
        said = _DENIED.search(detail)
        return CatalogAccessDeniedError(
            catalog=self.label,
            table=str(name),
            principal=said["principal"] if said else "the user of this process",
            privilege=(said["access"] or said["privilege"]).strip() if said else privilege,
            detail=detail,
        )

    def _connected(self, name: TableName) -> Any:
        failure = ""
        for host, port in self._addresses:
            transport_socket = TSocket(host, port)
            transport_socket.setTimeout(_MILLISECONDS)
            transport = TTransport.TBufferedTransport(transport_socket)
            try:
                transport.open()
            except (TTransport.TTransportException, OSError) as error:
                failure = str(error)[:1_000]
            else:
                return transport
        raise CatalogUnavailableError(catalog=self.label, name=str(name), detail=failure)


def _address(text: str) -> tuple[str, int]:
    """Host and port. Raises ``InvalidCatalogError`` without the text, which may hold a secret."""
    parts = server_parts(text)
    if parts is None or parts.hostname is None or parts.scheme != "thrift":
        raise InvalidCatalogError(detail="expected the uri of a Hive metastore as thrift://host:9083")
    return parts.hostname, parts.port or _PORT


def _storage(location: str) -> Any:
    column, kind, comment = _COLUMN
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name=column, type=kind, comment=comment)],
        location=location,
        inputFormat=_INPUT,
        outputFormat=_OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(serializationLib=_SERDE, parameters={PATH: location, "serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
