"""Whichever storage operation fails, the log reads as before, and the next call finishes the work."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, DomainMetadata, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError
from airflow_delta.core.log.file_names import commit_path, compacted_path
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation

WRITE = Operation(name="WRITE")
V2 = frozenset({"v2Checkpoint", "domainMetadata", "appendOnly", "invariants"})
V2_PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=frozenset({"v2Checkpoint"}), writer_features=V2
)
PLAIN_PROTOCOL = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=frozenset({"domainMetadata", "appendOnly", "invariants"})
)
DAY = 86_400_000


class FaultyStore(InMemoryLogStore):
    """Fails at one operation, before or after it is done; a stream counts when it is closed."""

    def __init__(self, other, fails_at, *, after):
        super().__init__(other.table_uri, clock=other._clock)
        self._files = dict(other._files)
        self.left, self.after = fails_at, after

    def _counted(self, operation):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise OSError("before")
        result = operation()
        if self.left == 0:
            raise OSError("after")
        return result

    def read(self, path):
        return self._counted(lambda: super(FaultyStore, self).read(path))

    def write_if_absent(self, path, content):
        self._counted(lambda: super(FaultyStore, self).write_if_absent(path, content))

    def write(self, path, content):
        self._counted(lambda: super(FaultyStore, self).write(path, content))

    def list_from(self, directory, start=""):
        return iter(self._counted(lambda: list(super(FaultyStore, self).list_from(directory, start))))

    def delete(self, paths):
        for path in paths:
            self._counted(lambda path=path: super(FaultyStore, self).delete([path]))


def table(protocol, *, days):
    """A commit each day; some files come and go."""
    now = [20_000 * DAY]
    store = InMemoryLogStore("memory://faulty", clock=lambda: now[0])
    log = DeltaLog(store, clock=lambda: now[0])
    properties = {"delta.checkpointInterval": "1000", "delta.deletedFileRetentionDuration": "interval 1000 days"}
    properties["delta.logRetentionDuration"] = "interval 2 days"
    metadata = Metadata(id="m", schema_string='{"type":"struct","fields":[]}', configuration=properties)
    log.create_transaction(metadata, protocol).commit(operation=WRITE)
    for number in range(days):
        now[0] += DAY
        log.start_transaction().commit(
            adds=files(f"f{number}"),
            removes=removes_of(log.refresh().files().slice(0, number % 2), deletion_timestamp=now[0], data_change=True),
            operation=WRITE,
        )
    return log


def files(*paths):
    rows = [{"path": path, "partition_values": [], "size": 1, "modification_time": 0, "data_change": True} for path in paths]
    return pa.Table.from_pylist(rows, schema=ADD_FILE)


def state(log, version=None):
    """The full state of a version, independent of order."""
    snapshot = log.snapshot(version)
    same = {"data_change": False, "partition_values": [], "stats": None, "tags": None}
    rows, tombstones = ([{**row, **same} for row in files.to_pylist()] for files in (snapshot.files(), snapshot.tombstones()))
    return (
        snapshot.version,
        snapshot.protocol,
        snapshot.metadata,
        dict(snapshot.transactions),
        dict(snapshot.domains),
        sorted(map(str, rows)),
        sorted(map(str, tombstones)),
    )


CALLS = {
    "classic": (PLAIN_PROTOCOL, lambda log: log.checkpoint()),
    "parts": (PLAIN_PROTOCOL, lambda log: log.checkpoint(kind=CheckpointKind.MULTI_PART)),
    "v2 json": (V2_PROTOCOL, lambda log: log.checkpoint(kind=CheckpointKind.V2_JSON)),
    "v2 parquet": (V2_PROTOCOL, lambda log: log.checkpoint(kind=CheckpointKind.V2_PARQUET)),
    "compaction": (PLAIN_PROTOCOL, lambda log: log.compact_log(3, 7)),
    "cleanup": (PLAIN_PROTOCOL, lambda log: log.cleanup_log()),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True])
def test_a_failure_at_any_operation_leaves_the_state_and_the_next_call_finishes(call, after):
    protocol, run = CALLS[call]
    log = table(protocol, days=8)
    log.checkpoint(4)
    expected = [state(log, version) for version in (5, 8)]
    checked = []  # contents of stores; equal files give equal states

    def check_states(store):
        if store._files not in checked:
            assert [state(DeltaLog(store), version) for version in (5, 8)] == expected
            checked.append(dict(store._files))

    fails_at = 0
    failed = True
    while failed:
        fails_at += 1
        store = FaultyStore(log.store, fails_at, after=after)
        try:
            run(DeltaLog(store, clock=log.clock))
            failed = store.left <= 0  # a failure that was tolerated, of a hint
        except (OSError, CorruptLogError):
            failed = True
        store.left = -1
        check_states(store)
        run(DeltaLog(store, clock=log.clock))
        check_states(store)
    assert fails_at > 3


# -- round trips of random states

NAMES = st.sampled_from(["a", "b", "c", "d"])
COMMITS = st.lists(
    st.fixed_dictionaries(
        {
            "adds": st.sets(NAMES, max_size=3),
            "leaving": st.integers(0, 2),
            "transactions": st.dictionaries(NAMES, st.integers(0, 9), max_size=2),
            "domains": st.dictionaries(NAMES, st.booleans(), max_size=2),
        }
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=20, deadline=None)
@given(COMMITS, st.sampled_from([*CheckpointKind]), st.sampled_from([1, 2, 1 << 16]))
def test_whatever_a_log_says_is_said_by_each_kind_of_checkpoint(commits, kind, rows):
    protocol = V2_PROTOCOL if kind.is_v2 else PLAIN_PROTOCOL
    log = table(protocol, days=0)
    for number, commit in enumerate(commits):
        live = log.refresh().files()
        log.start_transaction().commit(
            adds=files(*(f"{number}-{name}" for name in commit["adds"])),
            removes=removes_of(live.slice(0, commit["leaving"]), deletion_timestamp=log.clock(), data_change=True),
            transactions=[SetTransaction(app_id=app, version=version) for app, version in commit["transactions"].items()],
            domains=[DomainMetadata(domain=name, configuration="", removed=gone) for name, gone in commit["domains"].items()],
            operation=WRITE,
            allow_empty=True,
        )
    expected = state(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_delta.core.operations.checkpoints.content.ROWS_OF_GROUP", rows)
        DeltaLog(log.store, clock=log.clock).checkpoint(kind=kind)
    log.store.delete([commit_path(version) for version in range(len(commits) + 1)])
    reopened = DeltaLog(log.store, clock=log.clock)
    assert state(reopened) == expected
    again = reopened.checkpoint()  # and from a checkpoint
    assert again.version == len(commits)
    assert state(DeltaLog(log.store)) == expected


@settings(max_examples=20, deadline=None)
@given(COMMITS, st.data())
def test_whatever_a_log_says_is_said_with_compacted_commits(commits, data):
    log = table(PLAIN_PROTOCOL, days=0)
    for number, commit in enumerate(commits):
        live = log.refresh().files()
        log.start_transaction().commit(
            adds=files(*(f"{number}-{name}" for name in commit["adds"])),
            removes=removes_of(live.slice(0, commit["leaving"]), deletion_timestamp=log.clock(), data_change=True),
            transactions=[SetTransaction(app_id=app, version=version) for app, version in commit["transactions"].items()],
            domains=[DomainMetadata(domain=name, configuration="", removed=gone) for name, gone in commit["domains"].items()],
            operation=WRITE,
            allow_empty=True,
        )
    expected = state(log)
    start = data.draw(st.integers(0, len(commits) - 1))
    end = data.draw(st.integers(start + 1, len(commits)))
    assert log.compact_log(start, end).path == compacted_path(start, end)
    assert state(DeltaLog(log.store)) == expected
