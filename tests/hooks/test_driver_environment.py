"""Which variables of a worker a driver gets."""

import os
import socket

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from airflow_delta.hooks.driver_environment import driver_environment, ending_of, environment_beside_worker
from airflow_delta.jobs.worker_processes import WorkerProcesses


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PATH",
            "HOME",
            "USER",
            "LANG",
            "LC_ALL",
            "TZ",
            "TMPDIR",
            "JAVA_HOME",
            "SPARK_HOME",
            "SPARK_CONF_DIR",
            "PYSPARK_PYTHON",
        ),
        *(
            "PYTHONPATH",
            "HADOOP_CONF_DIR",
            "YARN_CONF_DIR",
            "KUBECONFIG",
            "KUBERNETES_SERVICE_HOST",
            "KRB5_CONFIG",
            "KRB5CCNAME",
        ),
        *(
            "AWS_ROLE_ARN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AZURE_CLIENT_ID",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "IDENTITY_HEADER",
        ),
        *("https_proxy", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH"),
        *("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "GRPC_PROXY", "no_grpc_proxy"),
        *("AIRFLOW_DELTA_STORAGE_OPTIONS", "AIRFLOW_CTX_DAG_ID"),
    ],
)
def test_a_driver_gets_what_spark_clouds_and_languages_need(name):
    assert driver_environment({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name",
    [
        *("AIRFLOW_CONN_LAKE", "AIRFLOW_VAR_KEY", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"),
        *("AIRFLOW__API_AUTH__JWT_SECRET", "FERNET_KEY", "_AIRFLOW_WWW_USER_PASSWORD", "POSTGRES_PASSWORD", "PGPASSWORD"),
        *("VAULT_TOKEN", "GITHUB_TOKEN", "SLACK_WEBHOOK", "DATABASE_URL", "SMTP_PASSWORD"),
    ],
)
def test_a_driver_gets_nothing_of_airflow_and_of_others(name):
    assert driver_environment({name: "secret", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_further_names_are_given_by_the_setting():
    worker = {"TEAM_TOKEN": "1", "MINIO_HOST": "2", "MINIO_PORT": "3", "OTHER": "4"}
    assert driver_environment(worker, further=[" TEAM_TOKEN", "minio_* ", ""]) == {
        "TEAM_TOKEN": "1",
        "MINIO_HOST": "2",
        "MINIO_PORT": "3",
    }


def test_no_empty_pattern_lets_all_through():
    assert driver_environment({"SECRET": "1"}, further=["", "  "]) == {}


def test_the_worker_of_a_driver_is_its_task_and_that_tasks_supervisor_where_it_has_one(monkeypatch):
    monkeypatch.delattr(task_runner, "SUPERVISOR_COMMS", raising=False)
    alone = WorkerProcesses.from_environment(environment_beside_worker())
    here, there = socket.socketpair()
    with here, there:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", CommsDecoder(socket=here), raising=False)
        supervised = WorkerProcesses.from_environment(environment_beside_worker())
    assert (list(alone.start_times), list(supervised.start_times)) == ([os.getpid()], [os.getpid(), os.getppid()])
    assert supervised.gone() is None


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (3, "exit code 3"),
        (-9, "it was killed by SIGKILL"),
        (-35, "it was killed by signal 35"),
        (-200, "it was killed by signal 200"),
    ],
)
def test_any_end_of_a_process_is_told_also_by_a_signal_without_a_name(code, ending):
    assert ending_of(code) == ending
