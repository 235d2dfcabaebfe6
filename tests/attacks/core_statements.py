"""Everything that can be done with a table without Spark: the core's operations, the CLI commands, the pages."""

import contextlib
import io
import json
import re
import shutil

from airflow_delta.cli.main import main
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.operations.table_health import check_health
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.table_stats import attach_table_stats
from airflow_delta.observe.links import history_payload
from airflow_delta.observe.www.pages import history_page
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_watch import CommitWatch
from airflow_delta.watch.waits import CommitWait
from tests.attacks.hostile_table import CANARY, LeakError

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _shown(text):
    """Raise if a displayed text contains the neighbor's rows, or terminal control sequences."""
    if CANARY in text:
        raise LeakError(f"the neighbor's rows in {text[:300]!r}")
    if found := _CONTROL.search(text):
        raise LeakError(f"control character {found[0]!r} in {text[max(0, found.start() - 100) : found.end() + 100]!r}")


def _read(log):
    for batch in log.snapshot().to_arrow():
        if CANARY in str(batch.to_pydict()):
            raise LeakError("the neighbor's rows were read")


def _changes(log):
    for batch in log.changes(0):
        if CANARY in str(batch.to_pydict()):
            raise LeakError("the neighbor's rows were read")


def _filter(log):
    snapshot = log.snapshot()
    first = snapshot.schema.names[0]
    quoted = "`" + first.replace("`", "``") + "`"
    snapshot.files(f"{quoted} IS NOT NULL")


def _commit(log):
    transaction = log.start_transaction()
    transaction.read_whole_table()
    transaction.commit(operation=Operation(name="WRITE"))


def _clone(log):
    target = DeltaLog.for_table(f"{log.table_uri}-clone")
    log.shallow_clone(target)
    _read(target)


def _deep_clone(log):
    target = DeltaLog.for_table(f"{log.table_uri}-deep")
    log.deep_clone(target)
    _read(target)


def _convert(log):
    shutil.rmtree(f"{log.table_uri}/_delta_log")
    DeltaLog.convert(log.table_uri)
    _read(DeltaLog.for_table(log.table_uri))


def _command(*words):
    def run(log):
        table, *others = words
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([table, log.table_uri, *others])
            except SystemExit as end:
                if end.code not in {0, 1, None}:
                    raise LeakError(f"exit code {end.code}: {err.getvalue()[-300:]}") from end
        _shown(out.getvalue().replace("\n", ""))
        _shown(err.getvalue().replace("\n", ""))

    return run


def _observed(log):
    """What a task reports about its table, as stored and as shown on the page."""
    outcome = OperationResult(table=log.table_uri, version=0, read_version=0, operation="VACUUM", committed=False)
    document = ResultDocument.from_text(attach_table_stats(ResultDocument(outcome=outcome), log).to_text())
    page = history_page(json.loads(json.dumps(history_payload(document))), root="")
    _shown(page.replace("\n", ""))


def _sensor(log):
    wait = CommitWait(after=-1, wanted=CommitFilter(operations=("OPTIMIZE",)), min_rows=10**6)
    CommitWatch(log.store, wait).poll()


STATEMENTS = {
    "snapshot": lambda log: log.snapshot(),
    "files": lambda log: log.snapshot().files(),
    "files where": _filter,
    "read": _read,
    "history": lambda log: log.history(),
    "changes": _changes,
    "commit": _commit,
    "checkpoint": lambda log: log.checkpoint(),
    "compact log": lambda log: log.compact_log(),
    "clean up log": lambda log: log.cleanup_log(),
    "vacuum": lambda log: log.vacuum(0, enforce_retention=False),
    "vacuum lite": lambda log: log.vacuum(0, enforce_retention=False, lite=True),
    "restore": lambda log: log.restore(0),
    "clone": _clone,
    "deep clone": _deep_clone,
    "convert": _convert,
    "manifests": lambda log: log.generate_manifests(),
    "statistics": lambda log: log.recompute_statistics(),
    "health": check_health,
    "history command": _command("history"),
    "history command, JSON": _command("history", "--json"),
    "detail command": _command("detail"),
    "detail command, JSON": _command("detail", "--json"),
    "files command": _command("files"),
    "diff command": _command("diff", "0", "1"),
    "vacuum command": _command("vacuum"),
    "doctor command": _command("doctor"),
    "page": _observed,
    "sensor": _sensor,
}


def run(statement, table):
    """Run a statement on the table at a path. Returns its outcome; raises any error that is not one of ours.

    The text of our errors must be safe for a terminal, too.
    """
    try:
        STATEMENTS[statement](DeltaLog.for_table(table))
    except DeltaError as error:
        _shown(str(error).replace("\n", ""))
        return type(error).__name__
    return "done"
