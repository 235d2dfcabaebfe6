"""Run in a separate process: parses the DAG files as Airflow does; prints what they define and what parsing them accessed."""

import json
import sys
from pathlib import Path
from sysconfig import get_path

from tests.airflow_versions import BundleDagBag

DAGS = Path(__file__).parents[2] / "dags"
PACKAGES = get_path("purelib")
touched = []


def is_translation(path):
    """Whether it is a translation file of an installed package, which the cron descriptor opens before Airflow 3.2."""
    return path.endswith(".mo") and Path(path).is_relative_to(PACKAGES)


def note(event, arguments):
    if event in {"socket.connect", "subprocess.Popen", "os.listdir", "os.scandir", "sqlite3.connect", "os.mkdir"}:
        touched.append([event, str(arguments[0])])
    elif event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
        touched.append([event, arguments[0]])


BundleDagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags")  # the first parse imports what DAG files import
for name in [module for module in sys.modules if module.startswith(("flights_", "unusual_prefix"))]:
    del sys.modules[name]
sys.addaudithook(note)
bag = BundleDagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags")
seen = list(touched)

json.dump(
    {
        "errors": bag.import_errors,
        "touched": [[event, what] for event, what in seen if not Path(what).is_relative_to(DAGS) and not is_translation(what)],
        "dags": {
            dag_id: {
                "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
                "max_active_runs": dag.max_active_runs,
                "catchup": dag.catchup,
                "start": str(dag.start_date),
                "end": str(dag.end_date),
            }
            for dag_id, dag in bag.dags.items()
        },
    },
    sys.stdout,
)
