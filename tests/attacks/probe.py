"""Runs statements on hostile tables and reports what each cost: ``python -m tests.attacks.probe ROOT SINK ATTACK...``.

Prints a line of JSON per attack and statement: ``attack``, ``statement``, ``outcome`` or ``failure``, ``cpu`` seconds, ``mib``
of additional memory, ``size`` of the attack's largest file in bytes.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.attacks.attacks import ATTACKS
from tests.attacks.core_statements import STATEMENTS, run
from tests.attacks.hostile_table import HostileTable

SECONDS_AT_MOST = 240
ADDRESS_SPACE = 6 << 30  # bytes


def main(root, sink, attacks):
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    root = Path(root)
    for attack in attacks:
        _write({"attack": attack})
        ATTACKS[attack](HostileTable(root, sink))
        (root / "table").rename(root / "original")
        size = max(path.lstat().st_size for path in (root / "original").rglob("*") if path.is_file() and not path.is_symlink())
        for statement in STATEMENTS:
            shutil.copytree(root / "original", root / "table", symlinks=True)
            _write({"attack": attack, "statement": statement, "size": size, **_measured(statement, root)})
            for made in ("table", "table-clone"):
                shutil.rmtree(root / made, ignore_errors=True)
        shutil.rmtree(root / "original")


def _write(document):
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _measured(statement, root):
    signal.alarm(SECONDS_AT_MOST)  # ends the process
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before, cpu = _memory("VmRSS"), time.process_time()
    try:
        result = {"outcome": run(statement, str(root / "table"))}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        result = {"failure": f"{type(error).__name__}: {str(error)[:500]}", "traceback": traceback.format_exc()[-2_000:]}
    cost = {"cpu": round(time.process_time() - cpu, 3), "mib": (_memory("VmHWM") - before) // 1024}
    signal.alarm(0)
    return result | cost


def _memory(name):
    """Peak memory in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    os.environ["AIRFLOW_DELTA_CANARY"] = "canary-7f3a"
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
