"""A process that runs tries of a ``DeltaDropOperator``, killed midway: ``python -m tests.operators.killed_drops``.

Like ``killed_tasks``, it counts audit events below the test's folder; here a request to the catalog is an event, too.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

from airflow_delta.core.errors import DeltaError
from airflow_delta.operators import DeltaDropOperator
from tests.operators.killed_tasks import EVENTS, FileStore, serve

REQUEST = "http.client.send"


def kill_at(root, number):
    """Kill this process right before the event with this number; returns the list of event names so far."""
    seen = []

    def hook(event, arguments):
        if event == REQUEST or (event in EVENTS and any(root in str(argument) for argument in arguments[:2])):
            if len(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(event)

    sys.addaudithook(hook)
    return seen


def drop(root, attempt):
    """Run one try of the task; returns its value, or its error."""
    operator = DeltaDropOperator(task_id="drop", table="sales.orders", delete_files=True, delta_conn_id="lake")
    kept, xcoms = FileStore(root / "state"), FileStore(root / "xcoms")
    names = {"dag_id": "killed", "task_id": "drop", "run_id": "manual", "map_index": -1, "id": "1"}
    ti = SimpleNamespace(**names, try_number=attempt, max_tries=1, start_date=None, xcom_push=xcoms.set)
    dag_run = SimpleNamespace(logical_date=None, run_type=SimpleNamespace(value="manual"))
    try:
        return operator.execute({"ti": ti, "dag_run": dag_run, "task": operator, "task_state_store": kept})
    except DeltaError as error:
        return {"error": error.to_json()}


def child(request):
    """Run one try; write its outcome, and the events, to a file."""
    seen = kill_at(f"{request['root']}/tables/", request["number"])
    outcome = drop(Path(request["root"]), request["try"])
    Path(request["answer"]).write_text(json.dumps({"events": seen, "outcome": outcome}))
    return 0


if __name__ == "__main__":
    serve(child)
