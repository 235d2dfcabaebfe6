"""One case of the fuzz: a table with a mutation, everything that reads it, and whether each answer is right."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from tests.core.fuzz import tables
from tests.core.fuzz.mutations import Mutation, mutation_of
from tests.core.fuzz.reference import (
    MalformedError,
    State,
    UnclearError,
    replayed,
    routes,
    versions,
)
from tests.core.fuzz.reference_deletion_vectors import deleted_positions

CAMEL = {
    "path": "path",
    "partition_values": "partitionValues",
    "size": "size",
    "modification_time": "modificationTime",
    "tags": "tags",
    "stats": "stats",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "deletion_timestamp": "deletionTimestamp",
    "storage_type": "storageType",
    "path_or_inline_dv": "pathOrInlineDv",
    "offset": "offset",
    "size_in_bytes": "sizeInBytes",
    "cardinality": "cardinality",
}
OF_ADDS = (
    "path",
    "partition_values",
    "size",
    "modification_time",
    "tags",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
)
PREDICATES = (
    "p = 'a'",
    "d = DATE'2020-01-02'",
    "id = 13",
    "id > 20 AND name IS NULL",
    "at < TIMESTAMP'2020-01-01' OR price > 5",
)
OF_REMOVES = ("path", "partition_values", "deletion_timestamp", "deletion_vector")


class WrongAnswerError(AssertionError):
    """The core's answer contradicts the log."""


class Bench:
    """The tables on disk, used by one case after the other; each restores the disk."""

    def __init__(self, root):
        self.root = Path(root)
        self.tables = tables.make_tables()
        self.latest = {name: self._original(table) for name, table in self.tables.items()}
        for name, table in self.tables.items():
            for path, content in table.files.items():
                self._write(name, path, content)

    @staticmethod
    def _original(table):
        return replayed(table.files, 7, routes(table.files, 7)[0])

    def _write(self, name, path, content):
        target = self.root / name / path
        if content is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def describe(self, seed, number):
        """The table's name, the mutation, and the random generator for the rest of the case."""
        random = Random(f"{seed}/{number}")
        name = random.choice(list(self.tables))
        return name, mutation_of(self.tables[name], random), random

    def run(self, seed, number):
        """Run the case; raises if an answer is wrong. Returns how many questions were answered, and how many refused."""
        name, mutation, random = self.describe(seed, number)
        original = self.tables[name].files
        files = {path: content for path, content in {**original, **mutation.changes}.items() if content is not None}
        case = Case(self.root / name, files, original, mutation, self.latest[name], has_text_stats=name != "struct_stats")
        try:
            if random.random() < 0.15:
                case.first = self._known_before(name, mutation, random)
            for path, content in mutation.changes.items():
                self._write(name, path, content)
            return case.ask(random)
        finally:
            for path in mutation.changes:
                self._write(name, path, original.get(path))

    def _known_before(self, name, mutation, random):
        """A log that has read an earlier version, before the mutated files were there."""
        later = {tables.commit_path(version) for version in range(random.choice([6, 7]), 8)} | mutation.changes.keys()
        later = {path for path in later if path.startswith("_delta_log/")}
        for path in later:
            self._write(name, path, None)
        log = DeltaLog.for_table(str(self.root / name))
        try:
            log.refresh().files()
        except DeltaError:
            log = None
        for path in later & self.tables[name].files.keys():
            self._write(name, path, self.tables[name].files[path])
        return log


class Case:
    """The questions to one mutated table."""

    def __init__(self, root, files, original, mutation: Mutation, latest: State, *, has_text_stats):
        self.root = root
        self.files = files
        self.original = original
        self.mutation = mutation
        self.latest = latest
        self.has_text_stats = has_text_stats
        self.first = None
        self.answers = Counter()

    def ask(self, random):
        """Ask for the latest state; then for the rows if they were mutated, else one more question, as most are redundant."""
        every, commits = versions(self.files)
        newest = max(every, default=None)
        log = DeltaLog.for_table(str(self.root))
        version, where = random.randrange(10), random.choice(PREDICATES)
        snapshot = self._answer("latest", log.snapshot)
        if snapshot:
            self._check_state(snapshot, newest)
        if self.first and (refreshed := self._answer("refresh", self.first.refresh)):
            self._check_state(refreshed, max(commits) if refreshed.version != newest else newest)
        self._answer("exists", log.exists, may_refuse=False)
        questions = {
            "rows": lambda: snapshot and self._check_rows(snapshot),
            "where": lambda: snapshot and self._check_pruning(snapshot, where),
            "version": lambda: self._ask_version(version),
            "history": lambda: self._ask_history(log, commits),
            "time": lambda: self._answer("time", lambda: log.snapshot(timestamp=1_600_000_004_000)),
            "changes": lambda: self._answer("changes", lambda: _read(log.changes(0, 7))),
            "token": lambda: self._answer("token", lambda: log.find_commit("token", after=version)),
        }
        is_about_rows = any(not path.startswith("_delta_log/") for path in self.mutation.changes)
        kinds = random.choices(sorted(questions), [1, 1, 4, 1, 1, 2, 5])  # changes, history, rows, time, token, version, where
        for question in ["rows"] if is_about_rows else kinds:
            questions[question]()
        return self.answers

    def _ask_version(self, version):
        if at := self._answer("version", lambda: DeltaLog.for_table(str(self.root)).snapshot(version)):
            self._check_state(at, version)

    def _ask_history(self, log, commits):
        entries = self._answer("history", log.history)
        if entries is not None and [entry.version for entry in entries] != sorted(commits, reverse=True):
            raise WrongAnswerError(f"history of {[entry.version for entry in entries]}")

    def _answer(self, question, ask, *, may_refuse=True):
        """The answer; None if the table was refused, which is wrong for a harmless change."""
        try:
            answer = ask()
        except DeltaError as error:
            self.answers[f"{question} refused"] += 1
            str(error)
            is_expected = question in ("version", "time", "changes", "token") or self._is_not_known_yet(error)
            if not may_refuse or (self.mutation.is_harmless and not is_expected):
                raise WrongAnswerError(f"{question}: refused although nothing is wrong: {error!r}") from error
            return None
        self.answers[f"{question} answered"] += 1
        return answer

    def _is_not_known_yet(self, error):
        return error.code == "DELTA_UNSUPPORTED_FEATURES_FOR_READ" and any("v2_" in part for part in self.root.parts)

    # -- the state

    def _check_state(self, snapshot, version):
        if snapshot.version != version:
            raise WrongAnswerError(f"version {snapshot.version} instead of {version}")
        got = {}
        for question, ask in (("files", snapshot.files), ("tombstones", snapshot.tombstones)):
            found = self._answer(question, ask)
            if found is None:
                return
            got[question] = found
        allowed = self._allowed(version)
        if allowed is None:
            return
        answer = self._state_of(snapshot, got["files"], got["tombstones"])
        wrong = [_difference(answer, expected) for expected in map(self._expected, allowed)]
        if all(wrong):
            raise WrongAnswerError(f"state of version {version}: {wrong[:1] or 'nothing is allowed'}")

    def _allowed(self, version):
        """The correct states; None if any is acceptable."""
        if self.mutation.is_harmless and version == self.latest.version:
            return [self.latest]
        states = []
        for route in routes(self.files, version):
            try:
                states.append(replayed(self.files, version, route))
            except MalformedError:
                continue
            except UnclearError:
                return None
        return states

    def _expected(self, state):
        def file(action, columns):
            return {CAMEL[name]: action[CAMEL[name]] for name in columns if action.get(CAMEL[name]) is not None} | (
                {"stats": action.get("stats")} if columns is OF_ADDS and self.has_text_stats else {}
            )

        adds = [_plain(file(live_file, OF_ADDS)) for live_file in state.files.values()]
        removes = [_plain(file(tombstone, OF_REMOVES)) for tombstone in state.tombstones.values()]
        protocol = (
            state.protocol["minReaderVersion"],
            state.protocol["minWriterVersion"],
            _sorted(state.protocol.get("readerFeatures")),
            _sorted(state.protocol.get("writerFeatures")),
        )
        metadata = (
            state.metadata["id"],
            state.metadata["schemaString"],
            tuple(state.metadata.get("partitionColumns") or ()),
            dict(state.metadata["configuration"]),
        )
        transactions = {app: transaction["version"] for app, transaction in state.transactions.items()}
        domains = {name: domain["configuration"] for name, domain in state.domains.items()}
        return {
            "protocol": protocol,
            "metadata": metadata,
            "transactions": transactions,
            "domains": domains,
            "files": Counter(adds),
            "tombstones": Counter(removes),
        }

    def _state_of(self, snapshot, files, tombstones):
        columns = (*OF_ADDS, "stats") if self.has_text_stats else OF_ADDS
        protocol, metadata = snapshot.protocol, snapshot.metadata
        return {
            "protocol": (
                protocol.min_reader_version,
                protocol.min_writer_version,
                _sorted(protocol.reader_features),
                _sorted(protocol.writer_features),
            ),
            "metadata": (metadata.id, metadata.schema_string, metadata.partition_columns, dict(metadata.configuration)),
            "transactions": {app: transaction.version for app, transaction in snapshot.transactions.items()},
            "domains": {name: domain.configuration for name, domain in snapshot.domains.items()},
            "files": Counter(_plain(document) for document in _documents(files.select(columns), keep_nulls=("stats",))),
            "tombstones": Counter(_plain(document) for document in _documents(tombstones.select(OF_REMOVES))),
        }

    # -- rows

    def _check_rows(self, snapshot):
        if any(":/" in path for path in self._answered_paths(snapshot)):
            return  # no network access
        found = self._answer("rows", lambda: snapshot.to_arrow().read_all())
        if found is None or not self._has_original_schema(snapshot):
            return
        try:
            expected = Counter(self._rows_of(snapshot.version))
        except UnclearError:
            return
        except MalformedError as error:
            raise WrongAnswerError(f"rows although {error}") from error
        got = Counter(map(repr, found.to_pylist()))
        if got != expected:
            raise WrongAnswerError(
                f"rows: {list((got - expected).items())[:2]} instead of {list((expected - got).items())[:2]}"
            )

    def _answered_paths(self, snapshot):
        files = self._answer("files", snapshot.files)
        return [] if files is None else files["path"].to_pylist()

    def _has_original_schema(self, snapshot):
        metadata = snapshot.metadata
        return metadata.schema_string == tables.SCHEMA and metadata.partition_columns == ("p", "d")

    def _rows_of(self, version):
        states = self._allowed(version)
        if not states or any(state.files != states[0].files for state in states):
            raise UnclearError("several answers are right")
        for action in states[0].files.values():
            deletion_vector = action.get("deletionVector")
            deleted = deleted_positions(self.files, deletion_vector) if deletion_vector else ()
            for position, row in enumerate(self._stored_rows(unquote(action["path"]))):
                if position not in deleted:
                    values = action["partitionValues"]
                    yield repr({**row, "p": values.get("p") or None, "d": _date(values.get("d"))})

    def _stored_rows(self, path):
        if path not in self.files:
            raise MalformedError(f"{path} is missing") if path in self.original else UnclearError(path)
        try:
            rows = pq.ParquetFile(pa.BufferReader(self.files[path]), memory_map=False).read(use_threads=False)
            if self.files[path] is not self.original.get(path):
                if rows.schema != tables.STORED:
                    raise UnclearError("another schema")
                rows.validate(full=True)
            return rows.to_pylist()
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise UnclearError(str(error)) from error

    def _check_pruning(self, snapshot, where):
        """A partition predicate is exact; a data predicate keeps every file that its statistics do not rule out."""
        pruned = self._answer(f"where {where}", lambda: snapshot.files(where)) if self._has_original_schema(snapshot) else None
        files = None if pruned is None else self._answer("files", snapshot.files)
        if files is None:
            return  # not read, or only something that the predicate did not need is broken
        if not set(pruned["path"].to_pylist()) <= set(files["path"].to_pylist()):
            raise WrongAnswerError(f"{where} finds files that are not there")
        if where == "p = 'a'":
            values = [dict(value).get("p") for value in files["partition_values"].to_pylist()]
            if len(pruned) != sum(value == "a" for value in values):
                raise WrongAnswerError(f"{len(pruned)} files for {where}, but {values}")
        if where == "id = 13" and files == pruned and self.mutation.is_harmless and self.has_text_stats:
            raise WrongAnswerError("no file is pruned by statistics")


def _read(answer):
    return answer.read_all() if hasattr(answer, "read_all") else answer


def _sorted(features):
    return None if features is None else tuple(sorted(set(features)))


def _date(text):
    if not text:
        return None
    try:
        return pa.scalar(text).cast(pa.date32()).as_py()
    except pa.ArrowException as error:
        raise UnclearError(text) from error


def _documents(files, keep_nulls=()):
    for row in files.to_pylist(maps_as_pydicts="strict"):
        yield {CAMEL[name]: value for name, value in row.items() if value is not None or name in keep_nulls}


def _plain(action):
    """An action as text that is equal for equal actions."""
    clean = {}
    for name, value in action.items():
        if name in ("partitionValues", "tags"):
            # Values of columns that are not partition columns mean nothing.
            keys = ("p", "d") if name == "partitionValues" else value or ()
            clean[name] = {key: value[key] for key in keys if (value or {}).get(key) is not None}
            if name == "tags" and not clean[name]:
                del clean[name]
        elif name == "deletionVector":
            clean[name] = {CAMEL.get(key, key): member for key, member in value.items() if member is not None}
        else:
            clean[name] = value
    clean.setdefault("partitionValues", {})
    for name in ("size", "modificationTime"):
        clean.setdefault(name, 0)
    return json.dumps(clean, sort_keys=True)


def _difference(got, expected):
    """The differences in short; empty without any."""
    if got == expected:
        return ""
    name = next(name for name in expected if got[name] != expected[name])
    if isinstance(expected[name], Counter):
        return f"{name}: {list(got[name] - expected[name])[:2]} instead of {list(expected[name] - got[name])[:2]}"
    return f"{name}: {got[name]!r:.300} instead of {expected[name]!r:.300}"
