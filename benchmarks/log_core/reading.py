"""The cases of reading."""

from __future__ import annotations

from benchmarks.log_core.case import Case
from benchmarks.log_core.tables import large_table, remove_next_commit, table_of_many_commits, table_of_many_partitions


def _sides(function: str) -> dict[str, str]:
    return {side: f"benchmarks.log_core.reading_{side}:{function}" for side in ("ours", "theirs")}


CASES = (
    Case(name="open", **_sides("open_table"), time=0.35, memory=0.8, make=large_table),
    Case(name="one-partition", **_sides("open_partition"), time=0.30, make=large_table),
    Case(name="many-commits", **_sides("open_table"), time=0.5, make=table_of_many_commits),
    Case(name="refresh", **_sides("refresh"), time=0.1, make=large_table, reset=remove_next_commit),
    Case(name="refresh-many-commits", **_sides("refresh"), time=0.1, make=table_of_many_commits, reset=remove_next_commit),
    Case(
        name="many-partitions",
        ours="benchmarks.log_core.reading_ours:open_partition",
        theirs=None,
        time=2.0,
        make=table_of_many_partitions,
    ),
)
