"""The commands of ``airflow-delta``. Each imports its code when it runs, so that ``--help`` does not load Arrow."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_delta.cli.arguments import CommandLineError, arguments

if TYPE_CHECKING:
    from airflow_delta.core.operations.restore import RestoreResult

app = typer.Typer(
    name="airflow-delta",
    help="Inspect and maintain Delta tables, without Airflow or Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of the table, or its name in a catalog.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; lists as one object per line.")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option", "-o", metavar="KEY=VALUE", help="Option of the table's fsspec filesystem; may be repeated."
    ),
]
Version = Annotated[int | None, typer.Option("--version", "-v", help="Read the table at this version.")]
_TIME_FORMS = "(ISO, UTC unless it has a zone; or milliseconds)"
Timestamp = Annotated[str | None, typer.Option("--timestamp", "-t", help=f"Read the table at this time {_TIME_FORMS}.")]

_DATE_DIGITS, _LONG_DIGITS = 8, 18  # digits of a date without dashes, and most digits of a number of milliseconds


@app.callback()
def options(
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="CATALOG",
            help='Where tables have names: glue, or JSON such as {"type": "hive", "uri": "thrift://host:9083"}. TABLE is then '
            "schema.table or a path. Default: AIRFLOW_DELTA_CATALOG.",
        ),
    ] = None,
) -> None:
    """Inspect and maintain Delta tables, without Airflow or Spark."""
    if catalog is not None:
        from airflow_delta.catalogs.settings import VARIABLE

        os.environ[VARIABLE] = catalog


@app.command()
def history(
    table: Table,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show only this many commits; default: 50, with --json all.")
    ] = None,
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """List the commits of the table: when, what and by whom; newest first."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_table

    most = limit if limit or as_json else output.SHOWN + 1  # one more shows whether there are more
    output.history(open_table(table, storage_option).history(most), as_json=as_json, most=limit or output.SHOWN)


@app.command()
def detail(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the table's columns, properties, features and size, and its pins."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_table
    from airflow_delta.core.operations.pins import read_pins

    log = open_table(table, storage_option)
    output.detail(log.snapshot(version, _moment(timestamp, version)), read_pins(log.store), as_json=as_json)


@app.command()
def files(
    table: Table,
    where: Annotated[str | None, typer.Option("--where", "-w", help="Show only files that may hold matching rows.")] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """List the data files of a version."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_table

    snapshot = open_table(table, storage_option).snapshot(version, _moment(timestamp, version))
    output.files(snapshot.files(where), as_json=as_json)


@app.command()
def diff(
    table: Table,
    before: Annotated[int, typer.Argument(metavar="V1", help="A version.")],
    after: Annotated[int, typer.Argument(metavar="V2", help="Another version.")],
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Compare two versions: files, rows, columns, properties, protocol."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_table
    from airflow_delta.core.snapshot.snapshot_difference import difference

    log = open_table(table, storage_option)
    output.difference(difference(log.snapshot(before), log.snapshot(after)), as_json=as_json)


@app.command()
def checkpoint(
    table: Table,
    version: Annotated[
        int | None, typer.Option("--version", "-v", help="Write the checkpoint of this version; default: the latest.")
    ] = None,
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Write a checkpoint, so that readers need not read every commit."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_table

    with output.working("Writing the checkpoint"):
        result = open_table(table, storage_option).checkpoint(version)
    output.result(result, as_json=as_json)


@app.command()
def vacuum(
    table: Table,
    retention_hours: Annotated[
        float | None, typer.Option("--retention-hours", min=0, help="Default: the table's retention, one week if not set.")
    ] = None,
    *,
    run: Annotated[bool, typer.Option("--run", help="Delete the files; without it, only list them.")] = False,
    lite: Annotated[bool, typer.Option("--lite", help="Find the files in the log instead of listing the table.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Allow a retention shorter than the table's.")] = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Delete files needed by no version within the retention and by no pin. A dry run unless --run is given."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_observed_table

    with output.working("Listing files") as progress:
        log = open_observed_table(table, storage_option, progress)
        result = log.vacuum(retention_hours, dry_run=not run, enforce_retention=not force, lite=lite)
    output.vacuum(result, as_json=as_json)


@app.command()
def restore(
    table: Table,
    version: Annotated[int | None, typer.Option("--version", "-v", help="Restore the table to this version.")] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", "-t", help=f"Restore the table to this time {_TIME_FORMS}.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    ignore_missing_files: Annotated[
        bool, typer.Option(help="Restore even if data files are missing; their rows are lost.")
    ] = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Restore the table to an earlier version or timestamp, by a new commit."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import open_observed_table

    if (version is None) == (timestamp is None):
        raise typer.BadParameter("give either --version or --timestamp")
    moment = _moment(timestamp, version)

    def restored(*, dry_run: bool) -> RestoreResult:
        with output.working("Looking for the files") as progress:
            log = open_observed_table(table, storage_option, progress)
            return log.restore(version, moment, ignore_missing_files=ignore_missing_files, dry_run=dry_run)

    if not yes:
        restored(dry_run=True)  # fails before the question if it cannot be done
        typer.confirm(f"Restore {table} to {f'version {version}' if timestamp is None else timestamp}?", abort=True, err=True)
    output.result(restored(dry_run=False), as_json=as_json)


@app.command()
def doctor(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]", help="The table to check; without it, this installation. With --spark: a folder for tables."
        ),
    ] = None,
    *,
    log_only: Annotated[bool, typer.Option("--log-only", help="Check the log only; do not list the data files.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Check what a cluster has and lacks, by a job; it tries to write into the folder.")
    ] = False,
    master: Annotated[str | None, typer.Option("--master", help="With --spark: the cluster; default: spark-submit's.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="With --spark: setting of Spark; may be repeated.")
    ] = None,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Check the health of a table, of this installation, or of a cluster. Exits with 1 if there are errors."""
    from airflow_delta.cli import output
    from airflow_delta.cli.installation import check_installation
    from airflow_delta.cli.open_table import open_observed_table
    from airflow_delta.core.operations.table_health import check_health

    if not spark and (master or conf):
        raise typer.BadParameter("--master and --conf are about a cluster: add --spark")
    if spark and (log_only or storage_option):
        raise typer.BadParameter("--log-only and --storage-option are about a table: leave out --spark")
    if spark:
        from airflow_delta.cli.cluster import check_cluster

        with output.working("Running the job"):
            report = check_cluster(table, master, conf or ())
        raise typer.Exit(0 if output.cluster(report, as_json=as_json) else 1)
    if table is None:
        health = check_installation()
    else:
        with output.working("Listing files") as progress:
            health = check_health(open_observed_table(table, storage_option, progress), list_files=not log_only)
    output.health(health, as_json=as_json)
    raise typer.Exit(0 if health.is_sound else 1)


@app.command()
def ship(
    destination: Annotated[str, typer.Argument(metavar="FOLDER", help="URI of a folder that Spark's drivers can read.")],
    *,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Upload this version's code for Spark: the archive for --py-files and the job scripts, named by content."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import parsed_options
    from airflow_delta.shipping.ship import ship

    options = parsed_options(storage_option)
    with arguments():
        uris = ship(destination, options)
    output.uris(uris, as_json=as_json)


@app.command()
def pack(
    destination: Annotated[str, typer.Argument(metavar="FOLDER", help="URI of a folder that Spark can read.")],
    *,
    extra: Annotated[list[str] | None, typer.Option("--extra", help="s3, gcs or azure; may be repeated.")] = None,
    package: Annotated[
        list[str] | None, typer.Option("--package", help="Further package, installed here; may be repeated.")
    ] = None,
    python: Annotated[str | None, typer.Option("--python", help="The executors' Python, such as 3.11; default: this.")] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option("--platform", help="The executors' platform, such as manylinux_2_28_x86_64; default: this one."),
    ] = None,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Upload the Python packages that executors need, as an archive for spark.archives, and print the settings that use it."""
    from airflow_delta.cli import output
    from airflow_delta.cli.open_table import parsed_options
    from airflow_delta.shipping.environment import Environment, pack

    chosen = {} if python is None else {"python": python}
    options = parsed_options(storage_option)
    with arguments(), output.working("Fetching packages"):
        environment = Environment(
            extras=tuple(extra or ()), packages=tuple(package or ()), platforms=tuple(platform or ()), **chosen
        )
        uri, conf = pack(destination, environment, options)
    output.environment(uri, conf, as_json=as_json)


def _moment(timestamp: str | None, version: int | None) -> int | str | None:
    """The value of ``--timestamp``; a number is in milliseconds, as ``history --json`` writes times.

    Raises:
        CommandLineError: It is not a time.
    """
    if timestamp is not None and version is not None:
        raise typer.BadParameter("give either --version or --timestamp, not both")
    if timestamp is None:
        return None
    if timestamp.isdecimal() and _DATE_DIGITS < len(timestamp) <= _LONG_DIGITS:
        return int(timestamp)
    from airflow_delta.core.log.timestamp import milliseconds

    with arguments():
        milliseconds(timestamp)
    return timestamp


def main(given: list[str] | None = None) -> Any:
    """Run a command; a ``DeltaError`` or ``OSError`` is printed to stderr without a traceback.

    The exit code is then 1, or 2 if an argument is invalid.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # do not fail on characters that the encoding lacks
    try:
        app(given)
    except Exception as raised:
        from airflow_delta.core.errors import DeltaError

        is_wrong = isinstance(raised, CommandLineError)
        error = raised.__cause__ if is_wrong else raised
        if not isinstance(error, DeltaError | OSError):
            raise
        from airflow_delta.cli import output

        output.error(error, as_json="--json" in (sys.argv if given is None else given))
        raise SystemExit(2 if is_wrong else 1) from None
