import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from airflow_delta.cli.installation import check_installation
from airflow_delta.cli.main import app, main
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TimestampOutOfRangeError, VersionNotFoundError
from airflow_delta.core.operations.pins import Pin, register


@pytest.fixture
def table(tmp_path):
    """Version 0 has ids 0 and 1 in p=a; version 1 adds id 2 in p=b; version 2 removes id 0."""
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({"id": [0, 1], "p": ["a", "a"]}), partition_by=["p"], name="shop")
    write_deltalake(path, pa.table({"id": [2], "p": ["b"]}), mode="append")
    DeltaTable(path).delete("id = 0")
    return path


def run(*arguments, code=0, **options):
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False, **options
    )
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*arguments, code=0, **options):
    return [json.loads(line) for line in run(*arguments, "--json", code=code, **options).splitlines()]


def test_help_loads_neither_arrow_nor_airflow_nor_spark():
    code = "import sys; from airflow_delta.cli.main import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    assert not {"pyarrow", "airflow", "pyspark", "sqlglot", "fsspec"} & set(loaded)


def test_every_command_has_help():
    for command in ("history", "detail", "files", "diff", "checkpoint", "vacuum", "restore", "doctor", "ship", "pack"):
        assert "Usage" in run(command, "--help")


def test_history_is_newest_first_and_limited(table):
    assert [(entry["version"], entry["operation"]) for entry in run_json("history", table)] == [
        (2, "DELETE"),
        (1, "WRITE"),
        (0, "WRITE"),
    ]
    assert [entry["version"] for entry in run_json("history", table, "--limit", 1)] == [2]
    assert "DELETE" in run("history", table)


def test_the_time_of_a_version_is_the_one_that_time_travel_goes_by(table):
    for entry in run_json("history", table):
        (found,) = run_json("detail", table, "--timestamp", entry["timestamp"])
        assert found["version"] == entry["version"]


def test_the_time_in_the_detail_names_the_version_where_a_clock_ran_backwards(table):
    for version, time in enumerate((1_000, 9_000, 5_000)):
        os.utime(Path(table, "_delta_log", f"{version:020d}.json"), (time, time))
    (found,) = run_json("detail", table)
    assert (found["version"], found["timestamp"]) == (2, 9_000_001)
    (again,) = run_json("detail", table, "--timestamp", "1970-01-01T02:30:00.001Z")
    assert again["version"] == 2


def test_of_a_long_history_people_are_shown_the_newest_commits_and_programs_all(tmp_path):
    path = str(tmp_path / "long")
    for number in range(52):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    shown = run("history", path)
    assert re.findall(r"^ *(\d+) ", shown, re.MULTILINE)[-1] == "2"
    assert "the newest 50 commits are shown, --limit shows more, --json gives all" in shown
    assert len(run_json("history", path)) == 52
    assert "commits are shown" not in run("history", path, "--limit", 52)
    assert len(re.findall(r"^ *(\d+) ", run("history", path, "--limit", 51), re.MULTILINE)) == 51


def test_texts_of_a_table_are_shown_as_they_are(table):
    log = Path(table, "_delta_log")
    info = {"operation": "[/x]LOAD", "operationParameters": {"a": "[/b]"}, "inCommitTimestamp": 10**18}
    metadata = json.loads(next(line for line in (log / f"{0:020d}.json").read_text().splitlines() if "metaData" in line))
    metadata["metaData"] |= {"name": "[/n]", "createdTime": 10**18}
    (log / f"{3:020d}.json").write_text(f'{{"commitInfo":{json.dumps(info)}}}\n{json.dumps(metadata)}\n')
    stray = Path(table, "stray[", "b]x.parquet")
    stray.parent.mkdir()
    stray.touch()
    os.utime(stray, (1, 1))
    assert "[/x]LOAD" in run("history", table)
    assert "[/n]" in run("detail", table)
    assert f"{10**18} ms" in run("detail", table)
    assert "stray[/b]x.parquet" in run("vacuum", table)


def test_partitions_of_zero_and_null_and_a_restore_to_version_zero_are_shown(tmp_path):
    table = str(tmp_path / "hours")
    write_deltalake(table, pa.table({"id": [1, 2], "hour": pa.array([0, None], pa.int32())}), partition_by=["hour"])
    shown = run("files", table)
    assert "hour=0" in shown
    assert "hour=null" in shown
    DeltaTable(table).delete()
    run("restore", table, "--version", 0, "--yes")
    assert "version=0" in run("history", table)


def test_without_a_terminal_no_path_of_an_error_is_folded(tmp_path):
    missing = tmp_path.joinpath(*["a-folder-of-a-long-name"] * 6)
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    command = [sys.executable, "-m", "airflow_delta.cli", "history", str(missing)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert told.returncode != 0
    assert str(missing) in told.stderr


def test_without_a_terminal_no_path_is_folded(table):
    (found,) = run_json("files", table, "--where", "p = 'b'")
    command = [sys.executable, "-m", "airflow_delta.cli"]
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    shown = subprocess.run([*command, "files", table], capture_output=True, text=True, check=True, env=environment).stdout
    assert found["path"] in shown
    nothing = subprocess.run([*command, "vacuum", table], capture_output=True, text=True, check=True, env=environment).stdout
    assert nothing.splitlines()[-1] == "0 files, 0 B: would be deleted (dry run; add --run to delete)"


def test_an_output_that_is_not_unicode_gets_escapes(table):
    DeltaLog.for_table(table).alter().set_properties({"owner": "Jürgen 日本"})
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "airflow_delta.cli", "detail", table, *options]
        shown = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
        assert b"J\\" in shown
    assert json.loads(shown)["properties"]["owner"] == "Jürgen 日本"


def test_detail_describes_the_requested_version(table):
    (latest,), (first,) = run_json("detail", table), run_json("detail", table, "--version", 0)
    assert (latest["version"], latest["numFiles"], latest["name"]) == (2, 2, "shop")
    assert (first["version"], first["numFiles"], first["partitionColumns"]) == (0, 1, ["p"])
    assert first["columns"] == {"id": "bigint", "p": "string"}
    assert "id: bigint" in run("detail", table)


def test_files_are_those_that_a_condition_needs(table):
    (found,) = run_json("files", table, "--where", "p = 'b'")
    assert found["partition_values"] == {"p": "b"}
    assert "2 files" in run("files", table)
    assert len(run_json("files", table, "--version", 0)) == 1


def test_a_diff_counts_files_and_rows_and_names_what_else_changed(table):
    (found,) = run_json("diff", table, 0, 2)
    assert (found["added"]["files"], found["added"]["rows"]) == (2, 2)
    assert (found["removed"]["files"], found["removed"]["rows"]) == (1, 2)
    write_deltalake(table, pa.table({"id": [3], "p": ["c"], "n": [1]}), mode="append", schema_mode="merge")
    DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "true"})
    (found,) = run_json("diff", table, 2, 4)
    assert found["columns"] == ["+ n bigint"]
    assert "+ delta.appendOnly true" in found["properties"]
    assert "+ n bigint" in run("diff", table, 2, 4)


def test_a_checkpoint_is_written(table):
    (found,) = run_json("checkpoint", table)
    assert found["version"] == 2
    assert DeltaLog.for_table(table).snapshot().segment.checkpoint.version == 2


def test_vacuum_deletes_only_with_run(table):
    (dry,) = run_json("vacuum", table, "--retention-hours", 0, "--force")
    assert (dry["dryRun"], dry["files"]) == (True, 1)
    assert "dry run; add --run to delete" in run("vacuum", table, "--retention-hours", 0, "--force")
    path = Path(table) / dry["paths"][0]
    assert path.exists()
    (wet,) = run_json("vacuum", table, "--retention-hours", 0, "--force", "--run")
    assert (wet["dryRun"], wet["paths"]) == (False, dry["paths"])
    assert not path.exists()


def test_detail_and_vacuum_tell_what_is_pinned(table):
    pin = Pin(id="a", alias="t", version=0, dag_id="d", run_id="[r]", task_id="t", created=0, expires=1 << 42)
    register(DeltaLog.for_table(table).store, pin)
    (found,), (dry,) = run_json("detail", table), run_json("vacuum", table, "--retention-hours", 0, "--force")
    assert [pin["version"] for pin in found["pins"]] == [pin["version"] for pin in dry["pins"]] == [0]
    assert dry["files"] == 0
    for shown in (run("detail", table), run("vacuum", table, "--retention-hours", 0, "--force")):
        assert "version 0, pinned by d.t [r] until 2109-05-15" in shown


def test_restore_asks_first(table):
    run("restore", table, "--version", 0, input="n\n", code=1)
    assert DeltaLog.for_table(table).snapshot().version == 2
    run("restore", table, "--version", 0, input="y\n")
    rows = DeltaLog.for_table(table).snapshot().to_arrow(columns=["id"]).read_all()["id"].to_pylist()
    assert sorted(rows) == [0, 1]


@pytest.mark.parametrize("wanted", [("--version", 99), ("--version", 2), ("--timestamp", "1999-01-01")])
def test_restore_of_what_cannot_come_back_is_refused_before_it_asks(table, wanted):
    result = CliRunner().invoke(app, ["restore", table, *map(str, wanted)], input="y\n")
    assert isinstance(result.exception, VersionNotFoundError | TimestampOutOfRangeError | InvalidStatementError)
    assert "?" not in result.stderr


def test_of_a_restore_people_are_shown_figures_and_not_the_record_of_the_commit(table):
    shown = run("restore", table, "--version", 0, "--yes")
    assert "num_restored_files" in shown
    assert "commit_info" not in shown
    assert "IsolationLevel" not in shown
    assert run_json("restore", table, "--version", 1, "--yes")[0]["commit"]["version"] == 4


def test_restore_needs_one_version(table):
    run("restore", table, "--yes", code=2)
    run("restore", table, "--version", 0, "--timestamp", "2024-01-01", "--yes", code=2)


@pytest.mark.parametrize("command", ["detail", "files"])
def test_a_version_is_asked_for_by_number_or_time_but_not_by_both(table, command):
    run(command, table, "--version", 0, "--timestamp", "2024-01-01", code=2)


def test_the_doctor_finds_a_lost_file_and_ends_with_1(table):
    assert run_json("doctor", table)[0]["findings"] == []
    (Path(table) / DeltaLog.for_table(table).snapshot().files()["path"][0].as_py()).unlink()
    (found,) = run_json("doctor", table, code=1)
    assert [finding["code"] for finding in found["findings"]] == ["MISSING_DATA_FILES"]
    assert "MISSING_DATA_FILES" in run("doctor", table, code=1)
    assert run_json("doctor", table, "--log-only")[0]["findings"] == []


def test_the_doctor_examines_this_installation():
    (found,) = run_json("doctor")
    assert not [finding for finding in found["findings"] if finding["severity"] == "error"]
    assert re.search(r"pyarrow \d", found["table"])


@pytest.mark.parametrize(
    ("packages", "codes"),
    [
        ({}, ["SPARK_MISSING"]),
        ({"pyspark-client": "4.2.0", "pandas": "2.3.3", "grpcio": "1.85.1"}, ["SPARK_CLIENT_ALONE"]),
        ({"pyspark-client": "4.2.0"}, ["PANDAS_MISSING", "GRPCIO_MISSING", "SPARK_CLIENT_ALONE"]),
        ({"pyspark": "4.2.0", "pyspark-client": "4.2.0", "pandas": "2.3.3"}, []),
        ({"pyspark": "4.2.1", "pyspark-client": "4.2.0", "pandas": "2.3.3"}, ["SPARK_VERSIONS_MIXED"]),
        ({"pyspark": "4.2.0"}, ["PANDAS_MISSING"]),
    ],
    ids=["none", "client", "client without its packages", "both", "of two versions", "without pandas"],
)
def test_what_is_installed_of_spark_is_judged_by_what_it_is_for(monkeypatch, packages, codes):
    monkeypatch.setattr("airflow_delta.cli.installation.installed", packages.get)
    findings = {finding.code: finding for finding in check_installation().findings}
    assert [code for code in findings if code.startswith(("SPARK", "PANDAS", "GRPC"))] == codes
    if "pyspark" not in packages and "pyspark-client" in packages:
        assert not [finding.code for finding in findings.values() if "airflow-delta[spark]" in finding.remedy]
        assert "pyspark==4.2.0" in findings["SPARK_CLIENT_ALONE"].remedy


REPORT = {
    "table": [["Spark", "4.2.0 on yarn"], ["executors", "Python 3.11"], ["executors", "Python \x1b[2J3.12"]],
    "facts": {"spark": "4.2.0"},
    "findings": [
        {"severity": "error", "code": "PACKAGE_MISSING", "text": "expected pyarrow", "remedy": "send it", "files": []}
    ],
}
SUBMIT = """#!{python}
import json, sys
assert "--conf" in sys.argv and sys.argv[-2:] == ["--json", "s3a://lake/tables"], sys.argv
print("something that Spark prints")
print({report!r})
sys.exit(1)
"""


@pytest.fixture
def spark_submit(tmp_path, monkeypatch):
    """Replaces spark-submit by a program that prints this text."""

    def put(report):
        program = tmp_path / "spark-submit"
        program.write_text(SUBMIT.format(python=sys.executable, report=report))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return put


def test_the_doctor_of_a_cluster_prints_what_its_job_reports_and_ends_with_1(spark_submit):
    spark_submit(json.dumps(REPORT))
    command = ("doctor", "--spark", "s3a://lake/tables", "--master", "yarn", "--conf", "spark.a=b")
    (found,) = run_json(*command, code=1)
    assert found == {"facts": REPORT["facts"], "findings": REPORT["findings"]}
    shown = run(*command, code=1)
    assert "Spark" in shown
    assert r"Python \x1b[2J3.12" in shown
    assert "error PACKAGE_MISSING expected pyarrow" in shown


@pytest.fixture
def pythons_of_the_doctor(tmp_path, spark_submit, monkeypatch):
    """The environment of ``spark-submit`` when the doctor checks a cluster; the doctor's own names no Python."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    spark_submit(json.dumps(REPORT))
    program = tmp_path / "spark-submit"
    written = f"import os, pathlib; pathlib.Path({str(tmp_path / 'seen')!r}).write_text(repr(dict(os.environ)))\n"
    program.write_text(program.read_text().replace("import json, sys\n", f"import json, sys\n{written}"))

    def look(*options):
        run_json("doctor", "--spark", "s3a://lake/tables", "--conf", "spark.a=b", *options, code=1)
        return ast.literal_eval((tmp_path / "seen").read_text())

    return look


@pytest.mark.parametrize(
    "master", [["--master", "yarn"], ["--conf", "spark.master=yarn"], []], ids=["option", "setting", "Spark's own settings"]
)
def test_executors_of_a_cluster_run_a_python_of_their_own_and_the_driver_that_of_the_command(pythons_of_the_doctor, master):
    seen = pythons_of_the_doctor(*master)
    assert seen["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert "PYSPARK_PYTHON" not in seen


@pytest.mark.parametrize("master", [["--master", "local[2]"], ["--conf", "spark.master=local"]])
def test_in_local_mode_tasks_run_the_python_of_the_command(pythons_of_the_doctor, master):
    assert pythons_of_the_doctor(*master)["PYSPARK_PYTHON"] == sys.executable


def test_where_no_master_is_named_tasks_in_local_mode_find_the_python_of_the_command_first(pythons_of_the_doctor):
    path = pythons_of_the_doctor()["PATH"]
    assert path.split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_the_doctor_leaves_the_pythons_that_the_environment_names(pythons_of_the_doctor, monkeypatch):
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/opt/python3")
    seen = pythons_of_the_doctor("--master", "local")
    assert (seen["PYSPARK_DRIVER_PYTHON"], "PYSPARK_PYTHON" in seen) == ("/opt/python3", False)


@pytest.mark.parametrize(
    "options",
    [["--master", "yarn"], ["--conf", "spark.a=b"], ["--spark", "--log-only"], ["--spark", "--storage-option", "a=b"]],
)
def test_options_of_the_doctor_that_would_say_nothing_are_refused(table, options):
    run("doctor", table, *options, code=2)


def test_a_job_without_a_report_is_an_error_with_what_spark_submit_printed(spark_submit, capsys):
    spark_submit("no report")
    with pytest.raises(SystemExit):
        main(["doctor", "--spark", "s3a://lake/tables", "--json"])
    found = json.loads(capsys.readouterr().err)
    assert found["code"] == "DELTA_SUBMIT_FAILED"
    assert "AssertionError" in found["attributes"]["detail"]


UNREACHABLE = """\
26/11/30 15:36:19 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:7999
SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:277)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 4 more
26/11/30 15:36:39 ERROR StandaloneSchedulerBackend: All masters are unresponsive!
26/11/30 15:36:42 WARN StandaloneAppClient$ClientEndpoint: Drop UnregisterApplication(null)
"""
WRONG_MASTER = """\
26/11/30 15:35:22 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" SparkException: Master must either be yarn or start with spark, k8s, or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            UNREACHABLE + "\tat io.netty.Handler.exceptionCaught(Handler.java:1)\n" * 100,
            (
                "SparkException: Exception thrown in awaitResult:; Caused by: java.net.ConnectException: Connection refused; "
                "26/11/30 15:36:39 ERROR StandaloneSchedulerBackend: All masters are unresponsive!"
            ),
        ),
        (
            WRONG_MASTER * 2,
            'Exception in thread "main" SparkException: Master must either be yarn or start with spark, k8s, or local',
        ),
        ("\n".join(f"Error {number}" for number in range(9)), "Error 4; Error 5; Error 6; Error 7; Error 8"),
        ("the queue\nis closed\n", "the queue\nis closed"),
    ],
    ids=["unreachable", "wrong master", "many errors", "no error named"],
)
def test_of_what_spark_submit_printed_the_error_shows_the_lines_that_say_why(spark_submit, tmp_path, capsys, printed, why):
    spark_submit("")
    (tmp_path / "printed").write_text(printed)
    (tmp_path / "spark-submit").write_text(f"#!/bin/sh\ncat '{tmp_path}/printed' >&2\nexit 1\n")
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--spark", "--json"])
    detail = json.loads(capsys.readouterr().err)["attributes"]["detail"]
    assert (caught.value.code, detail) == (1, f"exit code 1: {why}")


def test_what_spark_submit_prints_in_another_encoding_is_in_the_error(spark_submit, tmp_path, capsys):
    spark_submit("")
    (tmp_path / "spark-submit").write_text('#!/bin/sh\nprintf "caf\\351 is closed" >&2\nexit 3\n')
    with pytest.raises(SystemExit):
        main(["doctor", "--spark", "--json"])
    found = json.loads(capsys.readouterr().err)
    assert (found["code"], found["attributes"]["detail"]) == ("DELTA_SUBMIT_FAILED", "exit code 3: caf\ufffd is closed")


@pytest.mark.parametrize(
    ("java", "code"),
    [("\x01\x02 no program", "JAVA_UNFIT"), ('#!/bin/sh\nprintf "caf\\351: version \\"17.0.1\\"" >&2\n', None)],
    ids=["of another machine", "of another encoding"],
)
def test_a_java_that_cannot_be_run_is_a_finding_and_one_that_prints_odd_bytes_is_understood(tmp_path, monkeypatch, java, code):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(java)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("airflow_delta.cli.installation.installed", lambda _: "4.2.0")  # Spark's version
    assert [finding.code for finding in check_installation().findings if "JAVA" in finding.code] == ([code] if code else [])


@pytest.mark.parametrize(
    "report", ['{"table": [["Spark", 26/01/01 INFO a log line', '{"table": 3}'], ids=["broken", "of another form"]
)
def test_a_report_that_cannot_be_read_is_an_error_that_shows_it(spark_submit, capsys, report):
    spark_submit(report)
    with pytest.raises(SystemExit):
        main(["doctor", "--spark", "s3a://lake/tables", "--json", "--master", "yarn", "--conf", "spark.a=b"])
    found = json.loads(capsys.readouterr().err)
    assert found["code"] == "DELTA_SUBMIT_FAILED"
    assert report in found["attributes"]["detail"]


@pytest.mark.parametrize("as_json", [True, False])
def test_our_errors_are_reported_in_their_own_words_on_the_error_output(tmp_path, capsys, as_json):
    with pytest.raises(SystemExit) as caught:
        main(["history", str(tmp_path / "nothing"), *(["--json"] if as_json else [])])
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (1, "")
    assert json.loads(err)["code"] == "DELTA_TABLE_NOT_FOUND" if as_json else "remedy:" in err
    assert not (tmp_path / "nothing").exists()


def test_a_storage_option_that_is_none_is_named_without_its_value(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["history", "s3://bucket/table", "-o", "key"])
    assert caught.value.code == 2
    assert "KEY=VALUE" in capsys.readouterr().err


def test_a_storage_option_that_is_no_json_is_named_without_its_value(capsys):
    with pytest.raises(SystemExit):
        main(["history", "s3://bucket/table", "-o", 'client_kwargs={"aws_secret_access_key": "hush'])
    err = capsys.readouterr().err
    assert "client_kwargs" in err
    assert "hush" not in err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_storage_that_gives_no_answer_is_reported_without_a_traceback(monkeypatch, table, capsys, as_json):
    def unplugged(*_):
        raise OSError("s3://bucket/table: could not connect")

    monkeypatch.setattr("airflow_delta.cli.open_table.log_store_for", unplugged)
    with pytest.raises(SystemExit) as caught:
        main(["history", table, *(["--json"] if as_json else [])])
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (1, "")
    assert json.loads(err)["code"] == "STORAGE_UNAVAILABLE" if as_json else "could not connect" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is always full")
@pytest.mark.parametrize("as_json", [True, False])
def test_an_output_that_takes_nothing_is_no_fault_of_the_storage(table, as_json):
    command = [sys.executable, "-m", "airflow_delta.cli", "files", str(table), *(["--json"] if as_json else [])]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    if as_json:
        found = json.loads(done.stderr)
        assert (found["code"], found["retryable"]) == ("OUTPUT_NOT_WRITTEN", False)
    else:
        assert "OUTPUT_NOT_WRITTEN [Errno 28]" in done.stderr
        assert "remedy: make room where the output goes" in done.stderr


@pytest.mark.parametrize(("setting", "key"), [("foo", "foo"), ("=hush", ""), (" =hush", " ")])
def test_a_setting_of_the_doctor_that_is_not_key_value_is_refused_before_spark_starts(spark_submit, capsys, setting, key):
    spark_submit(json.dumps(REPORT))
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--spark", "--conf", "spark.a=b", "--conf", setting, "--json"])
    found = json.loads(capsys.readouterr().err)
    assert caught.value.code == 2
    assert found["code"] == "DELTA_INVALID_STATEMENT"
    assert found["attributes"] == {"statement": f"the setting {key!r}", "detail": "expected KEY=VALUE"}


@pytest.mark.parametrize(
    ("command", "detail"),
    [
        (["detail", "{table}", "-t", "nonsense"], "the timestamp 'nonsense' is not valid: expected an ISO date or time"),
        (["restore", "{table}", "-t", "nonsense"], "the timestamp 'nonsense' is not valid: expected an ISO date or time"),
        (["files", "{table}", "-o", "nope"], "the storage option 'nope' is not valid: expected KEY=VALUE"),
        (["pack", "{table}", "--extra", "nope"], "the extra 'nope' is not valid: expected one of s3, gcs, azure"),
        (["pack", "{table}", "--python", "2.x"], "the Python '2.x' is not valid: expected a minor version"),
        (["pack", "az://code/x"], "the folder 'az://code/x' is not valid"),
        (["ship", "{table}/a,b"], "is not valid: "),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_which_argument_is_wrong(table, capsys, command, detail):
    with pytest.raises(SystemExit) as caught:
        main([part.format(table=table) for part in command])
    said = " ".join(capsys.readouterr().err.split())
    assert (caught.value.code, said.startswith("DELTA_INVALID_STATEMENT ")) == (2, True)
    assert detail in said
    assert said.endswith("remedy: correct the arguments")


def test_what_only_the_table_makes_wrong_ends_with_1(table, capsys):
    for wanted in (("--version", "2"), ("--version", "99"), ("--timestamp", "1999-01-01")):
        with pytest.raises(SystemExit) as caught:
            main(["restore", table, "--yes", *wanted])
        assert (caught.value.code, "remedy:" in capsys.readouterr().err) == (1, True)


def test_a_name_without_a_catalog_says_how_to_name_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIRFLOW_DELTA_CATALOG", raising=False)
    with pytest.raises(SystemExit):
        main(["history", "sales.orders"])
    said = " ".join(capsys.readouterr().err.split())
    assert "DELTA_INVALID_TABLE_NAME" in said
    assert "--catalog" in said
    write_deltalake("sales.orders", pa.table({"id": [1]}))
    assert CliRunner().invoke(app, ["history", "sales.orders"]).exit_code == 0  # a folder may be called so
