"""`make demo`: three days of flights on a separate Airflow and local Spark under `.demo`, created from scratch each time."""

from __future__ import annotations

import re
import sys
import time
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from flights_demo.home import Home
from flights_demo.summary import history_table, runs_table, task_line

DAYS = [date(2013, 1, 1) + timedelta(days=offset) for offset in range(3)]
TABLES = ("arrivals", "flights", "delays")
FAILURE = re.compile(r"Task failed with exception.*?\n(.+?)(?=^\d{4}-|\Z)", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Run the demo; the exit code says whether every task succeeded."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120  # a file or a CI log has room for whole lines
    started = time.monotonic()
    home = Home(Path.cwd() / ".demo")
    with console.status("making Airflow's database"):
        home.create()
    console.print(
        f"Airflow's home is {home.folder}; the logs of Airflow and Spark are in its folder [bold]logs[/]", soft_wrap=True
    )

    watch = home.start("flights_watch", DAYS[0])
    try:
        with console.status("flights_watch begins to wait for the first merge"):
            home.await_begin(watch, "flights_watch", DAYS[0])
        console.print("flights_watch waits for the first merge into flights, without a worker")
        for day in DAYS:
            if not _run(home, day, console):
                _show_failure(home, "flights_daily", day, console)
                return 1
        if watch.wait(timeout=60) != 0:
            _show_failure(home, "flights_watch", DAYS[0], console)
            return 1
    finally:
        watch.kill()  # it has no children, and ignores other signals while it waits

    console.print(runs_table(home, [("flights_watch", DAYS[0]), *(("flights_daily", day) for day in DAYS)]))
    for table in TABLES:
        console.print(history_table(home.tables / table))
    console.print(f"Three days took {time.monotonic() - started:.0f} s. The tables are in {home.tables}", soft_wrap=True)
    return 0


def _run(home: Home, day: date, console: Console) -> bool:
    console.print(f"\n[bold]flights_daily {day}[/]")
    process = home.start("flights_daily", day)
    try:
        with console.status(f"flights_daily {day} runs"):
            for task in home.follow(process, "flights_daily", day):
                console.print(task_line(task), soft_wrap=True)
    finally:
        process.terminate()
    return process.returncode == 0


def _show_failure(home: Home, dag_id: str, day: date, console: Console) -> None:
    """Print the last line of the first traceback, which says what failed and what to do; else the end of the log."""
    log = home.log_file(dag_id, day)
    text = log.read_text(errors="replace")
    failure = FAILURE.search(text)
    shown = failure[1].strip().splitlines()[-1:] if failure else text.splitlines()[-20:]
    console.print(f"[bold red]{dag_id} of {day} failed[/]")
    console.print("\n".join(shown), markup=False, soft_wrap=True)
    console.print(f"The whole log: {log}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
