"""What importing our operators, sensors and assets adds to a DAG file that imports ``SparkSubmitOperator``.

Each import runs in a process of its own that has imported ``SparkSubmitOperator`` before; the modules alternate. Our modules
are compiled first, as pip does on installation.

    python -m benchmarks.import_cost [--rounds 11]

Prints the median and the slowest CPU seconds, and the median without garbage collection: a full collection of all that Airflow
has loaded takes 0.2 s, and may happen during any import. The exit code is 1 when the median of the operators, with garbage
collection, exceeds ``TARGET``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from benchmarks.bytecode import compile_modules

TARGET = 0.3
"""CPU seconds that importing the operators may cost."""

MODULES = ("airflow_delta.operators", "airflow_delta.sensors", "airflow_delta.assets", "airflow_delta.macros")

PROGRAM = """
import gc, time
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
if not {collects}: gc.disable()
start = time.process_time()
import {module}
print(time.process_time() - start)
"""


def main() -> int:
    """Import each module in every round, print the costs, and return whether the operators cost too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    compile_modules()
    costs: dict[tuple[str, bool], list[float]] = {(module, collects): [] for module in MODULES for collects in (True, False)}
    for _ in range(rounds):
        for (module, collects), seconds in costs.items():
            seconds.append(cost_of(module, collects=collects))
    print("| import | median CPU s | slowest | median without collection |\n|---|---|---|---|")
    for module in MODULES:
        seconds, without = costs[module, True], costs[module, False]
        print(f"| {module} | {statistics.median(seconds):.3f} | {max(seconds):.3f} | {statistics.median(without):.3f} |")
    return statistics.median(costs[MODULES[0], True]) > TARGET


def cost_of(module: str, *, collects: bool) -> float:
    """CPU seconds of importing a module in a new process, with or without garbage collection."""
    command = [sys.executable, "-c", PROGRAM.format(module=module, collects=collects)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(printed.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
