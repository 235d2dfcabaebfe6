"""What is published behind a commit, and what the result says where it is not."""

import json
from dataclasses import dataclass

from airflow_delta.catalogs.errors import CatalogRequestError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.catalog_publication import with_publication
from airflow_delta.jobs.result import ResultDocument

SECRET = "wJalrXUtnFEMI"
SCHEMA = '{"type": "struct", "fields": []}'


@dataclass
class Refusing:
    """A catalog that repeats what it was sent."""

    label: str = "glue"

    def find(self, name):
        raise CatalogRequestError(catalog=self.label, name=str(name), detail=f"invalid signature with {SECRET}")


class Names:
    catalog, catalog_label = Refusing(), "glue"

    def table_name(self, table):
        return TableName.parse(table)


def test_an_error_of_the_catalog_shows_no_secret_in_the_result(monkeypatch):
    monkeypatch.setenv("AIRFLOW_DELTA_STORAGE_OPTIONS", json.dumps({"s3": {"key": "AKIAMINE", "secret": SECRET}}))
    outcome = OperationResult(table="/lake/orders", version=1, read_version=0, operation="WRITE", committed=True)
    description = {"location": "/lake/orders", "table_id": "a", "version": 1}
    document = ResultDocument(outcome=outcome, description=description, schema_string=SCHEMA)
    found = with_publication(Names(), "sales.orders", document).outcome
    error = found.details["catalog"]["error"]
    assert (error["code"], error["attributes"]["detail"]) == ("DELTA_CATALOG_REQUEST", "invalid signature with ***")
    assert SECRET not in json.dumps(found.to_json())
