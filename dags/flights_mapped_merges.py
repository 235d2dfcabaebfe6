"""Several MERGEs of one table at once: mapped tasks, each with the flights of its own airline, and every one commits.

The table is partitioned by airline, and each condition names its airline: so no merge reads what another one writes, and a
conflict with an earlier commit is resolved inside the job, which lists it under ``conflicts`` in the task's XCom. Without
partitions, a merge would search the files that the others added for its own keys, and conflict only if it found one.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, Param, task

from airflow_delta.operators import DeltaCreateOperator, DeltaMergeOperator, FileSource, SqlSource
from flights_demo.feed import packaged_csv, write_feed
from flights_demo.tables import DEFAULT_ROOT, FLIGHTS_COLUMNS

AIRLINES = ("B6", "UA")
BOARD = "{{ params.root }}/board"

with DAG(
    dag_id="flights_mapped_merges",
    schedule=None,
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    params={
        "root": Param(DEFAULT_ROOT, type="string", description="Where table and landing lie"),
        "day": Param("2013-01-01", type="string", format="date", description="The day whose flights are merged"),
    },
    tags=["delta"],
    doc_md=__doc__,
) as dag:

    @task
    def feed(day: str, landing: str) -> str:
        """Put the day's feed into the landing directory, and return its path."""
        return str(write_feed(packaged_csv("flights.csv.zip"), date.fromisoformat(day), Path(landing)))

    @task
    def passed(merges: list[dict[str, Any]]) -> dict[str, list[int]]:
        """The version of each merge, and the winners whose conflicts it resolved."""
        return {str(merge["version"]): [conflict["version"] for conflict in merge["conflicts"]] for merge in merges}

    landed = feed("{{ params.day }}", "{{ params.root }}/landing")
    board = DeltaCreateOperator(
        task_id="board",
        table=BOARD,
        columns=FLIGHTS_COLUMNS,
        partition_by=["carrier"],
        mode="ignore",
        engine="worker",
    )
    merges = DeltaMergeOperator.partial(task_id="merge", table=BOARD, max_active_tis_per_dag=len(AIRLINES)).expand_kwargs(
        [
            {
                "source": SqlSource(
                    f"SELECT * EXCEPT (feed_date) FROM feed WHERE kind = 'actual' AND carrier = '{airline}'",  # noqa: S608 - a constant
                    views={"feed": FileSource("{{ ti.xcom_pull('feed') }}", format="parquet")},
                ),
                "on": f"""
                    target.carrier = '{airline}' AND target.carrier = source.carrier
                    AND target.time_hour = source.time_hour AND target.flight = source.flight
                """,
            }
            for airline in AIRLINES
        ]
    )
    [landed, board] >> merges
    passed(merges.output)
