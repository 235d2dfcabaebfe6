"""A delta connection: where tables lie, and with what they are reached."""

import json

import pytest

from airflow_delta.core.errors import InvalidStatementError, RelativePathError
from airflow_delta.core.statements import (
    FileSource,
    MergeStatement,
    OptimizeStatement,
    PinnedTable,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import DeltaConnectionError, TablesNotVisibleError


@pytest.fixture
def connection(monkeypatch):
    """Give Airflow a connection: ``connection("lake", host=...)``."""

    def add(conn_id, conn_type="delta", **fields):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": conn_type, **fields}))
        return DeltaHook(conn_id)

    return add


def test_without_a_connection_tables_are_named_by_their_uris(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_DELTA_DEFAULT", raising=False)
    hook = DeltaHook()
    assert hook.table_uri("/lake/flights") == "/lake/flights"
    assert hook.table_uri("s3://lake/flights") == "s3://lake/flights"
    assert (hook.scratch_uri, hook.storage_options("s3://lake/flights")) == (None, None)


@pytest.mark.parametrize("table", ["flights", "lake/flights", "./flights", "../flights", "file:flights", "~/flights"])
def test_a_relative_table_without_a_table_root_is_refused_with_the_way_out(monkeypatch, table):
    monkeypatch.delenv("AIRFLOW_CONN_DELTA_DEFAULT", raising=False)
    hook = DeltaHook()
    views = SqlSource("SELECT 1", views={"v": TableSource(table)})
    for refused in (
        lambda: hook.table_uri(table),
        lambda: hook.log_store(table),
        lambda: hook.delta_log(table),
        lambda: hook.resolve_table_uris(OptimizeStatement(table=table)),
        lambda: hook.resolve_table_uris(MergeStatement(table="/t", source=TableSource(table), on="a = b")),
        lambda: hook.resolve_table_uris(WriteStatement(table="/t", source=views)),
        lambda: hook.resolve_table_uris(PinnedTable(alias="a", table=table)),
    ):
        with pytest.raises(RelativePathError) as raised:
            refused()
        assert f"'{table}' is a relative path, and the connection 'delta_default' has no table root" in str(raised.value)
        assert "tables may be relative to the table root (the host) of the delta connection" in str(raised.value)


@pytest.mark.parametrize("table", ["s3://lake/flights", "flights"])
def test_a_connection_of_an_object_store_in_the_place_of_a_delta_connection_is_refused(connection, table):
    hook = connection("keys", conn_type="aws", login="key", password="secret")
    with pytest.raises(DeltaConnectionError, match=r"expected the type delta, found aws.* keys is its storage_conn_id"):
        hook.log_store(table)


def test_a_relative_table_root_is_refused(connection):
    with pytest.raises(DeltaConnectionError, match="'lake' is a relative path"):
        connection("relative", host="lake").table_uri("flights")


def test_a_named_connection_that_is_missing_says_how_to_make_it():
    with pytest.raises(DeltaConnectionError, match=r"airflow connections add lake --conn-json") as caught:
        DeltaHook("lake").table_uri("flights")
    assert (caught.value.conn_id, caught.value.retryable) == ("lake", False)


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("flights", "s3://lake/tables/flights"),
        ("raw/flights", "s3://lake/tables/raw/flights"),
        ("/mnt/flights", "/mnt/flights"),
        ("gs://other/flights", "gs://other/flights"),
        ("file:/mnt/flights", "file:/mnt/flights"),
        (" ", " "),
        (".", "s3://lake/tables"),
        ("./raw/./flights", "s3://lake/tables/raw/flights"),
        (".hidden/a.b", "s3://lake/tables/.hidden/a.b"),
        ("/mnt/./flights/.", "/mnt/flights"),
        ("file:///./mnt/flights", "file:///mnt/flights"),
        ("/.", "/"),
        ("s3://other/./flights", "s3://other/./flights"),  # a key of its own
    ],
)
def test_a_relative_name_lies_below_the_table_root(connection, table, uri):
    assert connection("lake", host="s3://lake/tables/").table_uri(table) == uri


@pytest.mark.parametrize("table", ["delta.`/lake/orders`", "DELTA.`s3://lake/orders`"])
@pytest.mark.parametrize("extra", [{}, {"catalog": {"type": "hive", "uri": "thrift://metastore:9083"}}])
def test_a_path_as_sql_texts_name_it_is_no_relative_path(connection, extra, table):
    with pytest.raises(InvalidStatementError, match=r"how SQL texts name a path; write [/s]"):
        connection("lake", host="s3://lake/tables/", extra=extra).table_uri(table)


def test_what_a_template_without_a_value_renders_to_is_no_table_below_the_table_root(connection):
    hook = connection("lake", host="s3://lake/tables/")
    with pytest.raises(RelativePathError, match="such as an XCom that no task has pushed, renders to None"):
        hook.table_uri("None")
    with pytest.raises(RelativePathError, match="renders to None"):
        hook.resolve_table_uris(OptimizeStatement(table="None"))


@pytest.mark.parametrize("table", [None, 5, ["flights"]], ids=str)
def test_a_table_that_is_no_text_is_refused(connection, table):
    """As of a template that is rendered as a native object."""
    hook = connection("lake", host="s3://lake/tables/")
    for look in (hook.table_uri, hook.log_store):
        with pytest.raises(InvalidStatementError, match="table must be a text"):
            look(table)


def test_every_table_name_in_a_statement_becomes_its_uri(connection):
    hook = connection("lake", host="/lake")
    views = {"a": TableSource("a", version=3), "b": TableSource("s3://far/b"), "c": FileSource("c/*.csv", format="csv")}
    merge = MergeStatement(table="flights", source=SqlSource("SELECT * FROM a", views=views), on="target.id = source.id")
    resolved = hook.resolve_table_uris(merge)
    assert resolved.table == "/lake/flights"
    assert resolved.source.views == views | {"a": TableSource("/lake/a", version=3)}
    assert (resolved.on, resolved.clauses) == (merge.on, merge.clauses)
    assert hook.resolve_table_uris(WriteStatement(table="t", source=TableSource("u"))).source == TableSource("/lake/u")
    assert hook.resolve_table_uris(OptimizeStatement(table="t", where="day = 'table'")) == OptimizeStatement(
        table="/lake/t", where="day = 'table'"
    )


def test_the_options_of_the_storage_connection_are_for_its_service_only(connection):
    connection("minio", "aws", login="AKIAMINE", password="hunter2", extra={"region_name": "eu-west-1"})
    hook = connection(
        "lake",
        host="s3://lake",
        extra={"storage_conn_id": "minio", "storage_options": {"client_kwargs": {"verify": False}, "use_ssl": False}},
    )
    options = {
        "key": "AKIAMINE",
        "secret": "hunter2",
        "client_kwargs": {"region_name": "eu-west-1", "verify": False},
        "use_ssl": False,
    }
    assert hook.storage_options("s3a://other/flights") == options
    assert [hook.storage_options(uri) for uri in ("gs://b/t", "abfss://c@a.dfs.core.windows.net/t", "/mnt/t")] == [None] * 3
    assert hook.storage_options_by_service == {"s3": options}


def test_options_without_a_storage_connection_are_for_the_service_of_the_root_or_else_for_any(connection):
    at_google = connection("at_google", host="gs://lake", extra={"storage_options": {"token": "anon"}})
    assert (at_google.storage_options("gs://b/t"), at_google.storage_options("s3://b/t")) == ({"token": "anon"}, None)
    anywhere = connection("anywhere", extra={"storage_options": '{"anon": true}'})
    assert (anywhere.storage_options("s3://b/t"), anywhere.storage_options("az://b/t")) == ({"anon": True}, {"anon": True})
    assert anywhere.storage_options("/mnt/t") is None


def test_the_key_of_one_azure_account_goes_to_no_other(connection):
    connection("blobs", "wasb", extra={"sas_token": "sig=hunter2"})
    hook = connection("lake", host="abfss://c@mine.dfs.core.windows.net/lake", extra={"storage_conn_id": "blobs"})
    assert hook.storage_options("abfss://d@mine.dfs.core.windows.net/t") == {"sas_token": "sig=hunter2", "account_name": "mine"}
    assert hook.storage_options("az://d/t") is not None
    assert hook.storage_options("abfss://d@theirs.dfs.core.windows.net/t") is None


@pytest.mark.parametrize(
    ("extra", "detail"),
    [
        ({"storage_conn_id": "nowhere"}, "the connection 'nowhere', which does not exist"),
        ({"storage_options": "{hunter2"}, "storage_options is not a JSON object"),
        ({"storage_options": ["hunter2"]}, "storage_options is not a JSON object"),
    ],
)
def test_an_invalid_connection_is_refused(connection, extra, detail):
    with pytest.raises(DeltaConnectionError, match=detail) as caught:
        connection("lake", extra=extra).storage_options("s3://b/t")
    assert "hunter2" not in str(caught.value)


def test_where_workers_see_no_tables_they_do_not_look(connection, monkeypatch, tmp_path):
    with pytest.raises(TablesNotVisibleError, match="workers have no access"):
        connection("lake", extra={"workers_see_tables": False}).delta_log(str(tmp_path))
    monkeypatch.setenv("AIRFLOW__DELTA__WORKERS_SEE_TABLES", "False")
    assert not connection("lake").workers_see_tables
    assert connection("lake", extra={"workers_see_tables": True}).workers_see_tables


@pytest.mark.parametrize(("given", "are_seen"), [("false", False), ("0", False), (0, False), ("True", True), ("", True)])
def test_whether_workers_see_tables_is_a_flag_however_the_connection_writes_it(connection, given, are_seen):
    assert connection("lake", extra={"workers_see_tables": given}).workers_see_tables is are_seen


def test_a_word_that_is_no_flag_never_means_that_workers_see_tables(connection):
    with pytest.raises(DeltaConnectionError, match="workers_see_tables must be true or false, found 'no'"):
        _ = connection("lake", extra={"workers_see_tables": "no"}).workers_see_tables


def test_the_connection_allows_places_outside_of_tables(connection, tmp_path):
    hook = connection("lake", extra={"allowed_prefixes": ["s3://lake/shared/"]})
    assert hook.allowed_prefixes == hook.log_store(str(tmp_path)).allowed_prefixes == ("s3://lake/shared/",)
    assert connection("none").allowed_prefixes == ()
    for wrong in ("s3://lake", {"a": 1}, [1], [""]):
        with pytest.raises(DeltaConnectionError, match="allowed_prefixes"):
            _ = connection("wrong", extra={"allowed_prefixes": wrong}).allowed_prefixes


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (5, "expected scratch_uri to be a text, found a int"),
        (["s3://lake"], "expected scratch_uri to be a text, found a list"),
        ("rel", "scratch_uri 'rel' is a relative path"),
        ("s3://", "scratch_uri 's3://' does not name a bucket or container"),
    ],
)
def test_a_scratch_uri_that_is_no_place_is_refused_also_by_the_test_of_the_connection(connection, tmp_path, given, detail):
    hook = connection("lake", host=str(tmp_path), extra={"scratch_uri": given})
    for use in (lambda: hook.scratch_uri, hook.test_connection):
        with pytest.raises(DeltaConnectionError) as refused:
            use()
        assert (refused.value.conn_id, refused.value.detail) == ("lake", detail)


@pytest.mark.parametrize("given", [None, "", "/scratch", "s3://lake/scratch", "hdfs:///scratch", "hdfs:///", "file:///"])
def test_a_scratch_uri_that_is_a_place_stays_as_it_is(connection, given):
    assert connection("lake", extra={"scratch_uri": given}).scratch_uri == (given or None)


@pytest.mark.parametrize("host", ["s3://", "gs://", "abfss:///"])
def test_a_table_root_without_a_bucket_is_refused_naming_the_connection(connection, host):
    with pytest.raises(DeltaConnectionError, match="does not name a bucket or container") as refused:
        _ = connection("lake", host=host).table_root
    assert refused.value.conn_id == "lake"
