"""Names that only the job knows: resolved and published by the catalog of its own session."""

import json

import pytest
from deltalake import DeltaTable

from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import RelativePathError, TableNotDeletedError
from airflow_delta.core.statements import (
    AddColumns,
    AlterStatement,
    CreateStatement,
    DropStatement,
    HealthStatement,
    OptimizeStatement,
    PinnedTable,
    PinStatement,
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


pytestmark = pytest.mark.classic(reason="over Spark Connect, the catalog of a session is refused")


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


def drop(spark, found, **members):
    statement = DropStatement(
        table=found.table, table_id=found.details["catalog"]["table_id"], catalog_name="named.orders", **members
    )
    return execute(spark, statement)


def files(table):
    return [path for path in table.rglob("*") if path.is_file()]


@pytest.fixture
def found(spark, catalog):
    """What a dry run says of the name of a table with rows."""
    execute(spark, WriteStatement(table="named.orders", source=SqlSource("SELECT id FROM range(3)")))
    return execute(spark, DropStatement(table="named.orders", catalog_name="named.orders", dry_run=True)).outcome


def test_a_name_of_the_session_is_dropped_and_then_its_files(spark, catalog, found, tmp_path):
    table = tmp_path / "named" / "orders"
    assert (found.table.removeprefix("file:"), found.version, found.dry_run) == (str(table), 0, True)
    assert found.details["catalog"]["table_id"] == DeltaTable(str(table)).metadata().id
    assert catalog.find(ORDERS) is not None
    dry = drop(spark, found, delete_files=True, dry_run=True).outcome
    assert (dry.metrics["numDeletedFiles"], catalog.find(ORDERS) is None) == (len(files(table)), False)
    done = drop(spark, found, delete_files=True).outcome
    assert (done.operation, done.metrics["numDeletedFiles"]) == ("DROP TABLE", dry.metrics["numDeletedFiles"])
    assert (catalog.find(ORDERS), files(table)) == (None, [])
    again = drop(spark, found, delete_files=True).outcome
    assert again.metrics["numDeletedFiles"] == 0


def test_only_the_name_is_dropped_where_the_files_are_to_stay(spark, catalog, found, tmp_path):
    done = drop(spark, found).outcome
    assert (done.version, catalog.find(ORDERS)) == (0, None)
    assert DeltaTable(str(tmp_path / "named" / "orders")).to_pyarrow_table().num_rows == 3


def test_a_name_stays_that_another_table_got_since_and_so_do_the_other_s_files(spark, catalog, found, tmp_path):
    catalog.drop(ORDERS)
    other = DeltaLog.for_table(str(tmp_path / "other"))
    execute(spark, CreateStatement(table=other.table_uri, columns="id BIGINT"), "other")
    catalog.create(ORDERS, TableDescription.of(other.snapshot()))
    drop(spark, found, delete_files=True)
    assert catalog.find(ORDERS).location.removeprefix("file:") == other.table_uri.removeprefix("file:")
    assert not DeltaTable.is_deltatable(str(tmp_path / "named" / "orders"))
    assert other.exists()


def test_a_pinned_table_keeps_its_name(spark, catalog, found, tmp_path):
    pins = PinStatement(tables=[PinnedTable(alias="o", table="named.orders")], id="kept")
    pinned = execute(spark, pins).outcome
    assert pinned.details["pins"][0]["table"].removeprefix("file:") == str(tmp_path / "named" / "orders")
    document = drop(spark, found, delete_files=True)
    assert isinstance(document.typed_error(), TableNotDeletedError)
    assert catalog.find(ORDERS) is not None
    assert DeltaTable(str(tmp_path / "named" / "orders")).to_pyarrow_table().num_rows == 3


def test_a_health_check_by_a_name_of_the_session_says_in_what_the_catalog_differs(spark, catalog, found):
    healthy = execute(spark, HealthStatement(table="named.orders")).outcome
    assert [finding["code"] for finding in healthy.details["findings"]] == []
    execute(spark, AlterStatement(table=found.table, changes=AddColumns("note STRING")), "by path")
    (finding,) = execute(spark, HealthStatement(table="named.orders")).outcome.details["findings"]
    assert (finding["code"], finding["remedy"]) == ("CATALOG_DRIFT", "commit to the table by its name")
    assert "schema" in finding["text"]


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
