"""A Unity Catalog test server with a managed table, ``orders`` in ``main.sales``."""

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_delta.catalogs.settings import CatalogSettings
from airflow_delta.catalogs.unity_commits import TABLE_ID, UnityCommits
from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.catalogs.unity_commits_server import UnityServer
from tests.catalogs.unity_server import Unity

TOKEN = "secret-token"
WRITERS = frozenset({"inCommitTimestamp", "appendOnly", "invariants", "changeDataFeed", "deletionVectors"})

COLUMNS = (("id", "long"), ("note", "string"))


@dataclass
class ManagedUnity:
    """The server, and its managed tables."""

    server: UnityServer

    @property
    def uri(self):
        return self.server.uri

    @property
    def names(self):
        return self.server.names

    def settings(self, **more):
        return CatalogSettings(type="unity", uri=self.uri, name="main", credentials={"token": self.server.token}, **more)

    def environment(self, **more):
        """The environment variable that makes the catalog known to a process."""
        return self.settings(**more).to_environment()

    def make(self, name, location, *, feature="catalogManaged", columns=COLUMNS, options=None, **more):
        """Make and register, as another engine would, a new managed table with these columns and further properties."""
        table_id = str(uuid.uuid4())
        self.server.add_table(table_id, location)
        fields = [{"name": column, "type": kind, "nullable": True, "metadata": {}} for column, kind in columns]
        metadata = Metadata(
            id=str(uuid.uuid4()),
            schema_string=json.dumps({"type": "struct", "fields": fields}),
            configuration={"delta.enableInCommitTimestamps": "true", TABLE_ID: table_id, **more},
        )
        readers = frozenset({feature, "deletionVectors"})
        protocol = Protocol(
            min_reader_version=3, min_writer_version=7, reader_features=readers, writer_features=WRITERS | readers
        )
        table = ManagedOrders(self, name, location, table_id, options)
        table.log().create_transaction(metadata, protocol).commit(operation=Operation(name="CREATE TABLE"))
        self.names.add_managed(name, table_id, location, feature)
        return table


@dataclass
class ManagedOrders:
    """A managed table, accessed by a client that knows its id."""

    unity: ManagedUnity
    name: str
    location: str
    table_id: str
    options: dict | None = None

    @property
    def kept(self):
        """The server's record of its commits."""
        return self.unity.server.tables[self.table_id]

    @property
    def ratified(self):
        """The versions that the server has ratified, in order."""
        return [info["version"] for info in self.kept.record]

    def log(self):
        commits = UnityCommits(
            uri=self.unity.uri, table_id=self.table_id, table_uri=self.location, token=lambda: self.unity.server.token
        )
        return DeltaLog.for_table(self.location, self.options, commits=commits)

    def rows(self, version=None):
        """Its rows in the order of ``id``."""
        return self.log().snapshot(version).to_arrow().read_all().sort_by("id").to_pylist()


@contextmanager
def managed_unity(token=TOKEN):
    """A running server."""
    server = UnityServer(token=token, names=Unity(tokens={token: None}))
    try:
        yield ManagedUnity(server)
    finally:
        server.close()
