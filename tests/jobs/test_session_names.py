"""Names that only the job knows: resolved and published by the catalog of its own session."""

import json

import pytest
from deltalake import DeltaTable

from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import RelativePathError
from airflow_delta.core.statements import (
    AddColumns,
    AlterStatement,
    CreateStatement,
    OptimizeStatement,
    SequenceStatement,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.session_catalog import SessionCatalog

ORDERS, FEED = TableName("orders", "named"), TableName("feed", "named")


@pytest.fixture
def catalog(spark, tmp_path):
    spark.sql(f"CREATE DATABASE named LOCATION '{tmp_path}/named'")
    catalog = SessionCatalog(spark)
    yield catalog
    for name in (ORDERS, FEED):
        catalog.drop(name)
    spark.sql("DROP DATABASE named")


def execute(spark, statement, token="t", **members):
    spec = JobSpec(statement=statement, origin=Origin(token=token), has_session_names=True, **members)
    return run(spark, JobSpec.from_text(spec.to_text()))


def drift(catalog, name):
    entry = catalog.find(name)
    return differences(entry, TableDescription.of(DeltaLog.for_table(entry.location).snapshot()))


def test_a_table_is_made_and_changed_by_a_name_of_the_session(spark, catalog, tmp_path):
    made = execute(spark, CreateStatement(table="named.orders", columns="id BIGINT"), start_version=-1).outcome
    assert (made.table.removeprefix("file:"), made.version) == (f"{tmp_path}/named/orders", 0)
    assert made.details["catalog"] == {"catalog": "spark", "name": "named.orders", "published": ["missing"]}
    changes = AlterStatement(table="`named`.orders", changes=AddColumns("note STRING"))
    changed = execute(spark, changes, "u", start_version=0).outcome
    assert (changed.version, changed.details["catalog"]["published"]) == (1, ["schema"])
    assert drift(catalog, ORDERS) == ()
    again = execute(spark, changes, "u", start_version=0).outcome
    assert (again.version, again.already_committed, again.details["catalog"]["published"]) == (1, True, [])


def test_statements_and_their_sources_name_tables_of_the_session(spark, catalog, tmp_path):
    rows = SqlSource("SELECT id + 10 AS id FROM o", views={"o": TableSource("named.orders")})
    statements = (
        WriteStatement(table="named.orders", source=SqlSource("SELECT id FROM range(3)")),
        WriteStatement(table="named.feed", source=rows),
        OptimizeStatement(table=f"{tmp_path}/named/orders"),
    )
    done = execute(spark, SequenceStatement(statements=statements)).outcome
    found = [result["details"].get("catalog", {}).get("name") for result in done.details["statements"].values()]
    assert (found, drift(catalog, ORDERS), drift(catalog, FEED)) == (["named.orders", "named.feed", None], (), ())
    assert sorted(DeltaTable(f"{tmp_path}/named/feed").to_pyarrow_table()["id"].to_pylist()) == [10, 11, 12]


def test_a_name_that_the_session_does_not_have_is_a_typed_error(spark, catalog):
    document = execute(spark, OptimizeStatement(table="named.nothing"))
    assert isinstance(document.typed_error(), TableNameNotFoundError)


def test_names_are_only_taken_from_a_spec_that_says_so():
    spec = JobSpec(statement=OptimizeStatement(table="named.orders"))
    with pytest.raises(RelativePathError):
        JobSpec.from_text(spec.to_text())
    with pytest.raises(RelativePathError):
        JobSpec.from_text(JobSpec(statement=OptimizeStatement(table="named/orders"), has_session_names=True).to_text())
    text = json.loads(spec.to_text()) | {"has_session_names": "true"}
    with pytest.raises((InvalidSpecError, RelativePathError)):
        JobSpec.from_text(json.dumps(text))
