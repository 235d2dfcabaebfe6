"""Secrets at places that others can read are found, and ordinary values are not taken for secrets."""

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from airflow.providers.common.compat.sdk import mask_secret, redact

from airflow_delta.assets import delta_asset
from airflow_delta.core.statements import (
    FileSource,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    TableSource,
    WriteStatement,
)
from airflow_delta.hooks.errors import ExposedSecretError
from airflow_delta.hooks.exposed_secrets import mask_exposed, refuse_exposed
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.jobs.redaction import redact as redact_text
from airflow_delta.operators import DeltaNewCommitsOperator, DeltaVacuumOperator
from airflow_delta.sensors import DeltaCommitSensor
from tests.secret_cases import (
    HONEST_SETTINGS,
    HONEST_TEXTS,
    MESSAGES,
    ORDINARY_MESSAGES,
    SETTING_VALUES,
    SETTINGS,
    TEXTS,
    WORD,
)

ATTACKS = (
    *("a", "a=", "-D", "password=", "'password='", "://", "a://", "s://u:", "eyJ-", "eyJ.", "AKIA0000000000000000/", "/"),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-",
        "&a",
        "\\",
        '\\"',
        "basic ",
        "xoxb-",
        ";sig=%",
        "{{",
        "jdbc:oracle:x:a/",
        "password '",
    ),
)
PLAIN = MergeStatement(table="/lake/t", source=TableSource("/lake/s"), on="target.token = source.token")


def target(master):
    return SparkTarget(master=master, is_cluster_mode=False, yarn_webapp=None, namespace=None, binary=None)


def refused_places(statement=PLAIN, conf=None, env_vars=None, master="local[2]", secret="hunter2"):
    with pytest.raises(ExposedSecretError) as caught:
        refuse_exposed(statement, conf, env_vars, target(master))
    assert secret not in str(caught.value)
    return caught.value.places


@pytest.mark.parametrize("name", SETTINGS)
def test_a_secret_setting(name):
    assert refused_places(conf={"spark.executor.cores": 2, name: WORD}) == (f"conf.{name}",)


@pytest.mark.parametrize(("name", "value"), SETTING_VALUES)
def test_a_secret_in_the_value_of_an_ordinary_setting(name, value):
    assert refused_places(conf={name: value}) == (f"conf.{name}",)


@pytest.mark.parametrize(("name", "value"), HONEST_SETTINGS)
def test_an_ordinary_setting(name, value):
    refuse_exposed(PLAIN, {name: value}, None, target("yarn"))


@pytest.mark.parametrize(("text", "secret"), TEXTS, ids=range(len(TEXTS)))
def test_a_secret_in_a_statement(text, secret):
    places = refused_places(replace(PLAIN, on=text), secret=secret)
    assert places == ("MergeStatement.on",)
    assert refused_places(replace(PLAIN, source=FileSource("t", format="csv", options={"path": text})), secret=secret) == (
        "MergeStatement.source.options.path",
    )


@pytest.mark.parametrize("text", HONEST_TEXTS)
def test_an_ordinary_statement(text):
    refuse_exposed(replace(PLAIN, on=text), None, None, target("yarn"))
    jdbc = FileSource("t", format="jdbc", options={"query": text, "user": "me", "numPartitions": "8"})
    refuse_exposed(replace(PLAIN, source=jdbc), None, None, target("yarn"))


def test_columns_may_be_called_like_secrets():
    columns = {"password": "source.password", "access_token": "sha2(source.token, 256)", "secret": "'unset'"}
    clauses = (MatchedUpdate(assignments=columns), NotMatchedInsert(assignments=columns))
    refuse_exposed(replace(PLAIN, clauses=clauses), None, None, target("yarn"))


def test_storage_options_are_secret_by_their_own_names():
    assert refused_places(conf={"storage_options": {"key": WORD, "anon": False}}) == ("conf.storage_options",)


def test_what_airflow_masks_already_is_refused_under_any_name():
    mask_secret("a long secret of a connection")
    assert refused_places(conf={"spark.myapp.color": "a long secret of a connection"}) == ("conf.spark.myapp.color",)


def test_a_hundred_forms_and_more_are_known():
    assert len(SETTINGS) + len(SETTING_VALUES) + len(TEXTS) + len(MESSAGES) >= 150
    assert len(HONEST_SETTINGS) + len(HONEST_TEXTS) + len(ORDINARY_MESSAGES) >= 70


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_long_text_takes_time_in_proportion_to_its_length(attack):
    began = time.process_time()
    text = attack * (100_000 // len(attack))
    with suppress(ExposedSecretError):
        refuse_exposed(replace(PLAIN, on=text), {"spark.x": text}, None, target("yarn"))
    redact_text(text)
    assert time.process_time() - began < 3


def test_variables_are_settings_on_yarn_and_kubernetes_only():
    variables = {"AWS_SECRET_ACCESS_KEY": "hunter2", "HADOOP_CONF_DIR": "/etc/hadoop"}
    refuse_exposed(PLAIN, None, variables, target("local[2]"))
    refuse_exposed(PLAIN, None, variables, target("spark://m:7077"))
    assert refused_places(env_vars=variables, master="yarn") == ("env_vars.AWS_SECRET_ACCESS_KEY",)
    assert refused_places(env_vars=variables, master="k8s://https://m") == ("env_vars.AWS_SECRET_ACCESS_KEY",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repositories", "https://bob:hunter2@packages.example/repo"),
        ("jars", "/opt/a.jar,https://h/x.jar?sig=hunter2"),
        ("files", "https://bob:hunter2@h/x"),
        ("archives", "https://bob:hunter2@h/x.zip#env"),
        ("packages", "a:b:1?token=hunter2"),
        ("py_files", "https://h/x.zip?sig=hunter2"),
        ("properties_file", "https://bob:hunter2@h/x.conf"),
        ("name", "job password=hunter2"),
    ],
)
def test_a_secret_in_an_argument_of_the_submit_is_named_by_the_argument(name, value):
    operator = DeltaVacuumOperator(task_id="t", table="/lake/t", **{name: value})
    with pytest.raises(ExposedSecretError) as caught:
        refuse_exposed(PLAIN, None, None, target("local[2]"), operator.command_arguments)
    assert caught.value.places == (name,)
    assert "hunter2" not in str(caught.value)


def test_ordinary_arguments_of_the_submit_are_not_taken_for_secrets():
    given = {
        "packages": "org.acme:tokens:1.0",
        "exclude_packages": "a:secret:1.0",
        "repositories": "https://packages.example/repo",
        "keytab": "/etc/me.keytab",
        "principal": "me@EXAMPLE.ORG",
        "proxy_user": "airflow_of_the_lake",
        "jars": "s3://lake/secret-tools.jar",
        "name": "rotate tokens",
        "driver_memory": "2g",
        "yarn_queue": "secrets",
        "properties_file": "/etc/spark.conf",
    }
    operator = DeltaVacuumOperator(task_id="t", table="/lake/t", **given)
    assert operator.command_arguments.items() >= given.items()
    refuse_exposed(PLAIN, None, None, target("yarn"), operator.command_arguments)


def test_secrets_in_a_statement_are_named_by_their_place():
    files = FileSource("https://acc.blob.core.windows.net/c/f.csv?sv=1&sig=hunter2", format="csv")
    assert refused_places(WriteStatement(table="s3://AKIA:hunter2@lake/t", source=files)) == (
        "WriteStatement.table",
        "WriteStatement.source.path",
    )
    jdbc = FileSource("t", format="jdbc", options={"password": "hunter2", "user": "me"})
    assert refused_places(WriteStatement(table="/lake/t", source=jdbc)) == ("WriteStatement.source.options.password",)


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


def test_a_condition_on_a_column_that_is_called_like_a_secret_is_shown():
    mask_exposed("target.password = 'unset-in-condition' OR token=other_column_of_tokens")
    assert redact("unset-in-condition other_column_of_tokens") == "unset-in-condition other_column_of_tokens"
