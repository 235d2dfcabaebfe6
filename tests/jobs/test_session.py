"""The session of a job: what its Python workers find."""

import os

import pytest

from airflow_delta.core.storage.ambient_options import VARIABLE
from airflow_delta.jobs.session import job_session

pytestmark = pytest.mark.classic(reason="the session is that of a job that is submitted")


def test_storage_options_go_with_the_tasks_to_python_workers_and_are_no_setting(spark, monkeypatch):
    options = '{"s3": {"secret": "hunter2"}}'
    monkeypatch.setenv(VARIABLE, options)  # too late for the JVM, whose environment local workers have otherwise
    session = job_session("test")
    try:

        def found(batches):
            yield from (batch.set_column(0, "options_seen", [os.environ.get(VARIABLE)] * len(batch)) for batch in batches)

        options_seen = session.range(1, numPartitions=1).mapInArrow(found, "options_seen STRING").collect()
        assert [row.options_seen for row in options_seen] == [options]
        assert "hunter2" not in str(session.sparkContext.getConf().getAll())
    finally:
        del session.sparkContext.environment[VARIABLE]


def test_the_cache_of_the_driver_is_named_to_python_workers_too(spark, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_DELTA_CACHE_DIR", str(tmp_path))
    environment = job_session("test").sparkContext.environment
    try:
        assert environment["AIRFLOW_DELTA_CACHE_DIR"] == str(tmp_path)
        assert "AIRFLOW_DELTA_CACHE_FILES" not in environment
    finally:
        del environment["AIRFLOW_DELTA_CACHE_DIR"]


def test_texts_of_a_job_mean_what_stands_in_them(spark):
    session = job_session("test")
    try:
        assert session.sql("SELECT '${env:HOME} ${spark.app.name}' AS text").first().text == "${env:HOME} ${spark.app.name}"
    finally:
        session.conf.unset("spark.sql.variable.substitute")
