"""Names on the command line and in scripts, where the environment or an option names the catalog."""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.catalogs.settings import VARIABLE, CatalogSettings, open_catalog
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.cli.main import app
from airflow_delta.core import DeltaLog
from airflow_delta.spark.delta_table.identifiers import path_of
from airflow_delta.spark.errors import TableNameUnsupportedError
from tests.catalogs.unity_server import Unity, serve

NO_SESSION = None
"""These catalogs need none."""


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    return path


@pytest.fixture
def settings(table, monkeypatch):
    """A catalog without users that knows the table; the environment names none."""
    monkeypatch.setenv(VARIABLE, "")
    url, stop = serve(Unity(tokens={"": None}))
    given = {"type": "unity", "uri": url, "name": "main"}
    catalog = open_catalog(CatalogSettings.parse(given))
    publish(catalog, TableName("orders", "sales"), TableDescription.of(DeltaLog.for_table(table).snapshot()))
    yield json.dumps(given)
    stop()


def history(*options):
    result = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    return [json.loads(line)["version"] for line in result.stdout.splitlines()]


def test_the_command_line_takes_a_name_where_a_catalog_is_named(settings):
    assert history("--catalog", settings, "history", "sales.orders") == [0]
    assert history("--catalog", settings, "history", "main.`sales`.orders") == [0]


def test_the_command_line_takes_a_path_beside_a_catalog(settings, table):
    assert history("--catalog", settings, "history", table) == [0]


def test_a_name_that_the_catalog_does_not_know_is_said(settings):
    with pytest.raises(TableNameNotFoundError, match=r"sales\.nothing"):
        history("--catalog", settings, "history", "sales.nothing")


def test_a_script_finds_a_table_by_its_name(settings, table, monkeypatch):
    monkeypatch.setenv(VARIABLE, settings)
    assert path_of(NO_SESSION, "sales.orders") == table
    assert path_of(NO_SESSION, f"delta.`{table}`") == table


def test_a_script_without_a_catalog_is_shown_the_way(settings):
    with pytest.raises(TableNameUnsupportedError, match=VARIABLE):
        path_of(NO_SESSION, "sales.orders")
