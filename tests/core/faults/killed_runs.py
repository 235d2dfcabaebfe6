"""A process that runs operations in children that kill themselves midway: ``python -m tests.core.faults.killed_runs``.

It reads requests, a JSON line each, forks (which costs milliseconds where a new Python costs a second), and reports how the
child ended. The child kills itself right before the n-th audit event of Python below the table's root: a file opened, linked,
renamed, removed, a directory listed. That is finer than a store's operations, and includes the moment between a temporary file
and its link.
"""

import json
import os
import signal
import sys
import threading

from airflow_delta.core.errors import DeltaError
from tests.core.faults.scenarios import BY_NAME

EVENTS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.listdir"}


def kill_at(root, number):
    """Kill this process right before the event with this number; returns a function that counts the events so far."""
    count = 0

    def hook(event, arguments):
        nonlocal count
        if event in EVENTS and any(str(argument).startswith(root) for argument in arguments[:2]):
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(hook)
    return lambda: count


def child(request):
    """Run the operation; the exit status is the number of events."""
    counted = kill_at(request["root"], request["number"])
    scenario = BY_NAME[request["scenario"]]
    try:
        scenario.run(scenario.log(request["root"]))
    except DeltaError:
        return 1
    with open(request["count"], "w") as file:  # noqa: PTH123 - no audit event of the root
        file.write(str(counted()))
    return 0


def main():
    if threading.active_count() > 1:
        raise RuntimeError("a process with threads cannot be forked safely")
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            os._exit(child(json.loads(line)))
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
