"""Reads the reports of tasks, which are XComs, from Airflow's database, with a few SQL statements per page.

The result of each statement is bounded. What it searches is only bounded by the lifetime of XComs: all XComs under this
package's keys.

DAG authors may push any XCom under these keys: one that does not have the expected form is left out, and must not break a page.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, and_, cast, func, or_, select

from airflow_delta.core.foreign_values import json_value, natural_number
from airflow_delta.hooks.conflict_report import CONFLICT_KEY
from airflow_delta.observe.links import HISTORY_KEY, MAX_BYTES
from airflow_delta.observe.report import MAX_REPORT_BYTES, MOST_TABLES, REPORT_KEY, table_id
from airflow_delta.observe.www.airflow_api import XComModel

if TYPE_CHECKING:
    from sqlalchemy.sql import ColumnElement, Select

log = logging.getLogger(__name__)

REPORTS_OF_TASK = 10
"""Newest reports of each task (and map index) that are read for the page of all tables."""

MOST_REPORTS = 20_000
"""Most reports of all tasks together: the newest."""

REPORTS_OF_TABLE = 1_000
"""Newest reports that are read for the page of one table."""

MOST_CONFLICTS = 2_000
"""Newest reports with conflicts that are read, and newest conflicts that failed a task."""

CLOCKS_DIFFER_BY = 60_000
"""Milliseconds by which a commit may seem older than the commit before it."""

_LARGEST = 2 * MAX_BYTES  # characters; escapes make the stored value longer than what was measured
_LARGEST_REPORT = 2 * MAX_REPORT_BYTES


@dataclass(frozen=True, slots=True)
class Run:
    """A task run."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of(cls, value: Any) -> Run | None:
        """The run that a JSON object names; None if it does not name a run, as for commits of other writers."""
        members = value if isinstance(value, dict) else {}
        dag_id, task_id, run_id = (json_value(members.get(name)) for name in ("dag_id", "task_id", "run_id"))  # for a link
        if not (isinstance(dag_id, str) and isinstance(task_id, str) and isinstance(run_id, str) and dag_id):
            return None
        mapped = natural_number(members.get("map_index"))
        return cls(dag_id, task_id, run_id, -1 if mapped is None else mapped)


@dataclass(frozen=True, slots=True)
class Report:
    """What one task run has reported about one table.

    Attributes:
        run: The run that reports, according to Airflow's database.
        at: When it reported, in milliseconds since the epoch.
        id: Id of the table in URLs.
        table: URI of the table.
        content: The report (see ``observe.report.table_reports``), as untrusted input.
    """

    run: Run
    at: int
    id: str
    table: str
    content: Mapping[str, Any]

    @property
    def version(self) -> int | None:
        """The version that was committed or read."""
        return natural_number(self.content.get("version"))

    @property
    def committed(self) -> bool:
        """Whether the task has committed."""
        return self.content.get("committed") is True

    @property
    def committed_at(self) -> int:
        """When the version was committed, or else reported, in milliseconds since the epoch."""
        head = self.part("head")
        timestamp = natural_number(head.get("timestamp"))
        return self.at if timestamp is None or head.get("version") != self.version else timestamp

    @property
    def newest_version(self) -> int:
        """The newest version in the report; -1 if it has no version."""
        known = (natural_number(self.part("head").get("version")), self.fact("version"), self.version)
        return next((version for version in known if version is not None), -1)

    @property
    def newest_at(self) -> int | None:
        """When that version was committed according to the log, in milliseconds since the epoch; None if unknown."""
        head = self.part("head")
        return None if natural_number(head.get("version")) is None else natural_number(head.get("timestamp"))

    def part(self, name: str) -> Mapping[str, Any]:
        """A member that is an object; empty if it is missing or something else."""
        found = self.content.get(name)
        return found if isinstance(found, dict) else {}

    def fact(self, name: str) -> int | None:
        """A count from the table's facts; None if unknown."""
        return natural_number(self.part("facts").get(name))

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        """A member that is a list of objects."""
        return objects(self.content.get(name))


def objects(values: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; empty if the value is not a list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def of_one_table(reports: Sequence[Report]) -> list[Report]:
    """The reports without those of an earlier table at the same location.

    Versions only rise: a lower version that was committed after a higher one was seen belongs to a table that was created
    again.
    """
    known = [(report, report.newest_at, report.newest_version) for report in reports]
    heads = sorted((at, version) for _, at, version in known if at is not None)
    times = [at for at, _ in heads]
    lowest_since = [*accumulate((version for _, version in reversed(heads)), min)][::-1]
    # Without a commit time, the time of the report is an upper bound.
    seen = [(report, report.at if at is None else at, version) for report, at, version in known]
    gone_at = -1
    for _, at, version in seen:
        later = bisect_right(times, at + CLOCKS_DIFFER_BY)
        if later < len(times) and lowest_since[later] < version:
            gone_at = max(gone_at, at)
    return [report for report, at, _ in seen if at > gone_at]


def latest_reports(session: Any, dag_ids: Collection[str]) -> list[Report]:
    """The newest reports of each task of these DAGs, the newest first; busy tasks do not displace the others."""
    of_task = (XComModel.dag_id, XComModel.task_id, XComModel.map_index)
    position = func.row_number().over(partition_by=of_task, order_by=XComModel.timestamp.desc()).label("position")
    identity = (XComModel.dag_run_id, XComModel.task_id, XComModel.map_index, XComModel.key)
    # Without the values, which would make sorting slow.
    ranked = select(*identity, XComModel.timestamp, position).where(_is_under(REPORT_KEY, dag_ids)).subquery()
    newest = select(*(ranked.c[column.key] for column in identity)).where(ranked.c.position <= REPORTS_OF_TASK)
    chosen = newest.order_by(ranked.c.timestamp.desc()).limit(MOST_REPORTS).subquery()
    query = _selected(_LARGEST_REPORT).join(chosen, and_(*(column == chosen.c[column.key] for column in identity)))
    return sorted(_reports(session, query), key=lambda report: report.at, reverse=True)


def reports_of_table(session: Any, dag_ids: Collection[str], identifier: str) -> list[Report]:
    """The newest reports of one table, the newest first."""
    query = _newest(REPORT_KEY, dag_ids, REPORTS_OF_TABLE, _value().contains(f'"{identifier}"', autoescape=True))
    return of_one_table([report for report in _reports(session, query) if report.id == identifier])


def reports_with_conflicts(session: Any, dag_ids: Collection[str]) -> list[Report]:
    """The newest reports with conflicts, the newest first."""
    return list(_reports(session, _newest(REPORT_KEY, dag_ids, MOST_CONFLICTS, _value().contains('"conflicts"'))))


def lost_conflicts(session: Any, dag_ids: Collection[str]) -> list[tuple[Run, int, Mapping[str, Any]]]:
    """The newest conflicts that failed a task: the run, the time (milliseconds since the epoch), and the XCom's content."""
    return list(_values(session, _newest(CONFLICT_KEY, dag_ids, MOST_CONFLICTS)))


def histories(session: Any, runs: Iterable[Run]) -> list[Mapping[str, Any]]:
    """The histories (``links.history_payload``) that these few task runs have pushed, in the order of the runs."""
    wanted = list(runs)
    those = [
        and_(
            XComModel.dag_id == run.dag_id,
            XComModel.task_id == run.task_id,
            XComModel.run_id == run.run_id,
            XComModel.map_index == run.map_index,
        )
        for run in wanted
    ]
    if not those:
        return []
    found = {run: value for run, _, value in _values(session, _selected().where(XComModel.key == HISTORY_KEY, or_(*those)))}
    return [found[run] for run in wanted if run in found]


def _value() -> ColumnElement[str]:
    """The XCom as text, because a value that cannot be parsed must not fail the query."""
    return cast(XComModel.value, Text)


def _selected(largest: int = _LARGEST) -> Select[Any]:
    columns: tuple[Any, ...] = (XComModel.dag_id, XComModel.task_id, XComModel.run_id, XComModel.map_index, XComModel.timestamp)
    return select(*columns, _value()).where(func.length(_value()) <= largest)


def _is_under(key: str, dag_ids: Collection[str]) -> ColumnElement[bool]:
    return and_(XComModel.key == key, XComModel.dag_id.in_(dag_ids))


def _newest(key: str, dag_ids: Collection[str], most: int, *conditions: ColumnElement[bool]) -> Select[Any]:
    largest = _LARGEST_REPORT if key == REPORT_KEY else _LARGEST
    those = _selected(largest).where(_is_under(key, dag_ids), *conditions)
    return those.order_by(XComModel.timestamp.desc()).limit(most)


def _values(session: Any, query: Select[Any]) -> Iterator[tuple[Run, int, Mapping[str, Any]]]:
    for dag_id, task_id, run_id, map_index, timestamp, value in session.execute(query):
        if (found := _parsed(value, dag_id)) is not None:
            yield Run(dag_id, task_id, run_id, map_index), _milliseconds(timestamp), found


def _reports(session: Any, query: Select[Any]) -> Iterator[Report]:
    for run, at, value in _values(session, query):
        for content in reversed(objects(value.get("reports"))[-MOST_TABLES:]):
            table = content.get("table")
            if isinstance(table, str):
                yield Report(run, at, table_id(table), table, content)


def _parsed(value: str | None, dag_id: str) -> Mapping[str, Any] | None:
    """The object in an XCom, which Airflow stores as JSON, or as JSON in a JSON string; None for anything else.

    With a custom XCom backend, the database may only hold a reference, which counts as something else.
    """
    try:
        found = json.loads(value or "null")
        found = json.loads(found) if isinstance(found, str) else found
    except (ValueError, RecursionError):
        log.warning("An XCom of the DAG %s cannot be read", dag_id)
        return None
    return found if isinstance(found, dict) else None


def _milliseconds(timestamp: datetime) -> int:
    at = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return round(at.timestamp() * 1_000)
