"""Runs one side of a case in this process: ``python -m benchmarks.log_core.fresh module:function table``."""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
import time
from pathlib import Path


def main(side: str, table: str) -> None:
    """Do the work and print what it took as JSON: seconds, CPU seconds, peak of the process in bytes, and the answer."""
    module, _, function = side.partition(":")
    work = getattr(importlib.import_module(module), function)(table)
    gc.collect()
    gc.freeze()  # the timed work must not spend time collecting what the preparation left
    started, cpu = time.perf_counter(), time.process_time()
    answer = work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": _peak(), "answer": answer}))


def _peak() -> int:
    """Peak resident memory since the program started; ``getrusage`` would include the parent's before the exec."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) << 10 if match else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
