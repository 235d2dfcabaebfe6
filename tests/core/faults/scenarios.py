"""Operations to be interrupted, each on a table made for it, and comparisons of what a table reads as."""

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE, Metadata, Origin, SetTransaction, removes_of
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.operations.checkpoints import CheckpointKind
from airflow_delta.core.statements import PublishStatement
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.publish_statements import execute_publish

DAY = 86_400_000
WRITE = Operation(name="WRITE")
FIELDS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in {"n": "long", "p": "string"}.items()]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
IMPATIENT = Backoff(sleep=lambda _: None)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Scenario:
    """One operation.

    Attributes:
        prepare: Makes the table below a root.
        run: Does the work; a second call finishes it.
        days: How many days after the preparation it runs.
        loses_versions: Whether it may delete old versions.
        leaves: Which files must be the same in the end, whether or not the work was interrupted.
    """

    name: str
    prepare: Callable
    run: Callable
    days: int = 0
    loses_versions: bool = False
    leaves: str = r"\.json$"

    def log(self, root, store=None):
        """The table's log, at the time of the operation."""
        store = store or LocalLogStore(str(root))
        return DeltaLog(store, clock=lambda: time.time_ns() // 1_000_000 + self.days * DAY, backoff=IMPATIENT)

    def files(self, root):
        """The files that matter, without random parts of their names."""
        return sorted(UUID.sub("*", path) for path in _paths(root) if re.search(self.leaves, path))


def _paths(root):
    return [str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()]


# -- what a table reads as


def reading(root):
    """The content of each version, or why it cannot be read; the newest one under ``latest``."""
    log = DeltaLog(LocalLogStore(str(root)))
    if not log.exists():
        return {}
    latest = log.snapshot()
    found = {version: _version(root, version) for version in range(latest.version + 1)}
    return {**found, "latest": content(latest)}


def _version(root, version):
    try:
        return content(DeltaLog(LocalLogStore(str(root))).snapshot(version))
    except DeltaError as error:
        return error.code


def content(snapshot):
    """The content of a version as plain values, without times and random ids."""
    live = snapshot.files().drop_columns(["modification_time", "data_change"])
    removed = sorted(snapshot.tombstones()["path"].to_pylist())
    metadata = snapshot.metadata
    return {
        "files": sorted(map(repr, live.to_pylist())),
        "paths": sorted(live["path"].to_pylist()),
        "removed": removed,
        "metadata": (metadata.id, metadata.schema_string, metadata.partition_columns, sorted(metadata.configuration.items())),
        "protocol": snapshot.protocol,
        "transactions": {app: transaction.version for app, transaction in snapshot.transactions.items()},
        "domains": {name: domain.configuration for name, domain in snapshot.domains.items()},
    }


# -- preparing


def adds(root, *names, p="a"):
    """Make new files; returns their add actions."""
    rows = []
    for name in names:
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 10)
        statistics = json.dumps({"numRecords": 1, "minValues": {"n": 1}, "maxValues": {"n": 1}, "nullCount": {"n": 0}})
        values = [("p", p)]
        rows.append(
            {
                "path": name,
                "partition_values": values,
                "size": 10,
                "modification_time": 1,
                "data_change": True,
                "stats": statistics,
            }
        )
    return pa.Table.from_pylist(rows, schema=ADD_FILE)


def create(root, **configuration):
    """A table without automatic work after commits, unless the configuration enables it."""
    log = DeltaLog(LocalLogStore(str(root)))
    configuration = {"delta.checkpointInterval": "1000", **configuration}
    metadata = Metadata(id="m", schema_string=SCHEMA, partition_columns=("p",), configuration=configuration)
    log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))
    return log


def write(log, root, *names, removed=(), token=None):
    """Commit new files in place of others."""
    transaction = log.start_transaction()
    files = transaction.files()
    gone = files.filter(pa.array([path in removed for path in files["path"].to_pylist()], pa.bool_()))
    removes = removes_of(gone, deletion_timestamp=log.clock(), data_change=True)
    return transaction.commit(adds=adds(root, *names), removes=removes, operation=WRITE, origin=Origin(token=token))


def filled(root, **configuration):
    """Six commits: files come and go."""
    log = create(root, **configuration)
    write(log, root, "a", "b")
    write(log, root, "c", removed=("a",))
    write(log, root, "d")
    transaction = log.start_transaction()
    transaction.commit(adds=adds(root, "e"), transactions=[SetTransaction(app_id="app", version=1)], operation=WRITE)
    write(log, root, "f", removed=("b", "c"))
    return log


def checkpointed(root, *versions, **configuration):
    """Like ``filled``, with checkpoints of these versions."""
    log = filled(root, **configuration)
    for version in versions:
        log.checkpoint(version)
    return log


# -- the operations


def append(log):
    """Append as a task does: with a token by which a second call finds the commit."""
    if log.find_commit("t", after=5) is None:
        write(log, log.table_uri, "g", token="t")


def replace(log):
    if log.find_commit("t", after=5) is None:
        write(log, log.table_uri, "g", "h", removed=("d", "e"), token="t")


def stage(log):
    """Stage a commit under an id by which a second call finds it."""
    transaction = log.staging("s").start_transaction()
    transaction.commit(adds=young(log, "write-" + "0" * 32 + "/g", "h"), operation=WRITE, origin=Origin(token="t"))


def young(log, *names):
    """Actions of new files with current times."""
    files = adds(log.table_uri, *names)
    times = pa.array([log.clock()] * len(files), pa.int64())
    return files.set_column(files.column_names.index("modification_time"), "modification_time", times)


def staged(root):
    """A table for which a commit is staged."""
    log = filled(root)
    stage(log)
    return log


def publish(log):
    log.publish({"table": log.table_uri, "id": "s"})


def both_staged(root):
    """Two tables for which commits are staged."""
    for name in ("a", "b"):
        (Path(root) / name).mkdir()
        staged(Path(root) / name)


def publish_both(log):
    handles = tuple(StagedHandle(table=f"{log.table_uri}/{name}", id="s") for name in ("a", "b"))
    return execute_publish(PublishStatement(handles=handles), DeltaLog.for_table, Origin())


def discard_staged(log):
    log.discard({"table": log.table_uri, "id": "s"})


def create_table(log):
    if not log.exists():
        metadata = Metadata(id="m", schema_string=SCHEMA, partition_columns=("p",))
        log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))


def old_files(root, **configuration):
    """A table whose removed files, and some that never belonged to it, are due for deletion."""
    filled(root, **configuration)
    for name in ("p=a/orphan", "orphan", ".x.tmp"):
        adds(root, name)


LOG_FILES = r"_delta_log/(\d+\.[^/]*|_last_checkpoint)$"  # no temporary files
NUMBERED = r"_delta_log/\d+\.[^/]*$"
HINT = r"_delta_log/_last_checkpoint"
V2 = {"delta.checkpointPolicy": "v2"}
SCENARIOS = [
    Scenario("create", lambda root: None, create_table),
    Scenario("append", filled, append),
    Scenario("append_on_checkpoint", lambda root: checkpointed(root, 3), append),
    Scenario("replace", filled, replace),
    Scenario("append_with_checkpoint", lambda root: filled(root, **{"delta.checkpointInterval": "6"}), append),
    Scenario("append_with_times", lambda root: filled(root, **{"delta.enableInCommitTimestamps": "true"}), append),
    Scenario("checkpoint", filled, lambda log: log.checkpoint(), leaves=LOG_FILES),
    Scenario("second_checkpoint", lambda root: checkpointed(root, 2), lambda log: log.checkpoint(), leaves=LOG_FILES),
    Scenario("checkpoint_v2", lambda root: filled(root, **V2), lambda log: log.checkpoint(), leaves=HINT),
    Scenario("checkpoint_in_parts", filled, lambda log: log.checkpoint(kind=CheckpointKind.MULTI_PART), leaves=LOG_FILES),
    Scenario("compact_log", filled, lambda log: log.compact_log(), leaves=LOG_FILES),
    Scenario(
        "cleanup",
        lambda root: checkpointed(root, 2, 4),
        lambda log: log.cleanup_log(),
        days=60,
        loses_versions=True,
        leaves=NUMBERED,  # without ``_last_checkpoint``, which may be lost
    ),
    Scenario(
        "cleanup_v2",
        lambda root: checkpointed(root, 2, 4, **V2),
        lambda log: log.cleanup_log(),
        days=60,
        loses_versions=True,
        leaves=NUMBERED + r"|_sidecars/[^.]",
    ),
    Scenario("manifests", filled, lambda log: log.generate_manifests(), leaves=r"_symlink_format_manifest/(.*/)?manifest$"),
    Scenario("vacuum", old_files, lambda log: log.vacuum(), days=30, leaves=r"^[^_.][^.]*$"),
    Scenario("vacuum_lite", old_files, lambda log: log.vacuum(lite=True), days=30, leaves=r"^[abcd]$"),
    Scenario("stage", filled, stage, leaves=r"\.json$|/g$|^h$"),
    Scenario("publish", staged, publish, leaves=r"\.(json|decision)$|/g$|^h$"),
    Scenario("discard", staged, discard_staged, leaves=r"\.(json|decision)$|/g$"),
    Scenario("vacuum_staged", staged, lambda log: log.vacuum(), days=30, leaves=r"_airflow_delta|^h$|/g$"),
    Scenario("restore", filled, lambda log: log.restore(version=2), leaves="^$"),
    Scenario("set_properties", filled, lambda log: log.alter().set_properties({"user.x": "1"}), leaves="^$"),
]
SEVERAL_TABLES = Scenario("publish_both", both_staged, publish_both)
BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, SEVERAL_TABLES)}


# -- judging


class ScenarioCheck:
    """A scenario, its table before the operation, and the result of an uninterrupted run."""

    def __init__(self, scenario, directory):
        self.scenario = scenario
        self.base = Path(directory) / "base"
        self.base.mkdir(parents=True)
        scenario.prepare(self.base)
        self.before = reading(self.base)
        undisturbed = self.copy("undisturbed")
        scenario.run(scenario.log(undisturbed))
        self.after = reading(undisturbed)
        self.files = scenario.files(undisturbed)

    def copy(self, name):
        """Copy the table before the operation, including file times."""
        target = self.base.parent / name
        shutil.copytree(self.base, target)
        return target

    def check_disturbed(self, root):
        """Check that the table reads as before or as after the operation."""
        found = reading(root)
        assert found.get("latest") in (self.before.get("latest"), self.after.get("latest")), found.get("latest")
        known = {version: rows for version, rows in self.before.items() if version != "latest"}
        for version, rows in known.items():
            gone = self.scenario.loses_versions and found[version] == "DELTA_VERSION_NOT_FOUND"
            assert gone or found[version] == rows, f"version {version}: {found[version]}"
        for version in found.keys() - known.keys() - {"latest"}:
            assert found[version] == self.after["latest"] or found[version] == self.before["latest"], f"version {version}"
        for path in found["latest"]["paths"] if found else ():
            assert (root / path).exists(), f"{path} is gone"
        return found

    def check_finished(self, root):
        """Check that a repeated call has finished the work."""
        self.scenario.run(self.scenario.log(root))
        assert self.check_disturbed(root).get("latest") == self.after.get("latest")
        assert self.scenario.files(root) == self.files, set(self.scenario.files(root)) ^ set(self.files)


def discard(root):
    shutil.rmtree(root)
