"""The reports of tasks, as Airflow's own database holds them: XComs, a few statements of SQL for a page.

What each returns has a bound. What it looks through has none but the lifetime of XComs: all those under our keys.

Any DAG author may push any XCom under our keys: what is not of the expected form is left out, and breaks no page.
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
"""Of all tasks together, newest first."""

REPORTS_OF_TABLE = 1_000
"""Newest reports that are read for the page of one table."""

MOST_CONFLICTS = 2_000
"""Newest reports with conflicts that are read, and newest conflicts that failed a task."""

CLOCKS_DIFFER_BY = 60_000
"""Milliseconds by which a commit may seem older than the one before."""

_LARGEST = 2 * MAX_BYTES  # characters: escapes make a value longer than what was measured
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
        """The run that a JSON object names; None where it names none, as for commits of other writers."""
        members = value if isinstance(value, dict) else {}
        dag_id, task_id, run_id = (json_value(members.get(name)) for name in ("dag_id", "task_id", "run_id"))  # for a link
        if not (isinstance(dag_id, str) and isinstance(task_id, str) and isinstance(run_id, str) and dag_id):
            return None
        mapped = natural_number(members.get("map_index"))
        return cls(dag_id, task_id, run_id, -1 if mapped is None else mapped)


@dataclass(frozen=True, slots=True)
class Report:
    """What one task run reported of one table.

    Attributes:
        run: Who reports; Airflow vouches for it.
        at: When, in milliseconds since the epoch.
        id: Of the table.
        content: See ``observe.report.table_reports``; a stranger's word.
    """

    run: Run
    at: int
    id: str
    table: str
    content: Mapping[str, Any]

    @property
    def version(self) -> int | None:
        """Of the commit, or of what was looked at."""
        return natural_number(self.content.get("version"))

    @property
    def committed(self) -> bool:
        """Whether there is a commit of the task."""
        return self.content.get("committed") is True

    @property
    def committed_at(self) -> int:
        """When it was committed, as far as that is known: else when it was reported."""
        head = self.part("head")
        timestamp = natural_number(head.get("timestamp"))
        return self.at if timestamp is None or head.get("version") != self.version else timestamp

    @property
    def newest_version(self) -> int:
        """The newest one that it tells of; -1 where it tells of none."""
        known = (natural_number(self.part("head").get("version")), self.fact("version"), self.version)
        return next((version for version in known if version is not None), -1)

    @property
    def newest_at(self) -> int | None:
        """When that was committed, in milliseconds since the epoch, as the log says; None where that is not known."""
        head = self.part("head")
        return None if natural_number(head.get("version")) is None else natural_number(head.get("timestamp"))

    def part(self, name: str) -> Mapping[str, Any]:
        """A member that is an object; an empty one where there is none."""
        found = self.content.get(name)
        return found if isinstance(found, dict) else {}

    def fact(self, name: str) -> int | None:
        """A count of the table."""
        return natural_number(self.part("facts").get(name))

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        """A member that is a list of objects."""
        return objects(self.content.get(name))


def objects(values: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def of_one_table(reports: Sequence[Report]) -> list[Report]:
    """Without those of an earlier table at the same place.

    Versions only rise: a lower version that was committed after a higher one had been seen belongs to a table made anew.
    """
    known = [(report, report.newest_at, report.newest_version) for report in reports]
    heads = sorted((at, version) for _, at, version in known if at is not None)
    times = [at for at, _ in heads]
    lowest_since = [*accumulate((version for _, version in reversed(heads)), min)][::-1]
    # Each newest version was committed then, or some time before.
    seen = [(report, report.at if at is None else at, version) for report, at, version in known]
    gone_at = -1
    for _, at, version in seen:
        later = bisect_right(times, at + CLOCKS_DIFFER_BY)
        if later < len(times) and lowest_since[later] < version:
            gone_at = max(gone_at, at)
    return [report for report, at, _ in seen if at > gone_at]


def latest_reports(session: Any, dag_ids: Collection[str]) -> list[Report]:
    """The newest reports of each task of these DAGs, the newest first: no busy task drives out the others."""
    of_task = (XComModel.dag_id, XComModel.task_id, XComModel.map_index)
    position = func.row_number().over(partition_by=of_task, order_by=XComModel.timestamp.desc()).label("position")
    identity = (XComModel.dag_run_id, XComModel.task_id, XComModel.map_index, XComModel.key)
    # Without the values, which are what takes long to sort.
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
    """The newest reports of commits that met others, the newest first."""
    return list(_reports(session, _newest(REPORT_KEY, dag_ids, MOST_CONFLICTS, _value().contains('"conflicts"'))))


def lost_conflicts(session: Any, dag_ids: Collection[str]) -> list[tuple[Run, int, Mapping[str, Any]]]:
    """The newest conflicts that failed a task: whose, when (milliseconds since the epoch), and what it reported."""
    return list(_values(session, _newest(CONFLICT_KEY, dag_ids, MOST_CONFLICTS)))


def histories(session: Any, runs: Iterable[Run]) -> list[Mapping[str, Any]]:
    """What these task runs (a few) reported at length, in their order; as of ``links.history_payload``."""
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
    """The XCom as text: one that cannot be parsed must not end the query."""
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
    """The object in an XCom, which Airflow stores as JSON, or as JSON in a JSON text; None where it is something else.

    With an XCom backend of one's own the database may hold a reference only, which is nothing here.
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
