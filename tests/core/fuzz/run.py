"""Runs many cases in several limited processes: ``python -m tests.core.fuzz.run --cases 100000 --seed 7 --jobs 2``.

``--case N`` runs one case in this process, for a debugger.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).parents[3]
AT_ONCE = 5000  # cases per process


def run(seed, cases, *, first=0, jobs=2, at_once=AT_ONCE):
    """Run the cases ``first .. first + cases``. Returns the failures by case, and counts of answers."""
    at_once = min(at_once, -(-cases // jobs))
    starts = range(first, first + cases, at_once)
    failures, answers = {}, Counter()
    with ThreadPoolExecutor(jobs) as pool:
        for failed, answered in pool.map(lambda start: _worker(seed, start, min(start + at_once, first + cases)), starts):
            failures |= failed
            answers += answered
    return failures, answers


def _worker(seed, start, end):
    """Run the cases of one range; after a crash a new process continues with the next case."""
    failures, answers = {}, Counter()
    while start < end:
        # Arrow's own allocators reserve more address space than the limit allows.
        environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "2"}
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.core.fuzz.worker", str(seed), str(start), str(end)]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            current = None
            for line in process.stdout:
                reported = json.loads(line)
                current = reported.get("begins", current)
                if "fails" in reported:
                    failures[reported["fails"]] = reported["why"]
                answers += Counter(reported.get("answers", {}))
            if process.wait() == 0:
                return failures, answers
            errors.seek(0)
            if current is None:
                raise RuntimeError(f"the worker does not even start: {errors.read()[-3000:]}")
            failures[current] = f"the process ended with {process.returncode}\n{errors.read()[-3000:]}"
        start = current + 1
    return failures, answers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=int, help="only this one, in this process")
    options = parser.parse_args()
    if options.case is not None:
        from tests.core.fuzz.cases import Bench  # noqa: PLC0415 - not needed otherwise

        with tempfile.TemporaryDirectory() as root:
            bench = Bench(root)
            name, mutation, _ = bench.describe(options.seed, options.case)
            sys.stdout.write(f"{name}: {mutation.text}{' (harmless)' if mutation.is_harmless else ''}\n")
            sys.stdout.write(f"{bench.run(options.seed, options.case)}\n")
        return
    failures, answers = run(options.seed, options.cases, first=options.first, jobs=options.jobs)
    for number, why in sorted(failures.items()):
        sys.stdout.write(f"--- case {number} of seed {options.seed}\n{why}\n")
    sys.stdout.write(json.dumps(answers, indent=1) + "\n")
    sys.exit(f"{len(failures)} of {options.cases} cases failed" if failures else 0)


if __name__ == "__main__":
    main()
