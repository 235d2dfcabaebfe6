"""A process that runs cases with limited memory and time: ``python -m tests.core.fuzz.worker SEED CASE...``.

It prints each case as it begins, and what was wrong. If the process ends for any reason, its current case has failed.
"""

import json
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter

from tests.core.fuzz.cases import Bench

ADDRESS_SPACE = 2 << 30  # bytes
SECONDS = 10  # of CPU time, so that a busy machine does not fail a case
SECONDS_AT_REST = 60  # of wall-clock time, for a case that hangs


def main(seed, numbers):
    answers = Counter()
    with tempfile.TemporaryDirectory(prefix="airflow-delta-fuzz-") as root:
        bench = Bench(root)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)  # ends the process, also when it hangs outside Python
        for number in numbers:
            report({"begins": number})
            signal.alarm(SECONDS_AT_REST)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                answers += bench.run(seed, number)
            except Exception:  # noqa: BLE001 - whatever it is, it is the finding
                report({"fails": number, "why": traceback.format_exc()[-6000:]})
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    report({"answers": answers})


def report(document):
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), range(*map(int, sys.argv[2:])))
