"""What protects a version, and what happens if that cannot be determined."""

import json

import pyarrow as pa
import pytest

from airflow_delta.core.errors import (
    InvalidStatementError,
    PinNotRegisteredError,
    RunCommitNotFoundError,
    StorageAccessError,
    TableNotFoundError,
    TablesInMotionError,
    VersionNotFoundError,
)
from airflow_delta.core.operations.pinning import pin_versions
from airflow_delta.core.operations.pins import PINS_FOLDER, Pin, read_pins, register, release
from airflow_delta.core.statements import PinnedTable, PinStatement, ProducedBy, Timestamp, Version
from airflow_delta.core.statements.json_form import statement_from_json, to_json
from tests.core.builders import add
from tests.core.operations.aged_table import AgedTable

DAY = 86_400_000


def pin_of(version, **members):
    defaults = {"id": "a", "alias": "t", "dag_id": "d", "run_id": "r", "task_id": "t", "created": 0, "expires": 100 * DAY}
    return Pin(version=version, **(defaults | members))


@pytest.fixture
def table():
    """Versions 1 and 2 have the file of their number and no other; ten days have passed since."""
    table = AgedTable()
    table.commit(add(table.file("f1")))
    table.commit(add(table.file("f2")), table.remove("f1"))
    table.now += 10 * DAY
    return table


def left(table):
    return {path for path in table.files() if not path.startswith("_")}


@pytest.mark.parametrize("arguments", [{}, {"lite": True}, {"inventory": True}], ids=["full", "lite", "inventory"])
def test_every_kind_of_vacuum_keeps_what_is_pinned_until_it_is_released(table, arguments):
    if arguments.get("inventory"):
        names = sorted(left(table))
        columns = [[f"memory://aged/{name}" for name in names], [4] * len(names), [False] * len(names), [0] * len(names)]
        arguments = {"inventory": pa.table(columns, names=["path", "length", "isDir", "modificationTime"])}
    register(table.store, pin_of(1))
    dry = table.log.vacuum(dry_run=True, **arguments)
    assert (dry.files, dry.pins) == (0, (pin_of(1),))
    assert table.log.vacuum(**arguments).files == 0
    assert left(table) == {"f1", "f2"}
    release(table.store, [pin_of(1)])
    assert table.log.vacuum(**arguments).paths.to_pylist() == ["f1"]


def test_an_expired_pin_keeps_nothing_and_goes_with_the_vacuum(table):
    register(table.store, pin_of(1, expires=10 * DAY))
    assert table.log.vacuum(dry_run=True).files == 1
    assert len(read_pins(table.store)) == 1
    assert table.log.vacuum().paths.to_pylist() == ["f1"]
    assert read_pins(table.store) == ()


@pytest.mark.parametrize("lost", [(0, 1), (1,)], ids=["cleaned up", "a gap"])
def test_a_pin_whose_version_another_engine_has_cleaned_up_keeps_nothing_and_is_reported(table, lost):
    register(table.store, pin_of(1))
    table.log.checkpoint()
    table.store.delete([f"_delta_log/{version:020}.json" for version in lost])
    done = table.log.vacuum()
    assert (done.paths.to_pylist(), done.pins) == (["f1"], (pin_of(1),))


WELL = {"id": "a", "alias": "t", "version": 1, "dag_id": "", "run_id": "", "task_id": "", "created": 0, "expires": 100 * DAY}
ILLEGIBLE = [
    b"",
    b"[1]",
    b"\xff",
    b"[" * 60_000,
    b'{"version": ' + b"9" * 5_000 + b"}",
    b" " * 100_000 + json.dumps(WELL).encode(),
    json.dumps(WELL | {"version": "1"}).encode(),
    json.dumps(WELL | {"version": -1}).encode(),
    json.dumps(WELL | {"version": 1 << 70}).encode(),
    json.dumps(WELL | {"version": True}).encode(),
]
LEGIBLE = [
    {"version": 1},
    WELL | {"id": "b"},
    WELL | {"expires": "never"},
    WELL | {"map_index": 1 << 80},
    WELL | {"a member": "of another release"},
]


@pytest.mark.parametrize("content", ILLEGIBLE, ids=range(len(ILLEGIBLE)))
def test_a_pin_that_names_no_version_stops_neither_vacuum_nor_log_cleanup_and_is_reported(table, content):
    table.store.write(f"{PINS_FOLDER}/a-t.json", content)
    register(table.store, pin_of(2, id="well"))
    dry = table.log.vacuum(dry_run=True)
    done = table.log.vacuum()
    assert dry.paths.to_pylist() == done.paths.to_pylist() == ["f1"]
    assert done.pins == (pin_of(2, id="well"),)
    assert [(PINS_FOLDER in text, "protects nothing" in text, len(text) < 300) for text in done.damaged_pins] == [(True,) * 3]
    assert table.store.exists(f"{PINS_FOLDER}/a-t.json")
    table.log.checkpoint()
    table.now += 100 * DAY
    assert table.log.cleanup_log().log_files


@pytest.mark.parametrize("document", LEGIBLE, ids=range(len(LEGIBLE)))
def test_a_damaged_pin_that_names_a_version_keeps_it_and_is_reported(table, document):
    table.store.write(f"{PINS_FOLDER}/a-t.json", json.dumps(document).encode())
    done = table.log.vacuum()
    assert (done.files, left(table), done.pins) == (0, {"f1", "f2"}, ())
    assert ["protects version 1 all the same" in text for text in done.damaged_pins] == [True]
    table.store.delete([f"{PINS_FOLDER}/a-t.json"])
    assert table.log.vacuum().paths.to_pylist() == ["f1"]


def test_a_damaged_pin_that_has_expired_keeps_nothing(table):
    table.store.write(f"{PINS_FOLDER}/a-t.json", json.dumps({"version": 1, "expires": 1}).encode())
    assert table.log.vacuum().paths.to_pylist() == ["f1"]


def test_a_pin_of_a_version_that_will_never_be_and_of_a_day_that_never_comes_is_kept_to(table):
    register(table.store, pin_of((1 << 63) - 1, expires=1 << 80))
    done = table.log.vacuum()
    assert (done.paths.to_pylist(), len(done.pins), done.damaged_pins) == (["f1"], 1, ())


def test_a_file_that_was_being_written_is_no_pin(table):
    table.store.write(f"{PINS_FOLDER}/.a-t.json.tmp", b"{")
    assert read_pins(table.store) == ()


class BusyStore:
    """A table's store; before each listing of pins, or each write, something happens once."""

    def __init__(self, store, *, before, then):
        self._store, self._before, self._then = store, before, then

    def __getattr__(self, name):
        if name == self._before and self._then:
            then, self._then = self._then, None
            then()
        return getattr(self._store, name)


def test_a_pin_that_comes_while_the_vacuum_records_its_begin_is_heeded(table):
    log = table.log
    log.store = BusyStore(table.store, before="write_if_absent", then=lambda: register(table.store, pin_of(1)))
    assert log.vacuum().paths.to_pylist() == []
    assert left(table) == {"f1", "f2"}


def statement(*tables, **arguments):
    return PinStatement(tables=tables, id="p", **arguments)


def pinned(table, as_of=None, **arguments):
    requested = statement(PinnedTable(alias="t", table="t", as_of=as_of), **arguments)
    return pin_versions(requested, lambda _: table.log, {"dag_id": "d"})


def test_a_cleanup_of_the_log_that_was_faster_leaves_no_pin(table):
    table.log.checkpoint()

    def clean_up():
        table.store.delete([f"_delta_log/{version:020}.json" for version in (0, 1)])

    store = BusyStore(table.store, before="write", then=clean_up)

    def open_log(_):
        log = table.log
        log.store = store
        return log

    with pytest.raises(VersionNotFoundError):
        pin_versions(statement(PinnedTable(alias="t", table="t", as_of=Version(1))), open_log, {})
    assert read_pins(table.store) == ()


class Refusing:
    """A store of a table that may only be read."""

    def __init__(self, store, error):
        self._store, self._error = store, error

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, path, content):
        raise self._error


@pytest.mark.parametrize("error", [PermissionError("no"), StorageAccessError(uri="s3://a", detail="no")])
def test_a_table_that_may_only_be_read_is_pinned_without_protection_unless_that_must_be(table, error):
    def open_log(_):
        log = table.log
        log.store = Refusing(table.store, error)
        return log

    requested = PinnedTable(alias="t", table="t")
    (found,) = pin_versions(statement(requested), open_log, {})
    assert (found.version, "no" in found.unprotected) == (2, True)
    with pytest.raises(PinNotRegisteredError):
        pin_versions(statement(requested, must_protect=True), open_log, {})


def test_a_time_takes_what_was_the_latest_then_and_no_time_to_come():
    table = AgedTable()
    for _ in range(3):
        table.now += DAY
        table.commit(add(table.file(f"f{table.version}")))
    table.now += DAY
    found = [pinned(table, Timestamp(time))[0].version for time in (0, DAY - 1, DAY, 2 * DAY + 5, 4 * DAY)]
    assert found == [0, 0, 1, 2, 3]
    assert pinned(table, Timestamp(4 * DAY + 1_000))[0].version == 3  # clocks differ a little
    with pytest.raises(InvalidStatementError, match="future"):
        pinned(table, Timestamp(5 * DAY))


def test_the_time_of_a_pin_names_its_version_where_a_clock_ran_backwards():
    table = AgedTable()
    for time in (9 * DAY, 5 * DAY):
        table.now = time
        table.commit(add(table.file(f"f{table.version}")))
    [pin] = pinned(table, Version(table.log.refresh().version))
    table.now = 10 * DAY
    assert pinned(table, Timestamp(pin.timestamp))[0].version == pin.version


def test_a_run_that_left_no_commit_is_named(table):
    with pytest.raises(RunCommitNotFoundError, match="dag_id d, task_id t, logical_date 2013-01-01"):
        pinned(table, ProducedBy(dag_id="d", task_id="t", logical_date="2013-01-01"))


def test_where_there_is_no_table_nothing_is_written():
    nothing, table = AgedTable("memory://nothing"), AgedTable()
    nothing.store.delete([file.path for file in nothing.store.list_all()])
    logs = {"table": table.log, "nothing": nothing.log}
    for as_of in (None, Version(0), Timestamp(0), ProducedBy(dag_id="d", task_id="t", run_id="r")):
        requested = [PinnedTable(alias=name, table=name, as_of=as_of if name == "nothing" else None) for name in logs]
        with pytest.raises(TableNotFoundError):
            pin_versions(statement(*requested), logs.get, {})
    assert list(nothing.store.list_all()) == []
    assert read_pins(table.store) == ()


class MovingLog:
    """A log to which another writer commits before each of a number of reads."""

    def __init__(self, table, commits):
        self._table, self._log, self._left = table, table.log, commits

    def __getattr__(self, name):
        return getattr(self._log, name)

    def refresh(self):
        if self._left:
            self._left -= 1
            self._table.commit(add(f"g{self._left}"))
        return self._log.refresh()


def test_latest_versions_are_those_of_one_moment_or_none():
    moving, still = AgedTable("memory://moving"), AgedTable("memory://still")

    def pinned_beside(commits):
        logs = {"moving": MovingLog(moving, commits), "still": still.log}
        return pin_versions(statement(*(PinnedTable(alias=name, table=name) for name in logs)), logs.get, {})

    assert [pin.version for pin in pinned_beside(5)] == [5, 0]
    with pytest.raises(TablesInMotionError) as caught:
        pinned_beside(1_000)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "make",
    [
        statement,
        lambda: statement(PinnedTable(alias="t", table="a"), PinnedTable(alias="t", table="b")),
        lambda: PinnedTable(alias="../t", table="a"),
        lambda: PinnedTable(alias="", table="a"),
        lambda: PinnedTable(alias="t", table=" "),
        lambda: PinnedTable(alias="t", table="a", as_of=3),
        lambda: ProducedBy(dag_id="d", task_id="t"),
        lambda: PinStatement(tables=[PinnedTable(alias="t", table="a")], id="../x"),
        lambda: statement(PinnedTable(alias="t", table="a"), keep_for_hours=0),
    ],
)
def test_what_cannot_be_meant_is_refused(make):
    with pytest.raises(InvalidStatementError):
        make()


def test_a_statement_goes_through_json_unchanged():
    tables = [
        PinnedTable(alias="a", table="t", as_of=Version("7"), table_id="x"),
        PinnedTable(alias="b", table="t", as_of=Timestamp("2013-01-01")),
        PinnedTable(alias="c", table="t", as_of=ProducedBy(dag_id="d", task_id="t", run_id="r", map_index=3)),
        PinnedTable(alias="d", table="t"),
    ]
    requested = PinStatement(tables=tables, id="p", keep_for_hours=0.5, must_protect=True)
    assert statement_from_json(json.loads(json.dumps(to_json(requested)))) == requested
    assert requested.tables[0].as_of == Version(7)


def pinned_again(table):
    requested = PinStatement(tables=(PinnedTable(alias="t", table="memory://aged"),), id="b", keep_for_hours=1)
    pin_versions(requested, lambda _: table.log, {"dag_id": "d", "run_id": "r2", "task_id": "t"})


@pytest.mark.parametrize(
    ("work", "left"),
    [
        (pinned_again, {"live", "b"}),
        (lambda table: table.log.cleanup_log(), {"live"}),
        (lambda table: table.log.vacuum(), {"live"}),
    ],
    ids=["another pin", "log cleanup", "vacuum"],
)
def test_expired_pins_go_with_whatever_looks_after_the_table(table, work, left):
    register(table.store, pin_of(1, id="expired", expires=table.now - 1))
    register(table.store, pin_of(1, id="live", expires=table.now + DAY))
    work(table)
    assert {pin.id for pin in read_pins(table.store)} == left


def test_a_dry_run_leaves_expired_pins(table):
    register(table.store, pin_of(1, expires=table.now - 1))
    table.log.cleanup_log(dry_run=True)
    assert len(read_pins(table.store)) == 1


def test_an_expired_pin_that_cannot_be_deleted_stops_no_pin(table, monkeypatch):
    register(table.store, pin_of(1, id="expired", expires=table.now - 1))

    def refuse(_):
        raise PermissionError("no rights")

    monkeypatch.setattr(table.store, "delete", refuse)
    pinned_again(table)
    assert {pin.id for pin in read_pins(table.store)} == {"expired", "b"}
