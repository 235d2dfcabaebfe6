"""Several changes as one commit: each finds the table as those before it leave it, and all are made or none."""

import json

import pytest

from airflow_delta.core.errors import InvalidStatementError, InvalidTableChangeError
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.statements import (
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    ClusterBy,
    CommentColumn,
    DropColumns,
    DropConstraint,
    DropFeature,
    MoveColumn,
    RenameColumn,
    SetDefault,
    SetProperties,
    UnsetProperties,
    UpgradeProtocol,
    WidenColumn,
)
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.core.table_changes.statement_steps import step_of

MAPPED = SetProperties({"delta.columnMapping.mode": "name"})


def together(table, *changes):
    return table.alter.together(*map(step_of, changes))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([MAPPED, RenameColumn("s", "t"), DropColumns("id")], ["t"]),
        ([AddColumns("a INT, b INT"), MoveColumn("b", first=True)], ["b", "id", "s", "a"]),
        ([AddColumns("a INT, b INT", after="id")], ["id", "a", "b", "s"]),
        ([AddColumns("a INT, b INT", first=True)], ["a", "b", "id", "s"]),
        ([AddColumns("a INT"), AddColumns("A INT, b INT", if_not_exists=True)], ["id", "s", "a", "b"]),
        ([MAPPED, DropColumns(["s", "nowhere"], if_exists=True)], ["id"]),
    ],
)
def test_each_change_finds_what_those_before_it_left(table, changes, names):
    table.create()
    result = together(table, *changes)
    assert (result.version, list(table.snapshot.schema.names)) == (1, names)


def test_every_change_can_be_asked_for(table):
    table.create(parse_struct("id INT NOT NULL, s STRING"), constraints={"old": "s > ''"}, properties={"owner": "me"})
    result = together(
        table,
        AddConstraint("sane", "s < 'z'"),
        SetProperties({"delta.enableTypeWidening": "true", "comment": "Flights"}),
        WidenColumn("id", "BIGINT"),
        AllowNull("id"),
        CommentColumn("s", "text"),
        SetDefault("s", None),
        AddColumns("at TIMESTAMP_NTZ"),
        AddFeature("allowColumnDefaults"),
        SetDefault("s", "'x'"),
        UnsetProperties("owner"),
        DropConstraint("old"),
        ClusterBy("id"),
        UpgradeProtocol(3, 7),
    )
    snapshot = table.snapshot
    number, text, at = snapshot.schema.fields
    assert (result.version, snapshot.metadata.description) == (1, "Flights")
    assert (number.type, number.nullable, at.type.name) == (LONG, True, "timestamp_ntz")
    assert text.metadata == {"comment": "text", "CURRENT_DEFAULT": "'x'"}
    assert {name: value for name, value in table.properties.items() if "constraints" in name} == {
        "delta.constraints.sane": "s < 'z'"
    }
    assert "owner" not in table.properties
    assert {"allowColumnDefaults", "checkConstraints", "clustering", "timestampNtz", "typeWidening"} <= table.features
    info = result.commit_info
    reported = [change["operation"] for change in json.loads(info.operation_parameters["changes"])]
    assert (info.operation, len(reported), reported[:3]) == (
        "ALTER TABLE",
        13,
        ["ADD CONSTRAINT", "SET TBLPROPERTIES", "CHANGE COLUMN"],
    )


def test_one_change_that_is_refused_keeps_all_from_being_made(table):
    table.create()
    for wrong in (RenameColumn("nowhere", "t"), MoveColumn("id", after="nowhere"), AddConstraint("c", "nowhere > 1")):
        with pytest.raises(InvalidTableChangeError, match="nowhere"):
            together(table, SetProperties({"delta.enableRowTracking": "true"}), wrong)
    assert table.snapshot.version == 0


def test_rows_are_checked_before_their_columns_change(table):
    table.create()
    with pytest.raises(InvalidTableChangeError, match="make it the first change"):
        together(table, AddColumns("a INT"), AddConstraint("c", "id > 1"))
    assert together(table, AddConstraint("c", "id > 1"), AddConstraint("d", "id > 2"), AddColumns("a INT")).version == 1


def test_row_tracking_is_prepared_before_and_enabled_with_the_others(table):
    table.create()
    table.append("a.parquet")
    together(table, AddColumns("a INT"), SetProperties({"delta.enableRowTracking": "true"}))
    assert table.operations()[2:] == ["UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "ALTER TABLE"]
    assert table.snapshot.files()["base_row_id"].to_pylist() == [0]


def test_a_table_that_is_so_already_gets_no_commit(table):
    table.create(clustering_columns=["id"], properties={"owner": "me"})
    result = together(table, ClusterBy("id"), SetProperties({"owner": "me"}), AddColumns("id INT", if_not_exists=True))
    assert (result.version, result.committed) == (0, False)


def test_a_plan_shows_the_result_and_commits_nothing(table):
    table.create()
    plan = table.alter.plan(step_of(AddColumns("a INT")), step_of(ClusterBy("a")))
    assert ([change["operation"] for change in plan.changes], plan.table.schema.names[-1]) == (
        ["ADD COLUMNS", "CLUSTER BY"],
        "a",
    )
    assert (table.snapshot.version, table.snapshot.schema.names) == (0, ("id", "s"))


@pytest.mark.parametrize("change", [AddColumns("a INT NOT NULL"), AddColumns("a"), WidenColumn("id", "huge"), DropFeature("f")])
def test_a_change_that_cannot_be_meant_is_refused(change):
    with pytest.raises(InvalidStatementError):
        step_of(change)
