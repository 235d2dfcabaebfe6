"""Reading and writing the log against ``deltalake``, alternately in fresh processes; a case fails if the answers differ.

Times cover the case's work alone, without interpreter start and imports. Memory is the peak resident memory of the whole
process. The tables have one million files in their checkpoint (which the peer wrote), plus ten commits.

    python -m benchmarks.log_core [--case open] [--runs 5] [--files 1000000] [--commits 6000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import deltalake

from benchmarks.log_core import reading, writing
from benchmarks.log_core.case import Size
from benchmarks.log_core.measure import measure

CASES = {case.name: case for case in (*reading.CASES, *writing.CASES)}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (may be given more than once)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=6_000)
    options = parser.parse_args(arguments)
    size = Size(files=options.files, commits=options.commits)
    print(f"{size}, median of {options.runs}, against deltalake {deltalake.__version__}")
    missed = []
    with tempfile.TemporaryDirectory(prefix="benchmark-log-") as directory:
        for name in options.case or CASES:
            case = CASES[name]
            outcome = measure(case, case.make(Path(directory), size), options.runs)
            print("\n".join(outcome.lines()), flush=True)
            missed += [] if outcome.is_met else [name]
    print(f"missed: {', '.join(missed)}" if missed else "every target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
