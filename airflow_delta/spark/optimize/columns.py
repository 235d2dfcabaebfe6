"""The columns by which OPTIMIZE clusters rows."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.schema import DecimalType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.core.table_changes.clustering import clustering_columns
from airflow_delta.core.table_changes.column_path import ColumnPath, folded, overlap, parse_path, path_text
from airflow_delta.core.table_changes.definition_rules import ORDERED_TYPES
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.spark.errors import UnsuitableColumnsError


def clustered_by(snapshot: Snapshot) -> tuple[ColumnPath, ...]:
    """The table's clustering columns; empty without clustering."""
    return clustering_columns(snapshot.table_uri, snapshot.schema, snapshot.domains)


def ordered_by(snapshot: Snapshot, statement: OptimizeStatement) -> tuple[ColumnPath, ...]:
    """The columns by which rows will be clustered, as the schema spells them; empty if rows keep their order.

    Raises:
        UnsuitableColumnsError: The columns are unsuitable; the error lists every reason.
    """
    reasons = tuple(_reasons(snapshot, statement))
    if reasons:
        raise UnsuitableColumnsError(table=snapshot.table_uri, reasons=reasons)
    if not statement.z_order_by:
        return clustered_by(snapshot)
    names = {folded(path): path for path, _ in StatisticsSelection(indexed_columns=-1).leaves(snapshot.schema)}
    return tuple(names[folded(parse_path(name))] for name in statement.z_order_by)


def _reasons(snapshot: Snapshot, statement: OptimizeStatement) -> Iterator[str]:
    clustered = clustered_by(snapshot)
    if statement.full and not clustered:
        yield "full is about clustering columns, and the table has none"
    if statement.z_order_by and clustered:
        yield f"the table is clustered by {', '.join(map(path_text, clustered))}; OPTIMIZE without columns does that"
    stored = snapshot.schema.without(snapshot.partition_columns)
    kinds = {folded(path): kind for path, kind in StatisticsSelection(indexed_columns=-1).leaves(stored)}
    selection = StatisticsSelection.from_properties(snapshot.metadata.configuration)
    with_statistics = {folded(path) for path, _ in selection.leaves(stored)}
    seen: set[ColumnPath] = set()
    for text in statement.z_order_by:
        try:
            path = folded(parse_path(text))
        except Refusal as error:
            yield str(error)
            continue
        kind = kinds.get(path)
        if any(overlap(path, (name,)) for name in snapshot.partition_columns):
            yield f"{text} is a partition column"
        elif kind is None:
            yield f"{text} is not among the columns"
        elif not (kind in ORDERED_TYPES or isinstance(kind, DecimalType)):
            yield f"{text} is {kind}, whose statistics have no bounds"
        elif path not in with_statistics:
            yield f"{text} has no statistics (see delta.dataSkippingNumIndexedCols and delta.dataSkippingStatsColumns)"
        if path in seen:
            yield f"{text} is named twice"
        seen.add(path)
