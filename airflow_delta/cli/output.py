"""What the commands print: tables or JSON to standard output, errors and progress to standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from traceback import walk_tb
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
from rich import markup
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import json_text, printable
from airflow_delta.core.log.history import HistoryEntry
from airflow_delta.core.operations.pins import Pin
from airflow_delta.core.operations.table_health import Finding, Severity, TableHealth
from airflow_delta.core.operations.vacuum import VacuumResult
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.snapshot.snapshot_difference import FileTotals, SnapshotDifference
from airflow_delta.core.wording import counted

SHOWN = 50  # most rows of a printed table; JSON has all rows
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}
_CHANGED = re.compile(
    r"num(?:Target)?((?:Output|Added|Removed|Restored|Deleted|Updated)?(?:Rows|Files)(?:Inserted|Updated|Deleted|Added|Removed)?)"
)
_LONGEST = 80  # most characters of a list in a cell
_MOST_SHOWN = 4_000  # most characters of a text; rich's time grows with the square of a word's length
_WIDE = 10_000  # characters of a line without a terminal
_NO_OUTPUT = "OUTPUT_NOT_WRITTEN"  # code of an error of the standard output
_NO_ANSWER = "STORAGE_UNAVAILABLE"  # code of an error of the operating system or the network
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_NO_PARAMETERS = (None, "[]", "{}", "")
_NO_COUNTS = (*_NO_PARAMETERS, "0")
"""Values that are left out, as they carry no information."""
_KIBI = 1024


class Work:
    """The progress of a long piece of work."""

    def __init__(self, progress: Progress, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(text, total=None)
        self._text = text

    def done(self, text: str, number: int = 1) -> None:
        """Count ``number`` more items as done; a new text starts the count again."""
        if text != self._text:
            self._text = text
            self._progress.reset(self._task, description=text, total=None)
        self._progress.advance(self._task, number)


@contextmanager
def working(text: str) -> Iterator[Work]:
    """Show a progress bar on standard error while the block runs, if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Work(progress, text)


def uris(found: Iterable[str], *, as_json: bool) -> None:
    """Print URIs, one per line, for copying."""
    for uri in found:
        print(json_text({"uri": uri}) if as_json else uri)


def environment(uri: str, conf: Mapping[str, str], *, as_json: bool) -> None:
    """Print the URI of a packed environment, and the settings that use it."""
    if as_json:
        _print_json({"uri": uri, "conf": conf})
    else:
        _print(_pairs({"archive": uri, **conf}))


def history(entries: Iterable[HistoryEntry], *, as_json: bool, most: int = SHOWN) -> None:
    """Print the commits, one per row; as a table, at most ``most``."""
    if as_json:
        for entry in entries:
            head = {"version": entry.version, "timestamp": entry.timestamp}
            # The time that --timestamp uses overrides the writer's own timestamp.
            _print_json({**head, **(entry.commit_info.fields if entry.commit_info else {}), **head})
        return
    table = _table("version", "time (UTC)", "operation", "parameters", "rows and files", "made by")
    found = [*entries]
    for entry in found[:most]:
        info = entry.commit_info
        table.add_row(
            str(entry.version),
            _time(entry.timestamp),
            *(
                (
                    _shown(info.operation),
                    _short(info.operation_parameters, but=_NO_PARAMETERS),
                    _short(_counts(info.operation_metrics), but=_NO_COUNTS),
                    _made_by(entry),
                )
                if info
                else ("", "", "", "")
            ),
        )
    more = [f"the newest {most} commits are shown, --limit shows more, --json gives all"] if len(found) > most else []
    _print(table, *more)


def detail(snapshot: Snapshot, pins: Iterable[Pin], *, as_json: bool) -> None:
    """Print the table's definition, size and pins."""
    measured = snapshot.files(columns=("size", "deletion_vector"))
    protocol, metadata = snapshot.protocol, snapshot.metadata
    found: dict[str, Any] = {
        "table": snapshot.table_uri,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "version": snapshot.version,
        "timestamp": snapshot.history_timestamp,
        "createdTime": metadata.created_time,
        "columns": {field.name: f"{field.type}{'' if field.nullable else ' NOT NULL'}" for field in snapshot.schema.fields},
        "partitionColumns": list(metadata.partition_columns),
        "numFiles": len(measured),
        "sizeInBytes": pc.sum(measured["size"]).as_py() or 0,
        "numDeletionVectors": len(measured) - measured["deletion_vector"].null_count,
        "properties": dict(sorted(metadata.configuration.items())),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted((protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())),
        "pins": [asdict(pin) for pin in pins],
    }
    if as_json:
        _print_json(found)
        return
    found |= {"timestamp": _time(snapshot.history_timestamp), "sizeInBytes": _size(found["sizeInBytes"])}
    found["createdTime"] = metadata.created_time and _time(metadata.created_time)
    found["pins"] = [_pin(pin) for pin in pins]
    _print(_pairs(found))


def files(found: pa.Table, *, as_json: bool) -> None:
    """Print the data files, one per row."""
    if as_json:
        for batch in found.to_batches(max_chunksize=SHOWN * 100):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                _print_json({name: value for name, value in row.items() if value is not None})
        return
    table = _table("path", "size", "partition", "deleted rows")
    for row in found.slice(0, SHOWN).to_pylist(maps_as_pydicts="strict"):
        descriptor = row["deletion_vector"]
        table.add_row(
            _shown(row["path"]),
            _size(row["size"]),
            _short(row["partition_values"]),
            str(descriptor["cardinality"]) if descriptor else "",
        )
    _print(table, f"{counted(len(found), 'file')}, {_size(pc.sum(found['size']).as_py() or 0)}" + _not_shown(len(found)))


def difference(found: SnapshotDifference, *, as_json: bool) -> None:
    """Print what changed between two versions."""
    if as_json:
        _print_json(found.to_json())
        return
    rows = {
        "versions": f"{found.before} -> {found.after}",
        "added": _totals(found.added),
        "removed": _totals(found.removed),
        "columns": found.columns,
        "properties": found.properties,
        "protocol": found.protocol,
    }
    _print(_pairs(rows))


def vacuum(found: VacuumResult, *, as_json: bool) -> None:
    """Print the files that were, or would be, deleted."""
    if as_json:
        document = {"dryRun": found.dry_run, "files": found.files, "bytes": found.bytes, "version": found.version}
        _print_json(
            {
                **document,
                "paths": found.paths.to_pylist(),
                "pins": [asdict(pin) for pin in found.pins],
                "damagedPins": found.damaged_pins,
            }
        )
        return
    table = _table("path")
    for path in found.paths.slice(0, SHOWN).to_pylist():
        table.add_row(_shown(path))
    verb = "would be deleted (dry run; add --run to delete)" if found.dry_run else "deleted"
    kept = (_shown(f"kept by pin: {_pin(pin)}") for pin in found.pins)
    damaged = map(_shown, found.damaged_pins)
    _print(table, *kept, *damaged, f"{counted(found.files, 'file')}, {_size(found.bytes)}: {verb}" + _not_shown(found.files))


def result(found: Any, *, as_json: bool) -> None:
    """Print the fields of a result; of its commit, a table only shows failures after it, as the history has the rest."""
    document = asdict(found)
    if as_json:
        _print_json(document)
        return
    commit = document.pop("commit", None) or {}
    warnings = {"warnings": failures} if (failures := commit.get("hook_failures")) else {}
    _print(_pairs({**document, **warnings}))


def health(found: TableHealth, *, as_json: bool) -> None:
    """Print the findings, the worst first."""
    if as_json:
        _print_json(found.to_json())
        return
    console = _console()
    for finding in found.findings:
        console.print(_finding(finding))
    figures = ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in found.figures.items())
    verdict = "no errors" if found.is_sound else "not sound"
    version = "" if found.version is None else f" at version {found.version}"
    console.print(
        f"[bold]{_shown(found.table)}[/bold]{version}: {verdict}, {counted(len(found.findings), 'finding')}. {figures}".rstrip()
    )


def cluster(report: Mapping[str, Any], *, as_json: bool) -> bool:
    """Print facts and findings about a cluster, the worst first; return whether there are no errors."""
    findings = [
        Finding(**{**found, "severity": Severity(found["severity"]), "files": tuple(found["files"])})
        for found in report["findings"]
    ]
    is_sound = all(finding.severity is not Severity.ERROR for finding in findings)
    if as_json:
        _print_json({"facts": report["facts"], "findings": report["findings"]})
    else:
        rows: dict[str, list[str]] = {}
        for name, text in report["table"]:
            rows.setdefault(_shown(name), []).append(text)
        _print(
            _pairs(rows),
            *map(_finding, findings),
            f"{'no errors' if is_sound else 'not sound'}, {counted(len(findings), 'finding')}",
        )
    return is_sound


def error(found: DeltaError | OSError, *, as_json: bool) -> None:
    """Print an error and its remedy."""
    if isinstance(found, DeltaError):
        code, claim, remedy = found.code, found.claim(), found.remedy.format(**found.attributes())
        document = found.to_json()
    elif _is_of_printing(found):
        code, claim, remedy = _NO_OUTPUT, str(found), "make room where the output goes, or send it to another place"
        document = {"code": code, "retryable": False, "text": claim, "attributes": {}}
    else:
        code, claim, remedy = _NO_ANSWER, str(found), "check that the storage can be reached, and try again"
        document = {"code": code, "retryable": True, "text": claim, "attributes": {}}
    console = Console(stderr=True, width=_width(sys.stderr), emoji=False, highlight=False)
    if as_json:
        print(json_text(document), file=console.file)
    else:
        console.print(f"[bold red]{code}[/bold red] {_shown(claim)}")
        console.print(f"[green]remedy:[/green] {_shown(remedy)}")


def _is_of_printing(error: OSError) -> bool:
    """Whether the error was raised while printing: by this module or rich's console, and not by a storage."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__") in {__name__, Console.__module__}


def _finding(found: Finding) -> str:
    lines = [
        f"[{_STYLES[found.severity]}]{found.severity.value}[/] [bold]{_shown(found.code)}[/bold] {_shown(found.text)}",
        *(f"  {_shown(file)}" for file in found.files),
        f"  [green]remedy:[/green] {_shown(found.remedy)}",
    ]
    return "\n".join(lines)


def _console() -> Console:
    """A console for standard output."""
    return Console(width=_width(sys.stdout), emoji=False, highlight=False)


def _width(stream: TextIO) -> int | None:
    """Width for a stream: very wide for files and pipes, so that paths are not folded; None for a terminal's own width."""
    return None if stream.isatty() or "COLUMNS" in os.environ else _WIDE


def _print(*parts: Any) -> None:
    console = _console()
    for line in parts:
        console.print(line)


def _print_json(document: Any) -> None:
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json_text(document, ensure_ascii=not is_unicode))


def _table(*names: str) -> Table:
    table = Table(box=None, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _pairs(found: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in found.items():
        table.add_row(name, _lines(value))
    return table


def _shown(text: str) -> str:
    """The text, safe to print: shortened, without markup and without control characters."""
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text):,} characters)"
    return markup.escape(printable(shown))


def _lines(value: Any) -> str:
    """The members of a value for a cell, one per line."""
    if isinstance(value, Mapping):
        value = [f"{name}: {member}" for name, member in value.items()]
    members = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return "\n".join(_shown(str(member)) for member in members)


def _short(found: Mapping[str, Any], but: Collection[Any] = ()) -> str:
    shown = {name: value for name, value in found.items() if value not in but}
    text = ", ".join(f"{name}={'null' if value is None else value}" for name, value in shown.items())
    return _shown(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _counts(metrics: Mapping[str, str]) -> dict[str, str]:
    """The metrics for changed rows and files, without those for copied or read ones."""
    return {match[1]: value for name, value in sorted(metrics.items()) if (match := _CHANGED.fullmatch(name))}


def _made_by(entry: HistoryEntry) -> str:
    info = entry.commit_info
    if info is None:
        return ""
    record = info.origin.record
    return _shown(
        f"{record['dag_id']}.{record['task_id']} {record.get('run_id')}"
        if {"dag_id", "task_id"} <= record.keys()
        else info.engine_info or ""
    )


def _pin(pin: Pin) -> str:
    return f"version {pin.version}, pinned by {pin.holder} until {_time(pin.expires)}"


def _totals(found: FileTotals) -> str:
    rows = "an unknown number of rows" if found.rows is None else counted(found.rows, "row")
    return f"{counted(found.files, 'file')}, {_size(found.bytes)}, {rows}"


def _time(milliseconds: int) -> str:
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a year that Python does not support
        return f"{milliseconds} ms"
    return time.isoformat(" ", "milliseconds").removesuffix("+00:00")


def _size(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < _KIBI:
            return f"{number:.4g} {unit}"
        number /= _KIBI
    return f"{number:.4g} {_UNITS[-1]}"


def _not_shown(number: int) -> str:
    return f"; the first {SHOWN} are shown, --json gives all" if number > SHOWN else ""
