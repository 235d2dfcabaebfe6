"""Secrets at places that others can read are found, and ordinary values are not taken for secrets."""

import pytest
from airflow.sdk.log import redact

from airflow_delta.assets import delta_asset
from airflow_delta.core.statements import FileSource, MergeStatement, TableSource, WriteStatement
from airflow_delta.hooks.errors import ExposedSecretError
from airflow_delta.hooks.exposed_secrets import refuse_exposed
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.operators import DeltaNewCommitsOperator
from airflow_delta.sensors import DeltaCommitSensor

pytestmark = pytest.mark.airflow

PLAIN = MergeStatement(table="/lake/t", source=TableSource("/lake/s"), on="target.token = source.token")


def target(master):
    return SparkTarget(master=master, is_cluster_mode=False, yarn_webapp=None, namespace=None, binary=None)


def refused(statement=PLAIN, conf=None, env_vars=None, master="local[2]"):
    with pytest.raises(ExposedSecretError) as caught:
        refuse_exposed(statement, conf, env_vars, target(master))
    assert "hunter2" not in str(caught.value)
    return caught.value.places


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.bucket.lake.access.key",
        "spark.hadoop.fs.azure.account.key.profiles.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.fixed.token.acc.dfs.core.windows.net",
        "spark.hadoop.fs.azure.account.oauth2.client.secret",
        "spark.hadoop.google.cloud.auth.service.account.private.key",
        "spark.kubernetes.driverEnv.AWS_SECRET_ACCESS_KEY",
        "spark.executorEnv.AZURE_STORAGE_SAS_TOKEN",
        "spark.ssl.keyPassword",
        "spark.authenticate.secret",
    ],
)
def test_a_secret_setting(name):
    assert refused(conf={"spark.executor.cores": 2, name: "hunter2"}) == (f"conf.{name}",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.kubernetes.driver.secretKeyRef.AWS_SECRET_ACCESS_KEY", "lake:secret"),
        ("spark.kubernetes.executor.secrets.lake", "/etc/lake"),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://hdfs/lake.jceks"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.example.Provider"),
        ("spark.hadoop.fs.azure.sas.token.provider.type", "com.example.Provider"),
        ("spark.kubernetes.authenticate.oauthTokenFile", "/run/token"),
        ("spark.redaction.regex", "(?i)secret|password"),
        ("spark.hadoop.fs.s3a.endpoint", "http://minio:9000"),
    ],
)
def test_an_ordinary_setting(name, value):
    refuse_exposed(PLAIN, {name: value}, None, target("yarn"))


def test_variables_are_settings_on_yarn_and_kubernetes_only():
    variables = {"AWS_SECRET_ACCESS_KEY": "hunter2", "HADOOP_CONF_DIR": "/etc/hadoop"}
    refuse_exposed(PLAIN, None, variables, target("local[2]"))
    refuse_exposed(PLAIN, None, variables, target("spark://m:7077"))
    assert refused(env_vars=variables, master="yarn") == ("env_vars.AWS_SECRET_ACCESS_KEY",)
    assert refused(env_vars=variables, master="k8s://https://m") == ("env_vars.AWS_SECRET_ACCESS_KEY",)


def test_secrets_in_a_statement_are_told_by_their_place():
    files = FileSource("https://acc.blob.core.windows.net/c/f.csv?sv=1&sig=hunter2", format="csv")
    assert refused(WriteStatement(table="s3://AKIA:hunter2@lake/t", source=files)) == (
        "WriteStatement.table",
        "WriteStatement.source.path",
    )
    jdbc = FileSource("t", format="jdbc", options={"password": "hunter2", "user": "me"})
    assert refused(WriteStatement(table="/lake/t", source=jdbc)) == ("WriteStatement.source.options.password",)


def test_ordinary_texts_of_statements():
    statement = MergeStatement(
        table="abfss://container@account.dfs.core.windows.net/t",
        source=FileSource("s3://lake/day=?/*.csv", format="csv", options={"sep": ":"}),
        on="target.password = source.password AND source.url LIKE 'http://a?b=%'",
    )
    refuse_exposed(statement, None, None, target("yarn"))


@pytest.mark.parametrize(
    "task",
    [
        DeltaCommitSensor(task_id="wait", table="s3://AKIA:{{ 'planted' }}-in-sensor@lake/t", after_version=1),
        DeltaNewCommitsOperator(
            task_id="due", table="s3://AKIA:{{ 'planted' }}-in-sensor@lake/t", asset=delta_asset("lake", "s3://lake/t")
        ),
    ],
    ids=lambda task: task.task_type,
)
def test_a_secret_in_the_uri_of_a_task_without_a_job_is_masked_once_rendered(task):
    task.render_template_fields({})
    assert "planted-in-sensor" in task.table
    assert redact(f"looking at {task.table}") == "looking at s3://AKIA:***@lake/t"
