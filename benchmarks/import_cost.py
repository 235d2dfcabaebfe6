"""What a DAG file pays for naming our operators, sensors and assets, above what naming ``SparkSubmitOperator`` costs it.

Each import is made by a process of its own, which has imported ``SparkSubmitOperator`` before; they take turns.

    python -m benchmarks.import_cost [--rounds 11]

Printed are the median and the slowest CPU seconds. The exit code is 1 when the median of the operators exceeds ``TARGET``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

TARGET = 0.3
"""CPU seconds that importing the operators may cost."""

MODULES = ("airflow_delta.operators", "airflow_delta.sensors", "airflow_delta.assets", "airflow_delta.macros")

PROGRAM = """
import time
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
start = time.process_time()
import {module}
print(time.process_time() - start)
"""


def main() -> int:
    """Import each module so often, print what it costs, and return whether the operators cost too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    costs: dict[str, list[float]] = {module: [] for module in MODULES}
    for _ in range(rounds):
        for module, seconds in costs.items():
            seconds.append(cost_of(module))
    print("| import | median CPU s | slowest |\n|---|---|---|")
    for module, seconds in costs.items():
        print(f"| {module} | {statistics.median(seconds):.3f} | {max(seconds):.3f} |")
    return statistics.median(costs[MODULES[0]]) > TARGET


def cost_of(module: str) -> float:
    """CPU seconds of importing a module in a new process."""
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(printed.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
