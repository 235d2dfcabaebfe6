"""The life of a table's log against a model of plain dictionaries.

Whatever is done to it, every version that must exist reads as it was committed, and no needed file is lost.

The test sets the clock. Data files are names with bytes; their rows do not matter here.
"""

import json
import uuid
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from airflow_delta.core.actions import ADD_FILE, DomainMetadata, Metadata, Protocol, SetTransaction, removes_of
from airflow_delta.core.data_files.deletion_vector import deletion_vector_path
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DataFilesMissingError, VacuumLiteImpossibleError, VersionNotFoundError
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.core.fuzz.tables import z85

HOUR, DAY = 3_600_000, 86_400_000
TOMBSTONES, LOG, TRANSACTIONS = 7 * DAY, 30 * DAY, 10 * DAY  # retention of each
FEATURES = frozenset({"deletionVectors", "domainMetadata", "inCommitTimestamp", "v2Checkpoint"})
PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=frozenset({"deletionVectors", "v2Checkpoint"}),
    writer_features=FEATURES,
)
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]})
WRITE = Operation(name="WRITE")
STATISTICS = json.dumps({"numRecords": 4})


@dataclass
class Version:
    """What one version must read as.

    Attributes:
        files: Path and file of the deletion vector (or None) of each live file.
        until: Time of the next version; None for the latest one.
    """

    files: frozenset
    tombstones: dict = field(default_factory=dict)
    transactions: dict = field(default_factory=dict)
    domains: dict = field(default_factory=dict)
    configuration: dict = field(default_factory=dict)
    until: int | None = None


def key_of(row):
    deletion_vector = row["deletion_vector"]
    return row["path"], None if deletion_vector is None else deletion_vector_path(deletion_vector)


class Life(RuleBasedStateMachine):
    @initialize(in_commit=st.booleans(), interval=st.sampled_from(["3", "1000"]))
    def create(self, in_commit, interval):
        self.now = 1_700_000_000_000
        self.store = InMemoryLogStore("memory://life", clock=self.clock)
        self.log = DeltaLog(self.store, clock=self.clock)
        configuration = {
            "delta.enableDeletionVectors": "true",
            "delta.checkpointInterval": interval,
            "delta.setTransactionRetentionDuration": "interval 10 days",
            "delta.enableExpiredLogCleanup": "false",
            **({"delta.enableInCommitTimestamps": "true"} if in_commit else {}),
        }
        self.log.create_transaction(Metadata(id="m", schema_string=SCHEMA, configuration=configuration), PROTOCOL).commit(
            operation=Operation(name="CREATE TABLE")
        )
        self.versions = [Version(files=frozenset(), configuration=self.log.refresh().metadata.configuration)]
        self.names = 0

    def clock(self):
        self.now += 1
        return self.now

    @property
    def latest(self):
        return self.versions[-1]

    # -- commits

    def committed(self, result, **changes):
        """Add the new version to the model."""
        assert result.version == len(self.versions)
        assert not result.hook_failures
        self.append(**changes)

    def append(self, **changes):
        before = self.latest
        before.until = self.now
        kept = {name: getattr(before, name) for name in ("files", "tombstones", "transactions", "domains", "configuration")}
        self.versions.append(Version(**{**kept, **changes}))

    @rule(
        added=st.integers(0, 3),
        removed=st.integers(0, 2),
        marked=st.integers(0, 1),
        back=st.booleans(),
        app=st.sampled_from([None, None, "x", "y"]),
        domain=st.sampled_from([None, None, "d", "e"]),
    )
    def write(self, added, removed, marked, back, app, domain):
        """Add, restore and remove files, or give them a deletion vector."""
        transaction = self.log.start_transaction()
        transaction.read_whole_table()
        live = transaction.snapshot.files()
        gone = live.slice(0, removed)
        changed = live.slice(len(gone), marked)
        rows = [self.new_file() for _ in range(added)]
        if back and self.latest.tombstones:
            path, deletion_vector = min(self.latest.tombstones, key=str)
            if deletion_vector is None and self.exists(path) and path not in {name for name, _ in self.latest.files}:
                rows.append(self.row(path))
        rows += [{**row, "data_change": True, "deletion_vector": self.deletion_vector()} for row in changed.to_pylist()]
        removes = removes_of(pa.concat_tables([gone, changed]), deletion_timestamp=self.now, data_change=True)
        transactions = [SetTransaction(app_id=app, version=len(self.versions), last_updated=self.now)] if app else []
        removed_domain = bool(domain) and domain in self.latest.domains
        domains = [DomainMetadata(domain=domain, configuration=str(self.now), removed=removed_domain)] if domain else []
        result = transaction.commit(
            adds=pa.Table.from_pylist(rows, ADD_FILE),
            removes=removes,
            transactions=transactions,
            domains=domains,
            operation=WRITE,
            allow_empty=True,
        )
        old = {key_of(row) for row in [*gone.to_pylist(), *changed.to_pylist()]}
        new = {key_of(row) for row in rows}
        kept_domains = {name: kept for name, kept in self.latest.domains.items() if name != domain}
        self.committed(
            result,
            files=self.latest.files - old | new,
            tombstones={
                key: time
                for key, time in {**self.latest.tombstones, **dict.fromkeys(old, removes_time(removes))}.items()
                if key not in new
            },
            transactions={
                **self.latest.transactions,
                **{transaction.app_id: (transaction.version, transaction.last_updated) for transaction in transactions},
            },
            domains=kept_domains if removed_domain or not domain else {**kept_domains, domain: domains[0].configuration},
        )

    def new_file(self):
        self.names += 1
        path = f"f{self.names}.parquet"
        self.store.write(path, b"rows")
        return self.row(path)

    @staticmethod
    def row(path):
        return {
            "path": path,
            "partition_values": [],
            "size": 4,
            "modification_time": 1,
            "data_change": True,
            "stats": STATISTICS,
            "deletion_vector": None,
        }

    def deletion_vector(self):
        self.names += 1
        name = uuid.UUID(int=self.names)
        self.store.write(f"deletion_vector_{name}.bin", b"deletion_vector")
        return {
            "storage_type": "u",
            "path_or_inline_dv": z85(name.bytes),
            "offset": 1,
            "size_in_bytes": 4,
            "cardinality": 1,
        }

    @rule(value=st.sampled_from(["1", "2"]))
    def set_property(self, value):
        if self.latest.configuration.get("user.x") == value:
            return
        result = self.log.alter().set_properties({"user.x": value})
        self.committed(result, configuration={**self.latest.configuration, "user.x": value})

    @precondition(lambda self: len(self.versions) > 1)
    @rule(back=st.integers(1, 8))
    def restore(self, back):
        version = max(0, len(self.versions) - 1 - back)
        target = self.versions[version]
        missing = [path for path in self.paths(target) if not self.exists(path)]
        try:
            result = self.log.restore(version=version)
        except VersionNotFoundError:
            assert not self.must_be_readable(version)
            return
        except DataFilesMissingError:
            assert missing
            return
        if result.version == len(self.versions):
            now = self.log.refresh()
            assert not missing
            gone = self.latest.files - target.files
            self.append(
                files=target.files,
                tombstones={
                    key: time
                    for key, time in {**self.latest.tombstones, **dict.fromkeys(gone, self.now)}.items()
                    if key not in target.files
                },
                domains=domains_of(now),
                configuration=now.metadata.configuration,
            )

    # -- the log itself

    @rule(kind=st.sampled_from(CheckpointKind), back=st.sampled_from([0, 0, 1, 3]))
    def checkpoint(self, kind, back):
        version = max(0, len(self.versions) - 1 - back)
        if self.must_be_readable(version) and (kind is not CheckpointKind.MULTI_PART):  # not where there is v2Checkpoint
            self.log.checkpoint(version, kind=kind)

    @rule(start=st.integers(0, 6), length=st.integers(1, 5))
    def compact_log(self, start, length):
        end = max(0, len(self.versions) - 1 - start)
        if all(self.exists(f"_delta_log/{version:020}.json") for version in range(max(0, end - length), end + 1)):
            self.log.compact_log(max(0, end - length), end)

    @rule()
    def clean_up_log(self):
        self.log.cleanup_log()

    @rule(lite=st.booleans())
    def vacuum(self, lite):
        """Its own commits change nothing."""
        missing = None
        try:
            self.log.vacuum(lite=lite)
        except VacuumLiteImpossibleError as error:
            missing = error.version
        assert missing is None or (lite and not self.exists(f"_delta_log/{missing:020}.json"))
        for _ in range(self.log.refresh().version - len(self.versions) + 1):
            self.append()

    @rule(name=st.sampled_from(["_last_checkpoint", "crc", "compacted.json"]), garbage=st.booleans())
    def lose_a_help(self, name, garbage):
        """Delete files that are only optimizations for readers, or fill ``_last_checkpoint`` with garbage."""
        paths = [file.path for file in self.store.list_from("_delta_log") if file.path.endswith(name)]
        if garbage and name == "_last_checkpoint":
            self.store.write("_delta_log/_last_checkpoint", b'{"version":')
        else:
            self.store.delete(paths)

    @rule(hours=st.sampled_from([1, 24, 24 * 5, 24 * 8, 24 * 20, 24 * 31]))
    def wait(self, hours):
        self.now += hours * HOUR

    @precondition(lambda self: len(self.versions) > 1)
    @rule()
    def start_anew(self):
        self.log = DeltaLog(self.store, clock=self.clock)

    # -- what must hold

    def exists(self, path):
        return self.store.exists(path)

    @staticmethod
    def paths(version):
        return {path for key in version.files for path in key if path}

    def must_be_readable(self, version):
        """Whether the version was replaced within the log's retention, counted from midnight."""
        until = self.versions[version].until
        return until is None or until > self.now - LOG

    @invariant()
    def the_latest_version_is_read_right(self):
        if not hasattr(self, "versions"):
            return
        for log in (self.log, DeltaLog(self.store, clock=self.clock)):
            snapshot = log.refresh()
            assert snapshot.version == len(self.versions) - 1
            self.check(snapshot, self.latest)
        gone = {path for path in self.paths(self.latest) if not self.exists(path)}
        assert not gone

    @rule(data=st.data())
    def an_older_version_is_read_right(self, data):
        version = data.draw(st.integers(0, len(self.versions) - 1))
        try:
            snapshot = DeltaLog(self.store, clock=self.clock).snapshot(version)
        except VersionNotFoundError:
            assert not self.must_be_readable(version)
            return
        self.check(snapshot, self.versions[version])
        until = self.versions[version].until
        if until is None or until > self.now - TOMBSTONES:
            assert all(self.exists(path) for path in self.paths(self.versions[version]))

    def check(self, snapshot, expected):
        files = snapshot.files().select(["path", "deletion_vector"]).to_pylist()
        assert len(files) == len(expected.files)
        assert {key_of(row) for row in files} == expected.files
        tombstones = {key_of(row) for row in snapshot.tombstones().select(["path", "deletion_vector"]).to_pylist()}
        young = {key for key, time in expected.tombstones.items() if time > self.now - TOMBSTONES}
        assert young <= tombstones <= expected.tombstones.keys()
        transactions = {app: transaction.version for app, transaction in snapshot.transactions.items()}
        known = {app: version for app, (version, _) in expected.transactions.items()}
        fresh = {app: version for app, (version, time) in expected.transactions.items() if time > self.now - TRANSACTIONS}
        assert fresh.items() <= transactions.items() <= known.items()
        assert domains_of(snapshot) == expected.domains
        assert snapshot.metadata.configuration == expected.configuration


def domains_of(snapshot):
    return {name: domain.configuration for name, domain in snapshot.domains.items()}


def removes_time(removes):
    times = removes["deletion_timestamp"].to_pylist()
    return times[0] if times else 0


# The same examples in each run; new ones are drawn by the slow test.
Life.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase


@pytest.mark.slow
def test_a_long_life_of_a_log():
    long = settings(max_examples=1000, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Life, settings=long)
