"""Tables on moto's S3 server, with independent readers."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import SqlSource, WriteStatement
from airflow_delta.spark.write.write import write
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures


class S3Table:
    """A table in its own bucket, with its storage options."""

    def __init__(self, spark, store, name="lake/a table"):
        self.spark, self.store, self.uri = spark, store, f"{store.uri}/{name}"

    @property
    def log(self):
        return DeltaLog.for_table(self.uri, self.store.options)

    def write_rows(self, query, **statement):
        return write(self.spark, self.log, WriteStatement(table=self.uri, source=SqlSource(query), **statement))

    def by_deltalake(self, *columns, order="id"):
        """The rows as deltalake reads them; the table must not have deletion vectors."""
        found = DeltaTable(self.uri, storage_options=self.store.other_options).to_pyarrow_table()
        return rows_of(found, columns, order)

    def by_core(self, *columns, order="id"):
        return rows_of(self.log.snapshot().to_arrow().read_all(), columns, order)

    def files(self):
        """Every object below the table except its log, as relative paths."""
        return sorted(file.path for file in self.log.store.list_all() if not file.path.startswith("_delta_log/"))

    def live(self):
        return sorted(self.log.snapshot().files()["path"].to_pylist())


def rows_of(found, columns, order):
    return [tuple(row.values()) for row in found.sort_by(order).select(list(columns) or found.column_names).to_pylist()]


@pytest.fixture
def s3_table(spark, s3):  # noqa: F811 - the fixture
    return S3Table(spark, s3)
