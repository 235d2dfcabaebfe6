"""Credentials go to a driver by its environment, and to a driver on the cluster not at all."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_delta.core.storage.ambient_options import VARIABLE
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.job_environment import credentials_for_the_driver
from airflow_delta.hooks.spark_target import SparkTarget


@pytest.fixture
def hook(monkeypatch):
    minio = {"conn_type": "aws", "login": "AKIAMINE", "password": "hunter2", "extra": {"endpoint_url": "http://minio"}}
    monkeypatch.setenv("AIRFLOW_CONN_MINIO", json.dumps(minio))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"storage_conn_id": "minio"}}))
    return DeltaHook("lake")


def target(master, *, is_cluster_mode=False):
    return SparkTarget(master=master, is_cluster_mode=is_cluster_mode, yarn_webapp=None, namespace=None, binary=None)


@pytest.mark.parametrize("master", ["local[2]", "spark://m:7077", "yarn", "k8s://https://m"])
def test_a_driver_beside_the_worker_finds_the_options_and_the_worker_keeps_none(hook, monkeypatch, master):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another identity")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with credentials_for_the_driver(hook, target(master)):
        printed = subprocess.run(
            [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"], stdout=subprocess.PIPE, check=True
        )
    environment = json.loads(printed.stdout)
    assert json.loads(environment[VARIABLE]) == {"s3": {"key": "AKIAMINE", "secret": "hunter2", "endpoint_url": "http://minio"}}
    assert (environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]) == ("AKIAMINE", "hunter2")
    assert environment["AWS_SESSION_TOKEN"] == ""
    assert VARIABLE not in os.environ
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    assert os.environ["AWS_SESSION_TOKEN"] == "of another identity"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://m"])
def test_a_driver_on_the_cluster_gets_none_and_the_log_says_so(hook, caplog, master):
    before = dict(os.environ)
    with caplog.at_level(logging.WARNING), credentials_for_the_driver(hook, target(master, is_cluster_mode=True)):
        assert dict(os.environ) == before
    assert "The storage options of the connection lake are not passed on" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_server_of_spark_connect_gets_none_and_the_log_says_so(hook, caplog):
    over = replace(target("sc://spark:15002"), remote="sc://spark:15002/;token=sesame")
    with caplog.at_level(logging.INFO), credentials_for_the_driver(hook, over):
        assert VARIABLE in os.environ
    assert "The storage options of the connection lake reach the driver alone" in caplog.text
    assert "hunter2" not in caplog.text


def test_without_storage_options_nothing_is_set(caplog):
    before = dict(os.environ)
    with caplog.at_level(logging.WARNING), credentials_for_the_driver(DeltaHook(), target("yarn", is_cluster_mode=True)):
        assert dict(os.environ) == before
    assert not caplog.text
