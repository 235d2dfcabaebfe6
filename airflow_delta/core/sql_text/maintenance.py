"""Parses OPTIMIZE, VACUUM, REORG, RESTORE, GENERATE and CONVERT."""

from __future__ import annotations

from airflow_delta.core.sql_text.expressions import Sides
from airflow_delta.core.sql_text.names import TextContext, point_in_time, table_name, table_or_path
from airflow_delta.core.sql_text.words import Words
from airflow_delta.core.statements import (
    ConvertStatement,
    ManifestStatement,
    OptimizeStatement,
    ReorgStatement,
    RestoreStatement,
    VacuumStatement,
)

MANIFESTS = "SYMLINK_FORMAT_MANIFEST"


def read_optimize(words: Words, context: TextContext) -> OptimizeStatement:
    """OPTIMIZE table|'path' [FULL] [WHERE condition] [ZORDER BY (columns)]."""
    words.expect("OPTIMIZE")
    name = table_or_path(words)
    is_full = words.skip("FULL")
    where = Sides.of_target(words, name.called()).expression(words.until("ZORDER"), "WHERE") if words.skip("WHERE") else None
    columns: tuple[str, ...] = ()
    if words.skip("ZORDER"):
        words.expect("BY")
        columns = words.column_list()
    words.end()
    return OptimizeStatement(table=context.target_uri(words, name), where=where, z_order_by=columns, full=is_full)


def read_vacuum(words: Words, context: TextContext) -> VacuumStatement:
    """VACUUM table|'path' [LITE | FULL] [USING INVENTORY parquet.`uri`] [RETAIN n HOURS] [DRY RUN]; these two in any order."""
    words.expect("VACUUM")
    name = table_or_path(words)
    lite = words.skip("LITE")
    if not lite:
        words.skip("FULL")
    inventory = retention = None
    if words.skip("USING", "INVENTORY"):
        file = table_name(words, "parquet")
        if file.path is None:
            raise words.error(f"expected parquet.`<uri>` behind USING INVENTORY, found {file.quoted}")
        inventory = file.path
    dry_run = words.skip("DRY", "RUN")
    if words.skip("RETAIN"):
        retention = float(words.number("a number of hours"))
        words.expect("HOURS")
    dry_run = words.skip("DRY", "RUN") or dry_run
    words.end()
    return VacuumStatement(
        table=context.target_uri(words, name), retention_hours=retention, dry_run=dry_run, lite=lite, inventory=inventory
    )


def read_reorg(words: Words, context: TextContext) -> ReorgStatement:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""
    words.expect("REORG", "TABLE")
    name = table_name(words)
    where = Sides.of_target(words, name.called()).expression(words.until("APPLY"), "WHERE") if words.skip("WHERE") else None
    words.expect("APPLY")
    words.listed(lambda: words.expect("PURGE"))
    words.end()
    return ReorgStatement(table=context.target_uri(words, name), where=where)


def read_restore(words: Words, context: TextContext) -> RestoreStatement:
    """RESTORE [TABLE] table [TO] VERSION AS OF number | TIMESTAMP AS OF time."""
    words.expect("RESTORE")
    words.skip("TABLE")
    name = table_name(words)
    words.skip("TO")
    version, time = point_in_time(words, context)
    words.end()
    return RestoreStatement(table=context.target_uri(words, name), version=version, timestamp=time)


def read_generate(words: Words, context: TextContext) -> ManifestStatement:
    """GENERATE symlink_format_manifest FOR TABLE table."""
    words.expect("GENERATE", MANIFESTS, "FOR", "TABLE")
    name = table_name(words)
    words.end()
    return ManifestStatement(table=context.target_uri(words, name))


def read_convert(words: Words, context: TextContext) -> ConvertStatement:
    """CONVERT TO DELTA parquet.`uri` [NO STATISTICS] [PARTITIONED BY (columns with types)]."""
    words.expect("CONVERT", "TO", "DELTA")
    name = table_name(words, "parquet")
    collects = not words.skip("NO", "STATISTICS")
    partitions = None
    if words.skip("PARTITIONED", "BY"):
        partitions = words.slice(words.parenthesized())
    words.end()
    return ConvertStatement(table=context.target_uri(words, name), partition_by=partitions, statistics=collects)
