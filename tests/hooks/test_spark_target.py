"""A connection that leads nowhere is an error before anything is submitted."""

import json
import sys

import pytest

from airflow_delta.hooks.errors import DeltaConnectionError, SparkTargetError
from airflow_delta.hooks.spark_target import spark_target


@pytest.fixture
def connection(monkeypatch):
    def make(host, port=None, conn_type="spark", login=None, password=None, **extra):
        value = {"conn_type": conn_type, "host": host, "port": port, "login": login, "password": password, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(value))

    return make


def test_a_missing_connection_is_named_with_its_cure_and_is_not_yarn():
    with pytest.raises(SparkTargetError) as caught:
        spark_target("spark_nowhere", None)
    assert caught.value.conn_id == "spark_nowhere"
    assert "airflow connections add spark_nowhere" in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("given", "deploy_mode", "expected"),
    [
        ({"host": "local[2]"}, None, ("local[2]", False, True, False)),
        ({"host": "yarn"}, "cluster", ("yarn", True, False, True)),
        ({"host": "yarn", "deploy-mode": "cluster"}, None, ("yarn", True, False, True)),
        ({"host": "yarn", "deploy-mode": "cluster"}, "client", ("yarn", False, False, False)),
        ({"host": "spark://m1:7077"}, None, ("spark://m1:7077", False, False, False)),
        ({"host": "m1", "port": 7077}, None, ("spark://m1", False, False, False)),
        ({"host": "local-cluster[2,1,1024]"}, None, ("local-cluster[2,1,1024]", False, True, False)),
        ({"host": "armada://m1"}, None, ("armada://m1", False, False, False)),
    ],
)
def test_the_connection_says_where_the_job_runs(connection, given, deploy_mode, expected):
    connection(**given)
    target = spark_target("spark_test", deploy_mode)
    assert (target.master, target.is_cluster_mode, target.is_local, target.is_yarn_cluster) == expected


def test_a_spark_that_cannot_run_the_job_is_refused(connection):
    connection(host="spark://m1:7077", **{"deploy-mode": "cluster"})
    with pytest.raises(SparkTargetError, match="client"):
        spark_target("spark_test", None)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"host": "locale[*]"}, "'locale.*' by the type spark"),
        ({"host": ""}, "'spark://' by the type spark"),
        ({"host": "", "conn_type": "aws"}, "'aws://' by the type aws"),
        ({"host": "", "conn_type": "spark_connect"}, "expected a host .*, found none"),
    ],
)
def test_a_connection_that_names_no_master_is_refused_before_spark_is_started(connection, given, found):
    connection(**given)
    with pytest.raises(SparkTargetError, match=found):
        spark_target("spark_test", None)


def test_kubernetes_without_its_provider_says_what_to_install(connection, monkeypatch):
    connection(host="k8s://https://cluster", **{"deploy-mode": "cluster"})
    monkeypatch.setattr("airflow_delta.hooks.spark_target.find_spec", lambda _: None)
    with pytest.raises(SparkTargetError, match=r"airflow-delta\[kubernetes\]"):
        spark_target("spark_test", None)


def test_spark_submit_is_found_beside_this_python(connection, monkeypatch):
    connection("local")
    monkeypatch.setenv("PATH", "/nowhere")
    assert spark_target("spark_test", None).binary == f"{sys.prefix}/bin/spark-submit"


def test_a_missing_spark_submit_says_what_to_install(connection, monkeypatch, tmp_path):
    connection("local")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SparkTargetError, match=r"airflow-delta\[spark\]"):
        spark_target("spark_test", None)


@pytest.mark.parametrize(
    ("given", "master", "remote"),
    [
        ({"host": "spark"}, "sc://spark", "sc://spark/"),
        ({"host": "sc://spark:15002"}, "sc://spark:15002", "sc://spark:15002/"),
        ({"host": "spark", "port": 443, "use_ssl": True}, "sc://spark:443", "sc://spark:443/;use_ssl=true"),
        ({"host": "spark", "use_ssl": "True"}, "sc://spark", "sc://spark/;use_ssl=true"),
        ({"host": "spark", "use_ssl": "0"}, "sc://spark", "sc://spark/;use_ssl=false"),
        ({"host": "spark", "use_ssl": ""}, "sc://spark", "sc://spark/"),
        ({"host": "spark", "x-cluster-id": "7", "y": "no header"}, "sc://spark", "sc://spark/;x-cluster-id=7"),
        (
            {"host": "spark/", "login": "ann lee", "password": "a/b=;c"},
            "sc://spark",
            "sc://spark/;user_id=ann%20lee;token=a%2Fb%3D%3Bc",
        ),
    ],
)
def test_a_server_of_spark_connect_is_told_token_and_user_and_shows_neither(connection, monkeypatch, given, master, remote):
    monkeypatch.setenv("PATH", "/nowhere")  # no spark-submit is needed
    connection(conn_type="spark_connect", **given)
    target = spark_target("spark_test", None)
    assert (target.master, target.remote, target.is_cluster_mode) == (master, remote, False)
    assert "remote" not in repr(target)


@pytest.mark.parametrize(
    "host", ["", "spark/path", "https://spark", "spark;token=a", "ann:token=a@spark", "ann@spark", "[spark", "spark:token=a"]
)
def test_a_server_of_spark_connect_without_a_name_is_refused_and_not_shown(connection, host):
    connection(host, conn_type="spark_connect")
    with pytest.raises(SparkTargetError, match="name host and port alone") as refused:
        spark_target("spark_test", None)
    assert "token=a" not in str(refused.value)


def test_a_header_that_is_no_text_is_refused_and_not_shown(connection):
    connection("spark", conn_type="spark_connect", **{"x-cluster": {"id": "secret"}})
    with pytest.raises(SparkTargetError, match="found another value as x-cluster") as refused:
        spark_target("spark_test", None)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["x-Gateway", "X-Gateway", "x-a b", "x-a;user_id", "x-", "x-ä", "x-a\n", "x-key-bin"])
def test_a_header_whose_name_grpc_does_not_take_is_refused_by_its_name_alone(connection, name):
    connection("spark", conn_type="spark_connect", **{"x-good": "planted", name: "planted"})
    with pytest.raises(SparkTargetError) as refused:
        spark_target("spark_test", None)
    assert refused.value.detail.endswith(f"not ending in -bin, found {name!r} in its extra")
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize("value", ["planted\n", "planted\t", "plänted", "\0planted"])
def test_a_header_or_token_that_is_not_printable_ascii_is_refused_and_not_shown(connection, value):
    connection("spark", conn_type="spark_connect", password=value, **{"x-gateway": value, "x-good": "a~ b"})
    with pytest.raises(SparkTargetError) as refused:
        spark_target("spark_test", None)
    assert refused.value.detail.endswith(r"in its password (the token), x-gateway")
    assert "nted" not in str(refused.value)


@pytest.mark.parametrize("flag", ["banana", 2, "yes"])
def test_use_ssl_that_is_no_flag_is_refused(connection, flag):
    connection("spark", conn_type="spark_connect", use_ssl=flag)
    with pytest.raises(SparkTargetError, match=r"use_ssl must be .*found.*write it as true or false"):
        spark_target("spark_test", None)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "sc://127.0.0.1:1"])
def test_a_port_in_the_host_and_beside_it_is_refused(connection, host):
    connection(host, port=2, conn_type="spark_connect")
    with pytest.raises(SparkTargetError, match=r"found 1 in its host and 2 as its port.*leave it out of the host"):
        spark_target("spark_test", None)


def test_a_worker_without_the_client_of_spark_connect_says_what_to_install(connection, monkeypatch):
    connection("spark", conn_type="spark_connect")
    monkeypatch.setattr("airflow_delta.hooks.connect_server.find_spec", lambda name: None if name == "grpc" else name)
    with pytest.raises(SparkTargetError, match=r"client lacks grpc on the Airflow worker.*airflow-delta\[connect\]"):
        spark_target("spark_test", None)


@pytest.mark.parametrize("conn_type", ["spark", "spark_connect"])
def test_an_extra_that_is_no_object_is_refused_naming_the_connection(monkeypatch, conn_type):
    value = {"conn_type": conn_type, "host": "local[2]" if conn_type == "spark" else "spark", "extra": "[1]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(value))
    with pytest.raises(DeltaConnectionError, match="expected the extra to be a JSON object, found a list") as refused:
        spark_target("spark_test", None)
    assert refused.value.conn_id == "spark_test"


@pytest.mark.parametrize("name", ["spark-binary", "deploy-mode", "namespace", "yarn_resourcemanager_webapp_address"])
def test_a_member_of_the_extra_that_is_no_text_is_refused(connection, name):
    connection("yarn", **{name: 5})
    with pytest.raises(SparkTargetError, match=f"expected a text as {name} in its extra, found a int"):
        spark_target("spark_test", None)


@pytest.mark.parametrize(
    ("mode", "meant"), [("clustr", "; did you mean 'cluster'?"), ("Client", "; did you mean 'client'?"), ("x", "")]
)
def test_a_deploy_mode_that_spark_submit_does_not_take_is_refused(connection, mode, meant):
    connection("yarn", **{"deploy-mode": mode})
    with pytest.raises(SparkTargetError) as refused:
        spark_target("spark_test", None)
    assert refused.value.detail == f"expected client or cluster as deploy-mode in its extra, found {mode!r}{meant}"
