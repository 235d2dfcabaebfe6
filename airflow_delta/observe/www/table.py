"""The contents of one table's page: its commits with their runs, its growth, and the last report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from airflow_delta.core.foreign_values import natural_number
from airflow_delta.observe.www import formats
from airflow_delta.observe.www.plots import Bar, histogram, line_chart
from airflow_delta.observe.www.reports import Report, Run, objects
from airflow_delta.observe.www.tables import series

COMMITS_OF_PAGE = 50

MOST_HISTORIES = 6
"""Most task runs of a table whose histories are read."""

_MOST = 50  # most members of any list
_POINTS = 1_000  # most points of a chart
_GOOD_DEPTH = 2.0
_POOR_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One version of the table.

    Attributes:
        version: The version.
        at: When it was committed, in milliseconds since the epoch.
        operation: Delta's name of the operation.
        run: The task run that committed; None for another writer.
        engine: The engine according to the commit; empty if unknown.
        rows: Rows inserted, updated and deleted; None if unknown.
        files: Data files added; None if unknown.
        size: Bytes of these files; None if unknown.
        duration_ms: How long the statement took, in milliseconds; None if unknown.
        attempts: Attempts to commit.
        metrics: The metrics in the commit; None before its entry in a history was read.
        conflicts: Number of concurrent commits that it met.
    """

    version: int
    at: int
    operation: str
    run: Run | None = None
    engine: str = ""
    rows: int | None = None
    files: int | None = None
    size: int | None = None
    duration_ms: int | None = None
    attempts: int = 1
    conflicts: int = 0
    metrics: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How well one clustering column separates the files.

    Attributes:
        column: The column.
        files: Number of files in the table.
        mean: Number of files that can hold one value, on average.
        most: Largest number of files that can hold one value.
        unknown: Number of files without bounds for the column.
        share: ``mean`` as a share of all files, from 0 to 1.
        level: Rating of the layout: ``good``, ``due`` (in between) or ``warning``.
    """

    column: str
    files: int
    mean: float
    most: int
    unknown: int
    share: float
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A step of maintenance: whether it was due and done, and why."""

    step: str
    due: bool
    done: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedVersion:
    """A version that a run still needs."""

    version: int
    run: Run
    expires: int | None


def chosen_runs(reports: Sequence[Report]) -> list[Run]:
    """The task runs whose histories the page needs: the newest, the last health check and the last maintenance."""
    newest = [report.run for report in reports[: MOST_HISTORIES - 2]]
    for operation in ("HEALTH", "MAINTENANCE"):
        newest += [report.run for report in reports if report.content.get("operation") == operation][:1]
    return list(dict.fromkeys(newest))


def commits(reports: Iterable[Report], payloads: Iterable[Mapping[str, Any]], dag_ids: Collection[str]) -> list[Commit]:
    """The commits in the reports and histories, the newest first.

    Args:
        reports: Reports of the table, the newest first.
        payloads: Histories of the table, the newest first.
        dag_ids: The DAGs that the user may read; commits of other DAGs are left out.
    """
    found: dict[int, Commit] = {}
    for report in reports:
        version = report.version
        if report.committed and version is not None and version not in found:
            found[version] = _of_report(report, version)
    for payload in payloads:
        for entry in objects(payload.get("commits"))[:_MOST]:
            _add_entry(found, entry, dag_ids)
    return [found[version] for version in sorted(found, reverse=True)]


def growth(reports: Sequence[Report]) -> list[tuple[str, Markup]]:
    """A title and a chart for each fact with at least two known values."""
    charts = []
    for title, fact, shown in (
        ("Size", "bytes", formats.size),
        ("Rows", "rows", formats.short_number),
        ("Files", "files", formats.short_number),
    ):
        points = series(reports[:_POINTS], fact)
        versions, values = [*points], [*points.values()]
        if len(values) > 1:
            low, high = shown(min(values)), shown(max(values))
            description = f"{title}: from {shown(values[0])} to {shown(values[-1])}, between {low} and {high}"
            ends = (f"version {versions[0]:,}", f"version {versions[-1]:,}")
            charts.append((title, line_chart(values, ends=ends, levels=(low, high), description=description)))
    return charts


def file_sizes(detail: Mapping[str, Any]) -> Markup | None:
    """The histogram of file sizes; None if they are unknown."""
    sizes = detail.get("sizes")
    members = sizes if isinstance(sizes, dict) else {}
    bounds, counts = (_numbers(members.get(name)) for name in ("bounds", "counts"))
    if not any(counts) or len(counts) != len(bounds) + 1 or bounds != sorted({*bounds}):
        return None
    small = natural_number(members.get("small")) or 0
    labels = [f"<{formats.short_size(bounds[0])}", *map(formats.short_size, bounds)] if bounds else ["all"]
    starts = (0, *bounds)
    bars = [
        Bar(label, count, "small" if start < small else "") for label, count, start in zip(labels, counts, starts, strict=True)
    ]
    counted = ", ".join(f"{bar.count:,} {bar.label}" for bar in bars if bar.count)
    return histogram(bars, f"Number of files by size: {counted}")


def layouts(detail: Mapping[str, Any]) -> list[Layout]:
    """The layout for each clustering column."""
    found = []
    for member in objects(detail.get("layout"))[:_MOST]:
        files, most, unknown = (natural_number(member.get(name)) for name in ("files", "most", "unknown"))
        mean = member.get("mean")
        if not files or most is None or unknown is None or not isinstance(mean, int | float) or not 0 <= mean <= files:
            continue
        share = mean / files
        level = "good" if mean <= _GOOD_DEPTH else "warning" if share > _POOR_SHARE else "due"
        column = formats.text(member.get("column"))
        found.append(Layout(column=column, files=files, mean=mean, most=most, unknown=unknown, share=share, level=level))
    return found


def maintenance(detail: Mapping[str, Any], payloads: Iterable[Mapping[str, Any]]) -> list[Need]:
    """Steps of maintenance, due ones first: from the last report or, if that cannot judge them, from the last maintenance."""
    last = next((objects(payload.get("steps")) for payload in payloads if payload.get("operation") == "MAINTENANCE"), [])
    found = {need.step: need for need in map(_need, last[:_MOST])}
    found |= {need.step: need for need in map(_need, objects(detail.get("maintenance"))[:_MOST])}
    return sorted(found.values(), key=lambda need: not need.due)


def findings(payloads: Iterable[Mapping[str, Any]]) -> list[Mapping[str, str]] | None:
    """The findings of the last health check; None without a health check."""
    for payload in payloads:
        if payload.get("operation") == "HEALTH":
            kept = ("severity", "code", "text", "remedy")
            return [
                {name: formats.text(entry.get(name)) for name in kept} for entry in objects(payload.get("findings"))[:_MOST]
            ]
    return None


def pins(detail: Mapping[str, Any], dag_ids: Collection[str], now: int) -> list[PinnedVersion]:
    """The pins of DAGs that the user may read, without expired ones."""
    found = []
    for member in objects(detail.get("pins"))[:_MOST]:
        run, version, expires = Run.of(member), natural_number(member.get("version")), natural_number(member.get("expires"))
        if run is not None and run.dag_id in dag_ids and version is not None and (expires is None or expires > now):
            found.append(PinnedVersion(version=version, run=run, expires=expires))
    return found


def names(values: Any) -> list[str]:
    """The strings in a list."""
    return [formats.text(value) for value in values[:_MOST] if isinstance(value, str)] if isinstance(values, list) else []


def _numbers(values: Any) -> list[int]:
    """A list of counts; empty if a member is not a count."""
    found = [natural_number(value) for value in values[:_MOST]] if isinstance(values, list) else []
    counts = [count for count in found if count is not None]
    return counts if len(counts) == len(found) else []


def _of_report(report: Report, version: int) -> Commit:
    counts = {name: natural_number(report.content.get(name)) for name in ("rows", "files", "bytes", "duration_ms", "attempts")}
    return Commit(
        version=version,
        at=report.committed_at,
        operation=formats.text(report.content.get("operation")),
        run=report.run,
        rows=counts["rows"],
        files=counts["files"],
        size=counts["bytes"],
        duration_ms=counts["duration_ms"],
        attempts=counts["attempts"] or 1,
        conflicts=len(report.objects("conflicts")),
    )


def _add_entry(found: dict[int, Commit], entry: Mapping[str, Any], dag_ids: Collection[str]) -> None:
    version, run = natural_number(entry.get("version")), Run.of(entry.get("run"))
    if version is None or (run is not None and run.dag_id not in dag_ids):
        return
    at, operation = natural_number(entry.get("timestamp")) or 0, formats.text(entry.get("operation"))
    known = found.get(version) or Commit(version=version, at=at, operation=operation, run=run)
    if known.metrics is not None:
        return
    values = entry.get("operationMetrics")
    metrics = (
        {formats.text(name): formats.number(value) for name, value in [*values.items()][:_MOST]}
        if isinstance(values, dict)
        else {}
    )
    engine = formats.text(entry.get("engineInfo"))
    found[version] = replace(known, at=at or known.at, engine=engine, metrics=metrics)


def _need(member: Mapping[str, Any]) -> Need:
    return Need(
        step=formats.text(member.get("step")),
        due=member.get("due") is True,
        done=member.get("done") is True,
        why=formats.text(member.get("why")),
    )
