"""Flags, numbers and words of statements: what a text means, and what is refused."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    AddColumns,
    CheckpointStatement,
    CreateStatement,
    DeleteStatement,
    MaintenanceStatement,
    MergeStatement,
    OptimizeStatement,
    ProducedBy,
    RestoreStatement,
    TableSource,
    Timestamp,
    UpdateStatement,
    VacuumStatement,
    Version,
    WriteMode,
    WriteStatement,
)
from airflow_delta.core.statements.json_form import TYPES, map_texts, statement_from_json, to_json

FEED = TableSource("/feed")
OF_KIND = {
    kind: [
        (owner, field.name)
        for owner in TYPES.values()
        for field in fields(owner)
        if get_type_hints(owner)[field.name] in (kind, kind | None)
    ]
    for kind in (bool, int, float)
}
# The arguments that a statement cannot be made without, unless it is only the table.
REQUIRED: dict[str, Any] = {
    "alter": {"table": "/t", "changes": [AddColumns("a INT")]},
    "create": {"table": "/t", "columns": "a INT"},
    "merge": {"table": "/t", "source": FEED, "on": "a = b"},
    "update": {"table": "/t", "assignments": {"a": "1"}},
    "clone": {"table": "/t", "source": FEED},
    "write": {"table": "/t", "source": FEED},
    "copy_into": {"table": "/t", "path": "/in", "format": "csv"},
    "restore": {"table": "/t", "version": 1},
    "pin": {"id": "a", "tables": ()},
    "add_columns": {"columns": "a INT"},
    "drop_columns": {"columns": "a"},
    "move_column": {"column": "a", "after": "b"},
    "unset_properties": {"names": "a"},
    "drop_constraint": {"name": "a"},
    "drop_feature": {"name": "a"},
    "upgrade_protocol": {"reader_version": 1, "writer_version": 1},
    "python": {"function": "team.jobs:rows"},
}


def make_value(owner, **values):
    required = next(REQUIRED.get(name, {"table": "/t"}) for name, known in TYPES.items() if known is owner)
    return owner(**{**required, **values})


def test_there_are_flags_and_numbers_to_be_checked():
    assert all(len(found) >= fewest for found, fewest in zip(OF_KIND.values(), (34, 14, 3), strict=True))


@pytest.mark.parametrize(("owner", "name"), OF_KIND[bool], ids=lambda part: getattr(part, "__name__", part))
def test_every_flag_refuses_what_is_neither_true_nor_false(owner, name):
    for text in ["maybe", "", "None", "yes", "no", "2", "t", 2, 1.0, [], {}]:
        with pytest.raises(InvalidStatementError, match=f"{name} must be true or false, found "):
            make_value(owner, **{name: text})


class Output:
    """What one task returns to another, as Airflow has it in a DAG file."""

    def __str__(self):
        return "{{ task_instance.xcom_pull(task_ids='pin') }}"


def test_the_output_of_another_task_is_refused_with_the_template_that_reads_it():
    with pytest.raises(
        InvalidStatementError, match=r"version must be a whole number, .* the text \"{{ task_instance.xcom_pull\("
    ) as raised:
        TableSource("/t", version=Output())
    assert TableSource("/t", version=str(Output())).version == str(Output())
    assert "set that task before this one" in str(raised.value)


@pytest.mark.parametrize(("owner", "name"), OF_KIND[int], ids=lambda part: getattr(part, "__name__", part))
def test_every_whole_number_refuses_what_is_none(owner, name):
    for text in ["seven", "", "None", "1_000", "\u0667", "0x10", "7.5", 7.5, True, "9" * 5000, [], "nan"]:
        with pytest.raises(InvalidStatementError, match=f"{name} must be a whole number, found "):
            make_value(owner, **{name: text})


@pytest.mark.parametrize(("owner", "name"), OF_KIND[float], ids=lambda part: getattr(part, "__name__", part))
def test_every_number_refuses_what_is_none(owner, name):
    for text in ["much", "", "None", "1_0.0", "nan", "inf", "1e999", float("nan"), float("inf"), True, []]:
        with pytest.raises(InvalidStatementError, match=f"{name} must be a number, found "):
            make_value(owner, **{name: text})


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("false", False),
        ("False", False),
        (" FALSE ", False),
        ("0", False),
        (0, False),
        ("true", True),
        ("True\n", True),
        (1, True),
    ],
)
def test_a_flag_given_as_text_or_number_means_what_it_says(given, value):
    assert DeleteStatement(table="/t", dry_run=given).dry_run is value
    assert WriteStatement(table="/t", source=FEED, mode="overwrite", overwrite_schema=given).overwrite_schema is value


def test_numbers_given_as_texts_are_numbers():
    vacuum = VacuumStatement(table="/t", retention_hours=" 240 ")
    assert (vacuum.retention_hours, type(vacuum.retention_hours)) == (240.0, float)
    assert VacuumStatement(table="/t", retention_hours="1.5e2").retention_hours == 150.0
    assert OptimizeStatement(table="/t", target_file_size="1024", min_files="+3") == OptimizeStatement(
        table="/t", target_file_size=1024, min_files=3
    )
    assert RestoreStatement(table="/t", version="1") == RestoreStatement(table="/t", version=1)
    assert ProducedBy(dag_id="d", task_id="t", run_id="r", map_index="-1").map_index == -1


def test_limits_hold_for_numbers_given_as_texts():
    with pytest.raises(InvalidStatementError, match="must be 2 or more"):
        MaintenanceStatement(table="/t", min_small_files="1")


def test_words_are_taken_as_texts_and_the_nearest_is_named():
    assert WriteStatement(table="/t", source=FEED, mode="overwrite").mode is WriteMode.OVERWRITE
    assert CheckpointStatement(table="/t", kind="v2-json").kind == "v2-json"
    allowed = "append, overwrite, replace_where, dynamic_overwrite, create, create_or_replace"
    with pytest.raises(InvalidStatementError, match=f"mode must be one of {allowed}, found 'apend'; did you mean 'append'?"):
        WriteStatement(table="/t", source=FEED, mode="apend")
    with pytest.raises(InvalidStatementError, match=r"kind must be one of .*; did you mean 'v2-parquet'?"):
        CheckpointStatement(table="/t", kind="v2parquet")
    with pytest.raises(InvalidStatementError, match=r"a step must be one of .*; did you mean 'vacuum'?"):
        MaintenanceStatement(table="/t", steps=["vaccum"])
    with pytest.raises(InvalidStatementError, match="mode must be one of error, ignore, replace, found 5"):
        CreateStatement(table="/t", columns="a INT", mode=5)


@pytest.mark.parametrize("make", [lambda time: RestoreStatement(table="/t", timestamp=time), Timestamp])
def test_times_are_milliseconds_or_iso_texts(make):
    assert make("2026-01-02T03:04:05+01:00").timestamp == "2026-01-02T03:04:05+01:00"
    assert make(" 1767322805000 ").timestamp == 1767322805000
    assert make(0).timestamp == 0
    for time in ("yesterday", "None", "", "2026-13-01", True, 1.5):
        with pytest.raises(InvalidStatementError, match="timestamp must be an ISO date or time, found "):
            make(time)


def test_a_template_stays_until_it_is_rendered_and_is_checked_then():
    statement = WriteStatement(
        table="/t",
        source=FEED,
        mode="{{ params.mode }}",
        overwrite_schema="{{ params.schema }}",
        dry_run="{% dry %}",
    )
    rendered = {"{{ params.mode }}": "overwrite", "{{ params.schema }}": "False", "{% dry %}": "True"}
    built = map_texts(statement, lambda text: rendered.get(text, text))
    assert (built.mode, built.overwrite_schema, built.dry_run) == (WriteMode.OVERWRITE, False, True)
    rendered |= {"{{ params.mode }}": "append", "{{ params.schema }}": "1"}
    with pytest.raises(InvalidStatementError, match="overwrite_schema cannot be combined with the mode append"):
        map_texts(statement, lambda text: rendered.get(text, text))


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeleteStatement(table="/t", dry_run="{{ params.dry }}"),
        lambda: WriteStatement(table="/t", source=FEED, mode="{{ params.mode }}"),
        lambda: WriteStatement(table="/t", source=TableSource("/feed", version="{{ 7 }}")),
        lambda: WriteStatement(table="/t", source=FEED, txn=("app", "{{ 7 }}")),
        lambda: MaintenanceStatement(table="/t", steps=["{{ step }}"]),
        lambda: MergeStatement(table="/t", source=FEED, on="a = b", clauses="{{ clauses }}"),
        lambda: UpdateStatement(table="/t", assignments="{{ assignments }}"),
    ],
)
def test_what_was_never_rendered_leaves_no_dag_file(make):
    with pytest.raises(InvalidStatementError, match="a template that was not rendered"):
        to_json(make())


def test_a_spec_with_a_template_for_a_flag_is_refused():
    document = to_json(DeleteStatement(table="/t")) | {"dry_run": "{{ params.dry }}"}
    with pytest.raises(InvalidStatementError, match=r"dry_run is '{{ params.dry }}', a template that was not rendered"):
        statement_from_json(document)
    assert statement_from_json(document | {"dry_run": "true"}).dry_run is True


def test_version_zero_is_a_version():
    with pytest.raises(InvalidStatementError, match="version and timestamp exclude each other"):
        TableSource("/t", version=0, timestamp="2026-01-01")
    assert Version("0").version == 0
