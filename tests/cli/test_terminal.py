"""No text from a table moves the terminal's cursor, starts a line, changes the text direction or becomes markup."""

import json
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from airflow_delta.cli.main import app, main
from airflow_delta.core import DeltaLog
from airflow_delta.core.operations.pins import Pin, register

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\u2066\x7f\r\nERROR forged\u2028[link=https://evil][bold]:skull:\U000e0041"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")


@pytest.fixture
def table(tmp_path):
    """A table in which every text that an attacker may choose is hostile."""
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"id": [1], "p": [EVIL]}), partition_by=["p"])
    log = path / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().strip().split("\n")]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    metadata |= {"name": EVIL, "description": EVIL, "configuration": {EVIL: EVIL}}
    add = next(line["add"] for line in lines if "add" in line) | {"path": "gone%1B%5B2J%0Afile.parquet"}
    info = {
        "operation": EVIL,
        "operationParameters": {EVIL: EVIL},
        "operationMetrics": {"numOutputRows": EVIL},
        "engineInfo": EVIL,
        "userMetadata": EVIL,
        "airflowDelta": {"dag_id": EVIL, "task_id": EVIL, "run_id": EVIL},
    }
    actions = ({"commitInfo": info}, {"metaData": metadata}, {"add": add})
    (log / f"{1:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    (path / "stray\x1b[2J\n.parquet").touch()
    now = round(time.time() * 1_000)
    pin = Pin(id="a", alias="t", version=0, dag_id=EVIL, run_id=EVIL, task_id=EVIL, created=now, expires=now + 10**7)
    register(DeltaLog.for_table(str(path)).store, pin)
    return path


COMMANDS = [
    ("history",),
    ("detail",),
    ("files",),
    ("diff", 0, 1),
    ("vacuum", "--retention-hours", 0, "--force"),
    ("doctor",),
    ("files", "--where", "nothing\x1b[2J = 1"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["for people", "for programs"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_text_of_a_table_controls_the_terminal(table, capsys, monkeypatch, command, as_json):
    monkeypatch.setenv("COLUMNS", "400")
    name, *options = map(str, command)
    with pytest.raises(SystemExit):
        main([name, str(table), *options, *(["--json"] if as_json else [])])
    out, err = capsys.readouterr()
    for shown in (out, err):
        assert not CONTROLS.search(shown), repr(CONTROLS.search(shown))
        assert not [line for line in shown.splitlines() if line.startswith("ERROR forged")]
    assert "\\x1b" in out + err or "\\u001b" in out + err
    if as_json and out:
        assert all(json.loads(line) for line in out.splitlines())


def test_markup_and_emoji_of_a_table_are_shown_as_they_are_written(table):
    shown = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["detail", str(table)]).stdout
    assert "[link=https://evil][bold]:skull:" in shown


def test_json_gives_programs_the_very_text(table):
    (found,) = map(json.loads, CliRunner().invoke(app, ["detail", str(table), "--json"]).stdout.splitlines())
    assert (found["name"], found["properties"][EVIL]) == (EVIL, EVIL)


def test_the_files_of_a_table_are_named_with_escapes(table):
    assert Path(table, "stray\x1b[2J\n.parquet").exists()
    shown = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["vacuum", str(table), "--retention-hours", "0", "--force"]).stdout
    assert r"stray\x1b[2J\n.parquet" in shown
