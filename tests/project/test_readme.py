import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pendulum
import pytest
from airflow.sdk import DAG, AssetOrTimeSchedule, BaseOperator, CronTriggerTimetable

import airflow_delta
from airflow_delta import operators
from airflow_delta.assets import delta_asset
from airflow_delta.core.errors import DeltaError
from airflow_delta.jobs.spec import JobSpec

README = (Path(__file__).parents[2] / "README.md").read_text()
BASES = {"DeltaError", "CommitConflictError", "UnsupportedFeatureError"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


class LivyOperator(BaseOperator):
    """In the place of Livy's, whose provider is not installed."""

    template_fields = ("spark_params",)

    def __init__(self, *, file, py_files, args, conf, polling_interval, **kwargs):
        super().__init__(**kwargs)
        self.spark_params = {"file": file, "py_files": py_files, "args": args, "conf": conf, "interval": polling_interval}


def below(error):
    return {error} | {each for child in error.__subclasses__() for each in below(child)}


def test_the_first_dag_is_short_and_can_be_read():
    names = {}
    exec(blocks("python")[0], names)
    tasks = {task.task_id: task for task in names["fed"].dag.tasks}
    assert list(tasks) == ["fed", "merge"]
    assert tasks["merge"].upstream_task_ids == {"fed"}
    assert len(blocks("python")[0].split("\n\n")[1].splitlines()) <= 10


@pytest.mark.parametrize("text", [each for each in blocks("python") if "DeltaLog" not in each and "read_stream" not in each])
def test_every_example_of_a_dag_can_be_read(text):
    names = {name: getattr(operators, name) for name in operators.__all__}
    names |= {each.__name__: each for each in (DAG, AssetOrTimeSchedule, CronTriggerTimetable, LivyOperator)}
    names |= {"delta_asset": delta_asset, "SlackNotifier": lambda **_: print}
    with DAG("example", schedule=None, start_date=pendulum.datetime(2026, 1, 1)):
        exec(text, names)


def test_the_spec_by_hand_is_one_that_jobs_take():
    assert JobSpec.from_text(blocks("json")[0]).statement.table == "/lake/flights"


def test_every_error_that_can_be_raised_has_its_line():
    for module in pkgutil.walk_packages(airflow_delta.__path__, "airflow_delta."):
        if module.name.endswith(".errors"):
            import_module(module.name)
    names = {error.__name__ for error in below(DeltaError) if error.__module__.startswith("airflow_delta.")}
    assert sorted(name for name in names - BASES if f"`{name}`" not in README) == []


def test_every_file_and_section_it_links_to_is_there():
    root = Path(__file__).parents[2]
    targets = [each for each in re.findall(r"\]\(([^)]+)\)", README) if "://" not in each]
    headings = re.findall(r"^## (.+)$", README, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert [each for each in targets if each not in anchors and not (root / each).exists()] == []
    assert len(targets) > 20


def test_every_place_it_names_is_there():
    named = re.findall(r"`((?:airflow_delta|spark_jobs|dags)/[\w/.]*)`", README)
    root = Path(__file__).parents[2]
    assert [path for path in named if path != "airflow_delta/_spark_jobs/" and not (root / path).exists()] == []
    assert len(named) > 10
