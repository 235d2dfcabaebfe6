import pkgutil
import re
from importlib import import_module
from pathlib import Path

import airflow_delta
from airflow_delta.core.errors import DeltaError
from airflow_delta.jobs.spec import JobSpec

README = (Path(__file__).parents[2] / "README.md").read_text()
BASES = {"DeltaError", "CommitConflictError", "UnsupportedFeatureError"}


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1)


def below(error):
    return {error} | {each for child in error.__subclasses__() for each in below(child)}


def test_the_first_dag_is_short_and_can_be_read():
    names = {}
    exec(block("python"), names)
    tasks = {task.task_id: task for task in names["fed"].dag.tasks}
    assert list(tasks) == ["fed", "merge"]
    assert tasks["merge"].upstream_task_ids == {"fed"}
    assert len(block("python").split("\n\n")[1].splitlines()) <= 10


def test_the_spec_by_hand_is_one_that_jobs_take():
    assert JobSpec.from_text(block("json")).statement.table == "/lake/flights"


def test_every_error_that_can_be_raised_has_its_line():
    for module in pkgutil.walk_packages(airflow_delta.__path__, "airflow_delta."):
        if module.name.endswith(".errors"):
            import_module(module.name)
    names = {error.__name__ for error in below(DeltaError) if error.__module__.startswith("airflow_delta.")}
    assert sorted(name for name in names - BASES if f"`{name}`" not in README) == []


def test_every_place_it_names_is_there():
    named = re.findall(r"`((?:airflow_delta|spark_jobs|dags)/[\w/.]*)`", README)
    root = Path(__file__).parents[2]
    assert [path for path in named if path != "airflow_delta/_spark_jobs/" and not (root / path).exists()] == []
    assert len(named) > 10
