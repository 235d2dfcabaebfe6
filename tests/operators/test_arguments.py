"""Flags, numbers and words of operators and sensors: refused when the DAG is parsed, or when their templates are rendered."""

import inspect
from datetime import timedelta
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import pendulum
import pytest
from airflow.sdk import DAG, Asset, BaseOperator, XComArg, task_group

from airflow_delta import operators
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, RelativePathError
from airflow_delta.core.statements import (
    AlterStatement,
    CheckpointStatement,
    DeleteStatement,
    MergeStatement,
    SqlSource,
    WriteStatement,
)
from airflow_delta.hooks.airflow_features import HAS_PARTITION_KEYS
from airflow_delta.operators import (
    DeltaAlterOperator,
    DeltaCheckpointOperator,
    DeltaCleanUpLogOperator,
    DeltaCopyIntoOperator,
    DeltaCreateOperator,
    DeltaDeleteOperator,
    DeltaExpectOperator,
    DeltaJob,
    DeltaMaintenanceOperator,
    DeltaMergeOperator,
    DeltaNewCommitsOperator,
    DeltaOptimizeOperator,
    DeltaPinOperator,
    DeltaPublishOperator,
    DeltaPythonOperator,
    DeltaRestoreOperator,
    DeltaResultOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
    DeltaTableHealthOperator,
    DeltaTablesOperator,
    DeltaUpdateOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
    DropFeature,
    MatchedDelete,
    SetDefault,
    SetProperties,
    TableSource,
    UpgradeProtocol,
    Version,
)
from airflow_delta.operators.task_delta import delta_task
from airflow_delta.sensors import DeltaCommitSensor
from tests.slow_cases import slow_after

ALL = [getattr(operators, name) for name in operators.__all__ if name.endswith("Operator")]
ALL.append(DeltaCommitSensor)
T = {"task_id": "t", "table": "/t"}
JOB = DeltaJob(statement=CheckpointStatement(table="/t"), scratch_uri="/s", code_uri="/c")
OURS = {"id": "BIGINT"}


def rows(spark):
    return spark.range(3)


def query_of(view):
    return SqlSource("SELECT * FROM v", views={"v": view})


def write_of(source):
    return WriteStatement(table="/t", source=source)


def merge_of(*clauses):
    return MergeStatement(table="/t", source=TableSource("/s"), on="a", clauses=clauses)


def steps(*statements):
    return DeltaStatementsOperator(task_id="t", statements=statements)


def flags_and_numbers(operator):
    """The arguments that our own constructors declare as flags, numbers or words."""
    for owner in operator.__mro__:
        if owner.__module__.startswith("airflow_delta") and "__init__" in vars(owner):
            for name, hint in get_type_hints(inspect.unwrap(owner.__init__)).items():
                parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
                if {bool, int, float} & {*parts} or any(get_origin(part) is Literal for part in parts):
                    yield name


@pytest.mark.parametrize("operator", ALL)
def test_every_flag_number_and_word_is_a_template_field(operator):
    declared = {*flags_and_numbers(operator)} - {"tables", "as_of", "txn"}
    assert declared - {*operator.template_fields} == set()


def test_the_flags_and_numbers_of_operators_are_found():
    assert {"dry_run", "deferrable", "lite", "retention_hours", "engine"} <= {*flags_and_numbers(DeltaVacuumOperator)}
    assert {"data_change_only", "deferrable", "min_rows", "min_version"} <= {*flags_and_numbers(DeltaCommitSensor)}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DeltaWriteOperator(**T, source="/s", mode="apend"), "did you mean 'append'"),
        (lambda: DeltaWriteOperator(**T, source="/s", overwrite_schema="no"), "must be true or false"),
        (
            lambda: DeltaWriteOperator(**T, source="/s", replace_where="a = {{ 1 }}"),
            "replace_where cannot be combined",
        ),
        (
            lambda: DeltaSqlOperator(**T, query="SELECT 1", views={}, mode="overwrit"),
            "did you mean 'overwrite'",
        ),
        (
            lambda: DeltaVacuumOperator(**T, retention_hour=5),
            "unexpected argument 'retention_hour'.*'retention_hours'",
        ),
        (
            lambda: DeltaDeleteOperator(**T, predicate="id = 1"),
            "unexpected argument 'predicate'; its own arguments are dry_run, publish, table, where",
        ),
        (lambda: DeltaVacuumOperator(**T, spark_conn_id="s"), "unexpected argument 'spark_conn_id'; did you mean 'conn_id'"),
        (lambda: DeltaStatementsOperator(**T, statements=[]), "unexpected argument 'table': each statement names its own"),
        (lambda: DeltaCommitSensor(**T, min_version="None"), "found 'None'; a template that finds nothing, such as an XCom"),
        (delta_task(rows, **T, replace_wher="x"), "@task.delta is not valid: .*did you mean 'replace_where'"),
        (lambda: DeltaWriteOperator(**T, soruce="/s"), "unexpected argument 'soruce'; did you mean 'source'"),
        (lambda: DeltaWriteOperator(task_id="t", path="/t", source="/s"), "'path'; its own arguments are .*, mode, .*, table"),
        (lambda: DeltaPublishOperator(**T, handles=[]), "unexpected argument 'table': each handle names its own"),
        (lambda: DeltaWriteOperator(**T, source="WITH a AS (SELECT 1)\nSELECT * FROM a"), r"the query .*; write SqlSource\("),
        (lambda: DeltaWriteOperator(**T, source=["/s"]), r"the URI of a Delta table, TableSource\(...\), .*found \['/s'\]"),
        (lambda: DeltaSqlOperator(**T, query="SELECT 1", views=["/v"]), r"views must be a mapping, found \['/v'\]"),
        (lambda: DeltaSqlOperator(**T, query="SELECT 1", views={"v": "SELECT 2"}), "the view v is not valid: .* the query"),
        (lambda: DeltaVacuumOperator(**T, lite=True, inventory="{{ i }}"), "exclude each other"),
        (
            lambda: DeltaVacuumOperator(**T, dry_run="maybe"),
            "dry_run must be true or false, found 'maybe'",
        ),
        (lambda: DeltaVacuumOperator(**T, engine="Worker"), "did you mean 'worker'"),
        (lambda: DeltaVacuumOperator(**T, deferrable="maybe"), "deferrable must be true or false"),
        (lambda: DeltaVacuumOperator(**T, poll_interval="soon"), "poll_interval must be a number"),
        (lambda: DeltaVacuumOperator(**T, poll_interval=0), "must be more than 0 seconds, found 0.0"),
        (lambda: DeltaVacuumOperator(**T, emit="alway"), "did you mean 'always'"),
        (lambda: DeltaRestoreOperator(**T, version=1, on_clear="resue"), "did you mean 'reuse'"),
        (lambda: DeltaRestoreOperator(**T, version=1, timestamp="2026-01-01"), "give either a version or a timestamp"),
        (lambda: DeltaRestoreOperator(**T, timestamp="yesterday"), "must be an ISO date or time"),
        (lambda: DeltaCreateOperator(**T, columns=OURS, mode="replce"), "did you mean 'replace'"),
        (lambda: DeltaOptimizeOperator(**T, z_order_by="a", full="true"), "cannot be combined with z_order_by"),
        (lambda: DeltaCheckpointOperator(**T, kind="v2json"), "did you mean 'v2-json'"),
        (lambda: DeltaMaintenanceOperator(**T, steps=["vaccum"]), "did you mean 'vacuum'"),
        (lambda: DeltaMaintenanceOperator(**T, min_small_files="1"), "must be 2 or more"),
        (lambda: DeltaTableHealthOperator(**T, fail_on="warn"), "did you mean 'warning'"),
        (lambda: DeltaMergeOperator(**T, source="/s"), "on must be a text"),
        (lambda: DeltaMergeOperator(**T, source="/s", on="a", sql="MERGE"), "part of the text of sql"),
        (lambda: DeltaMergeOperator(**T, source="/s", on="a", views={"v": "/v"}), "views go with sql only"),
        (lambda: DeltaMergeOperator(**T, source="/s", sql="MERGE", schema_evolution="{{ 1 }}"), "part of the text of sql"),
        (
            lambda: DeltaMergeOperator(**T, sql="MERGE", views={"v": "/v"}, source_version="{{ 3 }}"),
            "source_version is that of source",
        ),
        (
            lambda: DeltaMergeOperator(**T, source=TableSource("/s", version=1), source_version=2, on="a"),
            "excludes a version",
        ),
        (lambda: DeltaUpdateOperator(**T, assignments={}), "needs one assignment or more"),
        (lambda: DeltaAlterOperator(**T, changes=DropFeature("f"), dry_run="1"), "has no dry run"),
        (lambda: DeltaPinOperator(task_id="t", tables={"a": "/a"}, as_of={"b": Version(1)}), "as_of names b"),
        (lambda: DeltaPinOperator(task_id="t", tables={"a b": "/a"}), "the alias 'a b'"),
        (lambda: DeltaPinOperator(task_id="t", tables={"a": "/a"}, keep_for=5), "keep_for must be a timedelta"),
        (lambda: DeltaPinOperator(task_id="t", tables={"a": "/a"}, refresh="perhaps"), "refresh must be true or false"),
        (lambda: DeltaNewCommitsOperator(task_id="t", asset=Asset("a"), start="oldest"), "latest, earliest or a whole number"),
        (
            lambda: DeltaNewCommitsOperator(task_id="t", asset=Asset("a"), strat="latest"),
            "unexpected argument 'strat'.*'start'",
        ),
        (
            lambda: DeltaNewCommitsOperator(task_id="t", asset="/lake/orders"),
            r"delta_asset\(name, table\) returns, found '/lake/",
        ),
        (lambda: DeltaResultOperator(task_id="t", job=JOB, waits="true"), "needs execution_timeout"),
        (lambda: DeltaResultOperator(task_id="t", job=None), r"job must be DeltaJob\(...\), found None"),
        (lambda: DeltaVacuumOperator(**T, delta_conn_id=None), "delta_conn_id must be a text, found None"),
        (lambda: DeltaCommitSensor(**T, min_version=1, delta_conn_id=5), "delta_conn_id must be a text, found 5"),
        (lambda: DeltaTablesOperator(task_id="t", root="/t", delta_conn_id=None), "delta_conn_id must be a text"),
        (lambda: DeltaNewCommitsOperator(task_id="t", asset=Asset("a"), delta_conn_id=None), "delta_conn_id must be a text"),
    ],
)
def test_what_no_template_can_make_right_is_refused_when_the_dag_is_parsed(make, text):
    with pytest.raises(InvalidStatementError, match=text):
        make()


def test_what_a_template_or_another_task_decides_waits_for_the_run():
    with DAG("waits", schedule=None, start_date=pendulum.datetime(2026, 1, 1)):
        first = DeltaNewCommitsOperator(task_id="first", asset=Asset("a"), start="{{ params.start }}")
        later = XComArg(first)
        write = DeltaWriteOperator(
            task_id="write",
            table="/t",
            source="/s",
            mode="{{ params.mode }}",
            replace_where="{{ params.where }}",
            dry_run="{{ 1 }}",
        )
        vacuum = DeltaVacuumOperator(task_id="vacuum", table="/t", lite="{{ lite }}", inventory="f", retention_hours=later)
        sql = DeltaSqlOperator(task_id="sql", table="/t", query="SELECT 1", views={"v": later["table"]}, properties=later["p"])
        update = DeltaUpdateOperator(task_id="update", table="/t", assignments=later["a"], expect=later["e"])
        merge = DeltaMergeOperator(
            task_id="merge", table=later["t"], source="/s", source_version=later["v"], on="a", clauses=later["c"]
        )
        alter = DeltaAlterOperator(task_id="alter", table="/t", changes=later["c"], engine=later["engine"])
        pin = DeltaPinOperator(task_id="pin", tables=later["tables"], as_of={"b": Version(1)})
        result = DeltaResultOperator(task_id="result", job=JOB, waits="{{ params.waits }}")
        restore = DeltaRestoreOperator(task_id="restore", table="/t", version="{{ params.v }}", timestamp="{{ params.t }}")
    assert first.start == "{{ params.start }}"
    assert (write.mode, write.dry_run, vacuum.lite) == ("{{ params.mode }}", "{{ 1 }}", "{{ lite }}")
    assert vacuum.retention_hours is later
    assert result.waits == "{{ params.waits }}"
    dependants = [vacuum, sql, update, merge, alter, pin]
    assert [first.task_id in task.upstream_task_ids for task in dependants] == [True] * len(dependants)
    assert restore.upstream_task_ids == set()


def test_texts_of_flags_and_numbers_of_the_operator_itself_are_what_they_say():
    task = DeltaVacuumOperator(
        task_id="t", table="/t", deferrable="false", poll_interval="5", partition_keys=f" {HAS_PARTITION_KEYS} "
    )
    assert (task.deferrable, task.poll_interval, task.partition_keys) == (False, 5.0, HAS_PARTITION_KEYS)
    assert DeltaResultOperator(task_id="t", job=JOB, waits="1", execution_timeout=timedelta(1)).waits is True


def test_only_what_was_given_is_shown_as_rendered():
    task = DeltaVacuumOperator(task_id="t", table="/t", retention_hours="{{ params.hours }}", dry_run=False, conf={"a": "b"})
    assert task.template_fields == [
        *("conf", "name", "table", "delta_conn_id", "on_clear", "deferrable", "poll_interval", "emit", "partition_keys"),
        *("engine", "retention_hours", "dry_run", "enforce_retention", "lite"),
    ]
    assert {*task.template_fields} < {*DeltaVacuumOperator.template_fields}
    task.inventory = "{{ params.inventory }}"
    assert task.template_fields[-1] == "inventory"  # or it would never be rendered


VALUES = {"no": False, "yes": True, "text": "False", "word": "maybe", "reader": 3}


@pytest.mark.parametrize("native", slow_after(1, [False, True]), ids=["text", "native"])
@pytest.mark.parametrize(("param", "is_dry"), [("no", False), ("yes", True), ("text", False)])
def test_a_rendered_dry_run_does_what_it_says(empty_table, run_task, monkeypatch, native, param, is_dry):
    lines = []
    monkeypatch.setattr(DeltaAlterOperator, "log", Mock(info=lambda text, *values: lines.append(text % values)))
    run = run_task(
        lambda: DeltaAlterOperator(
            task_id="task",
            table=str(empty_table),
            changes=SetProperties({"a": "b"}),
            dry_run=f"{{{{ params.{param} }}}}",
            engine="{{ 'worker' }}",
        ),
        native=native,
        params=VALUES,
    )
    result = run.result
    assert (result["dry_run"], result["committed"], result["version"]) == (is_dry, not is_dry, 0 if is_dry else 1)
    assert any("dry run" in line for line in lines) is is_dry


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_a_template_that_renders_to_no_flag_fails_the_task_by_its_name(empty_table, run_task, native):
    run = run_task(
        lambda: DeltaCleanUpLogOperator(task_id="task", table=str(empty_table), dry_run="{{ params.word }}", engine="worker"),
        native=native,
        params=VALUES,
    )
    assert run.state == "failed"
    assert "dry_run must be true or false, found 'maybe'" in str(run.errors[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda where: DeltaDeleteOperator(**T, where=where),
        lambda where: DeltaUpdateOperator(**T, assignments={"id": "1"}, where=where),
        lambda where: DeltaStatementsOperator(task_id="t", statements={"s": DeleteStatement(table="/t", where=where)}),
    ],
    ids=["delete", "update", "one of several statements"],
)
def test_a_condition_whose_template_renders_to_none_never_becomes_all_rows(run_task, make):
    run = run_task(lambda: make("{{ ti.xcom_pull('no such task') }}"), native=True)
    [error] = run.errors
    assert isinstance(error, InvalidStatementError)
    assert "where must render to a condition" in error.detail


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda none: DeltaCommitSensor(**T, min_version=1, partitions=none), "partitions must .* mean any partition"),
        (lambda none: DeltaCommitSensor(**T, min_version=1, min_rows=none), "min_rows must .* mean any number of rows"),
        (lambda none: DeltaCommitSensor(**T, min_version=1, operations=none), "operations must .* mean any operation"),
        (lambda none: DeltaUpdateOperator(**T, assignments={"a": "1"}, expect=none), "expect must .* mean no check"),
        (lambda none: DeltaExpectOperator(**T, expect="a", staged=none), "staged must .* mean the table as it is"),
        (lambda none: DeltaWriteOperator(**T, source=TableSource("/s", staged=none)), "staged must .* mean the table as it is"),
        (
            lambda none: DeltaWriteOperator(**T, source="/s", source_version=none),
            "source_version must .* mean the latest version",
        ),
        (lambda none: DeltaWriteOperator(**T, source=TableSource("/s", version=none)), "version must .* the latest version"),
        (
            lambda none: DeltaWriteOperator(**T, source=TableSource("/s", timestamp=none)),
            "timestamp must .* the latest version",
        ),
        (
            lambda none: DeltaWriteOperator(**T, source=query_of(TableSource("/s", staged=none))),
            "staged must .* table as it is",
        ),
        (lambda none: steps(write_of(query_of(TableSource("/s", version=none)))), "version must .* mean the latest version"),
        (lambda none: DeltaCopyIntoOperator(**T, path="/s", format="csv", pattern=none), "pattern must .* mean everything"),
        (lambda none: DeltaTablesOperator(task_id="t", root="/s", pattern=none), "pattern must .* mean everything"),
    ],
)
def test_what_a_task_waits_for_or_reads_is_refused_where_its_template_renders_to_none(make, text):
    with DAG("d", schedule=None, render_template_as_native_obj=True) as dag:
        task = make("{{ none }}")
    with pytest.raises(InvalidStatementError, match=text):
        task.render_template_fields({"ti": Mock(), "dag": dag, "task": task})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda none: DeltaMergeOperator(**T, source="/s", on="a", clauses=[MatchedDelete(condition=none)]), "condition must"),
        (lambda none: steps(merge_of(MatchedDelete(condition=none))), "condition must .* mean all rows"),
        (lambda none: DeltaMergeOperator(**T, source="/s", on="a", clauses=none), "clauses must .* mean an upsert"),
        (lambda none: DeltaPythonOperator(**T, python_callable=rows, on=none), "on must .* written, not merged"),
        (lambda none: DeltaWriteOperator(**T, source="/s", txn=none), "txn must .* a write that may be done twice"),
        (lambda none: DeltaAlterOperator(**T, changes=SetDefault("a", none)), "sql must .* mean no default"),
        (lambda none: steps(AlterStatement(table="/t", changes=(SetDefault("a", none),))), "sql must .* mean no default"),
    ],
)
def test_what_a_task_changes_is_refused_where_its_template_renders_to_none(make, text):
    with DAG("d", schedule=None, render_template_as_native_obj=True) as dag:
        task = make("{{ none }}")
    with pytest.raises(InvalidStatementError, match=text):
        task.render_template_fields({"ti": Mock(), "dag": dag, "task": task})


def test_a_source_whose_version_renders_to_none_is_read_at_the_time_that_is_given_and_a_default_may_be_dropped():
    with DAG("d", schedule=None, render_template_as_native_obj=True) as dag:
        write = DeltaWriteOperator(**T, source=TableSource("/s", version="{{ none }}", timestamp="{{ '2026-11-27' }}"))
        alter = DeltaAlterOperator(task_id="alter", table="/t", changes=SetDefault("{{ 'a' }}", None))
    for task in (write, alter):
        task.render_template_fields({"ti": Mock(), "dag": dag, "task": task})
    assert write.statement().source == TableSource("/s", timestamp="2026-11-27")
    assert alter.statement().changes == (SetDefault("a", None),)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_partitions_that_render_to_nothing_never_become_any_partition(tmp_path, run_task, native):
    run = run_task(
        lambda: DeltaCommitSensor(task_id="task", table=str(tmp_path / "t"), min_version=0, partitions="{{ params.empty }}"),
        native=native,
        params={"empty": ""},
    )
    [error] = run.errors
    assert "partitions must be a text with something in it, found ''" in error.detail


def test_a_condition_that_another_task_returns_as_none_never_becomes_all_rows():
    with DAG("d", schedule=None):
        delete = DeltaDeleteOperator(**T, where=BaseOperator(task_id="nothing").output)
    with pytest.raises(InvalidStatementError, match="where must render to a condition"):
        delete.where = None  # as Airflow sets what the task has returned


def test_a_mapped_condition_that_is_none_never_becomes_all_rows():
    with DAG("d", schedule=None):
        delete = DeltaDeleteOperator.partial(**T).expand(where=["id = 1", None])
        anywhere = DeltaDeleteOperator.partial(task_id="all").expand(table=["/t"])
    assert delete.unmap({"where": "id = 1"}).where == "id = 1"
    assert anywhere.unmap({"table": "/t"}).where is None
    with pytest.raises(InvalidStatementError, match="where must render to a condition"):
        delete.unmap({"where": None})


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_mapped_operators_render_their_flags_and_numbers(empty_table, run_task, native):
    run = run_task(
        lambda: DeltaAlterOperator.partial(
            task_id="task",
            changes=UpgradeProtocol("{{ params.reader }}", "7"),
            dry_run="{{ params.text }}",
            engine="{{ 'worker' }}",
        ).expand(table=[str(empty_table)]),
        native=native,
        params=VALUES,
    )
    assert run.state == "success"
    protocol = DeltaLog.for_table(str(empty_table)).snapshot(1).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)


def test_a_table_is_deleted_from_only_where_the_flag_says_so():
    task = DeltaDeleteOperator(task_id="t", table="/t", where="a = 1", dry_run="false")
    assert task.statement().dry_run is False


def test_a_relative_table_fails_the_task_and_leaves_nothing_behind(tmp_path, monkeypatch, run_task):
    """It would be written into the working directory of the worker."""
    monkeypatch.chdir(tmp_path)
    run = run_task(
        lambda: DeltaCreateOperator(task_id="task", table="orders", columns=OURS, engine="worker"), dag_id="relative"
    )
    assert run.state == "failed"
    assert isinstance(run.errors[0], RelativePathError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", [{"statement": CheckpointStatement(table="t")}, {"scratch_uri": "s"}, {"code_uri": "c"}])
def test_a_job_of_another_operator_names_full_uris(job):
    with pytest.raises(RelativePathError, match="is a relative path, and the job of another operator has no delta connection"):
        DeltaJob(**{"statement": CheckpointStatement(table="{{ t }}"), "scratch_uri": "/s", "code_uri": "/c", **job})


def test_the_code_of_a_job_lies_where_spark_does_not_split_the_name():
    with pytest.raises(InvalidStatementError, match="expected a folder without '#', where Spark would split its name"):
        DeltaJob(statement=CheckpointStatement(table="/t"), scratch_uri="/s", code_uri="/code#1")
    templated = "/{{ ','.join(['code', ds]) }}"
    assert DeltaJob(statement=CheckpointStatement(table="/t"), scratch_uri="/s", code_uri=templated).code_uri == templated


def test_an_argument_of_a_mapped_task_group_or_of_the_dag_is_only_known_in_a_run():
    @task_group
    def care(table, hours):
        DeltaVacuumOperator(task_id="vacuum", table=table, retention_hours=hours, engine="worker")
        DeltaCommitSensor(task_id="wait", table=table, min_version=hours)

    with DAG("care", schedule=None, start_date=pendulum.datetime(2026, 1, 1)) as dag:
        care.partial(hours=168).expand(table=["/a", "/b"])
        DeltaVacuumOperator(task_id="of_the_dag", table=dag.param("table", "/c"))
    assert [task_id for task_id in dag.task_ids if task_id != "of_the_dag"] == ["care.vacuum", "care.wait"]


def test_each_task_of_a_mapped_task_group_works_on_its_own_table(tmp_path, run_task):
    tables = [str(tmp_path / name) for name in "ab"]

    @task_group
    def care(table):
        DeltaCreateOperator(task_id="create", table=table, columns={"id": "BIGINT"}, engine="worker")

    run = run_task(
        lambda: DeltaCreateOperator(task_id="first", table=str(tmp_path / "c"), columns=OURS, engine="worker"),
        more=lambda _: care.expand(table=tables),
    )
    assert run.errors == []
    assert [DeltaLog.for_table(table).snapshot().version for table in tables] == [0, 0]


@pytest.mark.parametrize("path", ["in", "in/orders", "None"])
def test_a_relative_path_of_files_to_load_is_refused_when_the_dag_is_parsed(path):
    given = {"task_id": "t", "table": "/t", "format": "csv"}
    with pytest.raises(RelativePathError, match=f"'{path}' is a relative path, and no connection gives a root to the files"):
        operators.DeltaCopyIntoOperator(path=path, **given)
    assert operators.DeltaCopyIntoOperator(path="in/{{ ds }}", **given).path == "in/{{ ds }}"
