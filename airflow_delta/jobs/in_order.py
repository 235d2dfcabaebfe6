"""A sequence of statements: each commits with its own token, and a retry continues after the last commit."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import committed_result, staged_result, version_before
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import OperationResult, SequenceStatement, TableStatement
from airflow_delta.core.statements.publish import publishes_later
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.statements.sequence import STATEMENTS_KEY
from airflow_delta.jobs.commits import commits_of
from airflow_delta.jobs.outcome import with_dry_run_flag, without_commit
from airflow_delta.jobs.runner import StatementRun
from airflow_delta.jobs.spec import statement_digest

STATEMENT_KEY = "statement"
"""Key, in the record of a commit, of the statement's name."""

SKIPPED_KEY = "skipped"
"""Key, in a statement's details, that is True if an earlier try has run the statement without leaving a commit to find."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement of a sequence.

    Attributes:
        name: Name of the statement in the sequence.
        statement: The statement.
        log: The log of the statement's table.
        origin: The origin of the sequence, but with the statement's own token.
        start_version: The table's version before the task's first try; None if unknown.
    """

    name: str
    statement: TableStatement
    log: DeltaLog
    origin: Origin
    start_version: int | None


def run_in_order(
    run: StatementRun, sequence: SequenceStatement, *, execute: Callable[[Step], OperationResult]
) -> OperationResult:
    """Run the statements after the last one that an earlier try has committed; stop at the first that fails.

    Args:
        run: The run of the sequence.
        sequence: The statements.
        execute: Runs one statement, unless a commit with its token exists.

    Raises:
        DeltaError: The error of the failed statement, with the statement's name and position. The statements before it stay
            committed.
    """
    steps = list(_steps(run, sequence))
    earlier = [_earlier_result(step) for step in steps]
    done = max((position for position, result in enumerate(earlier) if result is not None), default=-1)
    if done >= 0 and commits_of(steps[done].statement) != "once":
        done -= 1  # it may have made only some of its commits
    results: dict[str, OperationResult] = {}
    for position, (step, found) in enumerate(zip(steps, earlier, strict=True)):
        title = f"Statement {step.name} ({position + 1} of {len(steps)})"
        if position > done:
            _logger.info("%s: %s on %s", title, _operation(step), step.statement.table)
            try:
                result = with_dry_run_flag(execute(step), step.statement)
            except DeltaError as error:
                place = f"statement {step.name} ({position + 1} of {len(steps)}{_kept(results)})"
                raise replace(error, statement_place=place) from error
        elif found is not None:
            _logger.info("%s: version %d of %s holds its commit", title, found.version, step.statement.table)
            result = found
        elif staged := _staged_earlier(step):
            _logger.info("%s: staged by an earlier try", title)
            result = staged
        else:
            _logger.info("%s: not run again, as a later one has committed", title)
            result = _skipped(step)
        results[step.name] = result
    return _result(sequence, results)


def _kept(results: dict[str, OperationResult]) -> str:
    committed = ", ".join(f"{name} as version {result.version}" for name, result in results.items() if result.committed)
    return f"; committed before it: {committed}" if committed else ""


def _steps(run: StatementRun, sequence: SequenceStatement) -> Iterator[Step]:
    logs = {sequence.table: run.log}
    starts = {sequence.table: run.start_version}
    for name, statement in zip(sequence.names, sequence.statements, strict=True):
        log = logs.get(statement.table) or logs.setdefault(statement.table, run.backend.open_table(statement.table))
        if statement.table not in starts:
            starts[statement.table] = _start_version(log, run.backend.earliest_commit_time)
        yield Step(
            name=name,
            statement=statement,
            log=log,
            origin=replace(
                run.origin,
                token=_token(run.origin.token, name, statement),
                record={**run.origin.record, STATEMENT_KEY: name},
            ),
            start_version=starts[statement.table],
        )


def _token(token: str | None, name: str, statement: TableStatement) -> str | None:
    """A token for one statement of the task, the same in all tries."""
    if token is None:
        return None
    return hashlib.sha256(f"{token}\n{name}\n{statement_digest(statement)}".encode()).hexdigest()[:32]


def _start_version(log: DeltaLog, earliest_commit_time: int | None) -> int | None:
    if not log.exists():
        return NO_TABLE
    return None if earliest_commit_time is None else version_before(log, earliest_commit_time)


def _earlier_result(step: Step) -> OperationResult | None:
    token = step.origin.token
    return None if token is None else committed_result(step.log, token, step.start_version)


def _staged_earlier(step: Step) -> OperationResult | None:
    token = step.origin.token
    return None if token is None or not publishes_later(step.statement) else staged_result(step.log, token)


def _skipped(step: Step) -> OperationResult:
    version = step.log.refresh().version if step.log.exists() else NO_TABLE
    return without_commit(step.log, _operation(step), version, details={SKIPPED_KEY: True})


def _operation(step: Step) -> str:
    return step.statement.type_name.replace("_", " ").upper()


def _result(sequence: SequenceStatement, results: dict[str, OperationResult]) -> OperationResult:
    committed = [result for result in results.values() if result.committed]
    of_table = [result for result in results.values() if result.table == results[sequence.names[0]].table]
    return OperationResult(
        table=of_table[0].table,
        version=of_table[-1].version,
        read_version=of_table[0].read_version,
        operation="SEQUENCE",
        committed=bool(committed),
        already_committed=bool(committed) and all(result.already_committed for result in committed),
        metrics={"numStatements": len(results), "numCommits": len(committed)},
        conflicts=tuple(conflict for result in results.values() for conflict in result.conflicts),
        attempts=max(result.attempts for result in results.values()),
        details={STATEMENTS_KEY: {name: result.to_json() for name, result in results.items()}},
        warnings=tuple(f"{name}: {warning}" for name, result in results.items() for warning in result.warnings),
    )
