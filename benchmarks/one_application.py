"""A day of the flights demo as one ``DeltaStatementsOperator`` task, against five tasks with a Spark application each.

Both sides run the same statements (bronze, silver, gold, OPTIMIZE and a checkpoint) on a feed of ``ROWS`` rows and the same
local Spark, in DAG runs in this process. They take turns in going first.

    python -m benchmarks.one_application [--rounds 3]

Prints wall-clock and CPU seconds of each side, with the medians. The exit code is 1 when the single task is not faster, or
when a table does not hold the expected rows.
"""

# ruff: noqa: PLC0415 - Airflow reads its home when it is imported, so it is imported late

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from airflow_delta.core.statements import (
    CheckpointStatement,
    CreateStatement,
    FileSource,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    TableSource,
    WriteStatement,
)
from benchmarks.operator_overhead import CONF, Round, make_airflow, measured_run, report

ROWS = 1_800
"""Rows of one day's feed in the demo: 842 flights and the next day's schedule."""

SIDES = ("one", "five")


def main() -> int:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="one-application-") as directory:
        return run(Path(directory), rounds)


def run(directory: Path, rounds: int) -> int:
    """Measure in ``directory``; see ``main``."""
    make_airflow(directory / "home")
    feed = directory / "feed.parquet"
    pq.write_table(pa.table({"id": range(ROWS), "carrier": [str(number % 16) for number in range(ROWS)]}), feed)
    measured: dict[str, list[Round]] = {side: [] for side in SIDES}
    wrong = 0
    print(f"load before: {os.getloadavg()}")
    for number in range(rounds):
        for side in sorted(SIDES, reverse=bool(number % 2)):
            root = directory / f"{side}_{number}"
            measured[side].append(measured_run(_dag(side, root, _statements(root, feed))))
            counts = [DeltaTable(root / name).to_pyarrow_dataset().count_rows() for name in ("bronze", "silver", "gold")]
            wrong += counts != [ROWS, ROWS, 16]
    print(f"load after: {os.getloadavg()}")
    medians = {side: report(side, done) for side, done in measured.items()}
    print(f"one application takes {medians['one'] / medians['five']:.2f} of the time of five; tables with wrong rows: {wrong}")
    return int(medians["one"] >= medians["five"] or wrong > 0)


def _statements(root: Path, feed: Path) -> Mapping[str, Any]:
    bronze, silver, gold = (str(root / name) for name in ("bronze", "silver", "gold"))
    delays = "SELECT carrier, count(*) AS flights FROM silver GROUP BY carrier"
    return {
        "bronze": WriteStatement(table=bronze, source=FileSource(str(feed), format="parquet")),
        "silver": MergeStatement(table=silver, source=TableSource(bronze), on="target.id = source.id"),
        "gold": WriteStatement(table=gold, source=SqlSource(delays, views={"silver": TableSource(silver)}), mode="overwrite"),
        "optimize": OptimizeStatement(table=silver),
        "checkpoint": CheckpointStatement(table=silver),
    }


def _dag(side: str, root: Path, statements: Mapping[str, Any]) -> Any:
    """A DAG of five tasks or of one, after a task in which the worker creates a table."""
    import pendulum
    from airflow.sdk import DAG, chain

    from airflow_delta.core.actions import Origin
    from airflow_delta.core.delta_log import DeltaLog
    from airflow_delta.jobs.core_statements import execute_in_core
    from airflow_delta.operators import (
        DeltaCheckpointOperator,
        DeltaMergeOperator,
        DeltaOptimizeOperator,
        DeltaStatementsOperator,
        DeltaWriteOperator,
    )

    silver = statements["silver"].table
    made = CreateStatement(table=silver, columns={"id": "BIGINT", "carrier": "STRING"})
    execute_in_core(DeltaLog.for_table(silver), made, origin=Origin())
    given: dict[str, Any] = {"conf": dict(CONF)}
    with DAG(root.name, schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        if side == "one":
            DeltaStatementsOperator(task_id="day", statements=statements, **given)
        else:
            merge, gold = statements["silver"], statements["gold"]
            chain(
                DeltaWriteOperator(task_id="bronze", table=merge.source.table, source=statements["bronze"].source, **given),
                DeltaMergeOperator(task_id="silver", table=silver, source=merge.source, on=merge.on, **given),
                DeltaWriteOperator(task_id="gold", table=gold.table, source=gold.source, mode="overwrite", **given),
                DeltaOptimizeOperator(task_id="optimize", table=silver, **given),
                DeltaCheckpointOperator(task_id="checkpoint", table=silver, **given),
            )
    return dag


if __name__ == "__main__":
    sys.exit(main())
