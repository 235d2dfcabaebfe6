"""README.md and the pages below docs/: their examples run, and what they link to or name is there."""

import ast
import doctest
import inspect
import pkgutil
import re
import tomllib
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pendulum
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import yaml
from airflow.sdk import DAG, BaseOperator
from deltalake import write_deltalake

import airflow_delta
from airflow_delta import macros, operators, sensors
from airflow_delta.assets import delta_asset
from airflow_delta.cli.main import app
from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.get_provider_info import get_provider_info
from airflow_delta.jobs.spec import JobSpec
from docs.site.generate import REGISTRY_FILE, airflow_registry, argument_guide, benchmark_chart, parameters
from tests.airflow_versions import AssetOrTimeSchedule, CronTriggerTimetable
from tests.attacks.attacks import ATTACKS
from tests.attacks.core_statements import STATEMENTS
from tests.core.faults.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
FIRST = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (*(ROOT / name for name in FIRST), *sorted((ROOT / "docs").glob("*.md")))
}
BASES = {"DeltaError", "CommitConflictError", "UnsupportedFeatureError"}
NOT_IN_A_DAG = ("DeltaLog", "read_stream", "delta_reader")  # executed below, and in tests/spark


def blocks(language, page=None):
    texts = PAGES.values() if page is None else [PAGES[page]]
    return [block for text in texts for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def dag_examples():
    for page, text in PAGES.items():
        examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for number, example in enumerate(examples):
            if not any(name in example for name in NOT_IN_A_DAG):
                yield pytest.param(example, id=f"{page}-{number}")


def anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


class LivyOperator(BaseOperator):
    """In the place of Livy's, whose provider is not installed."""

    template_fields = ("spark_params",)

    def __init__(self, *, file, py_files, args, conf, polling_interval, **kwargs):
        super().__init__(**kwargs)
        self.spark_params = {"file": file, "py_files": py_files, "args": args, "conf": conf, "interval": polling_interval}


def below(error):
    return {error} | {descendant for child in error.__subclasses__() for descendant in below(child)}


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_the_first_dag_is_short_and_can_be_read():
    example = blocks("python", "README.md")[0]
    names = {}
    exec(example.replace("1)):\n", "1)) as dag:\n"), names)
    tasks = {task.task_id: task for task in names["dag"].tasks}
    assert list(tasks) == ["write", "merge"]
    assert tasks["merge"].upstream_task_ids == {"write"}
    assert len(example.split("\n\n")[1].splitlines()) <= 10


def test_the_tutorial_has_the_dag_of_the_readme():
    assert blocks("python", "README.md")[0] in blocks("python", "docs/tutorial.md")


def test_the_dag_with_a_sensor_can_be_read():
    [example] = [block for block in blocks("python", "docs/operators.md") if "DeltaCommitSensor" in block]
    names = {}
    exec(example, names)
    tasks = {task.task_id: task for task in names["fed"].dag.tasks}
    assert list(tasks) == ["fed", "merge"]
    assert tasks["merge"].upstream_task_ids == {"fed"}


@pytest.mark.parametrize("text", dag_examples())
def test_every_example_of_a_dag_can_be_read(text, tmp_path):
    file = tmp_path / "example.py"  # where the texts of functions are looked up
    file.write_text(text)
    names = {name: getattr(operators, name) for name in operators.__all__}
    names |= {value.__name__: value for value in (DAG, AssetOrTimeSchedule, CronTriggerTimetable, LivyOperator)}
    names |= {"delta_asset": delta_asset, "SlackNotifier": lambda **_: print}
    with DAG("example", schedule=None, start_date=pendulum.datetime(2026, 1, 1)):
        exec(compile(text, file, "exec"), names)


def test_the_examples_without_spark_run(tmp_path):
    flights = pa.table({"carrier": ["UA", "AA"], "flight": pa.array([1, 2], pa.int64())})
    for _ in range(8):
        write_deltalake(tmp_path, flights, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
    [example] = [block for block in blocks("python", "docs/scripts.md") if "DeltaLog" in block]
    frames = []
    names = {"spark": None, "read_changes": lambda _spark, log, *versions: frames.append((log.table_uri, *versions))}
    exec(example.replace("/lake/flights", str(tmp_path)), names)
    assert frames == [(str(tmp_path), 3, 7)]
    assert names["log"].changes(3, 7).read_all().num_rows == 10
    [connected] = blocks("python", "docs/object-stores.md")
    exec(connected, names)


def test_duckdb_reads_what_is_staged_as_the_page_says(tmp_path):
    table, rows = tmp_path / "flights", pa.table({"carrier": ["UA", "AA"], "flight": pa.array([1, 2], pa.int64())})
    write_deltalake(table, rows)
    log = DeltaLog.for_table(str(table))
    pq.write_table(pa.table({"carrier": ["DL"], "flight": pa.array([3], pa.int64())}), table / "new.parquet")
    size = (table / "new.parquet").stat().st_size
    added = {"path": "new.parquet", "partition_values": [], "size": size, "modification_time": log.clock(), "data_change": True}
    transaction = log.staging(None).start_transaction()
    handle = transaction.commit(adds=pa.Table.from_pylist([added], ADD_FILE), operation=Operation(name="WRITE")).staged

    audit, copy = [block for block in blocks("python", "docs/staging.md") if "import duckdb" in block]
    names = {}
    exec(audit + copy.replace("/lake", str(tmp_path)), names)
    assert names["audit"](handle) == (3, 3)
    assert names["audit"]({"table": str(table), "id": None, "paths": []}) == (2, None)
    names["copy"](handle)
    with duckdb.connect(tmp_path / "audit.duckdb") as database:
        assert database.sql("SELECT carrier, flight FROM flights ORDER BY flight").fetchall() == [
            ("UA", 1),
            ("AA", 2),
            ("DL", 3),
        ]


def test_the_page_of_the_tutorial_shows_what_python_says(tmp_path):
    table = str(tmp_path / "numbers")
    write_deltalake(table, pa.table({"id": range(100), "text": ["old"] * 100}))
    write_deltalake(table, pa.table({"id": range(110), "text": ["old"] * 90 + ["new"] * 20}), mode="overwrite")
    [session] = blocks("pycon", "docs/tutorial.md")
    test = doctest.DocTestParser().get_doctest(session.replace("/tmp/numbers", table), {}, "tutorial", None, None)
    assert len(test.examples) == 4
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_every_option_of_the_command_line_that_it_shows_exists(page):
    group = typer.main.get_command(app)
    shared = {option for parameter in group.params for option in parameter.opts}
    unknown = []
    for line in re.findall(r"airflow-delta ([a-z]+ [^`\n#]*)", PAGES[page]):
        if (command := group.commands.get(line.split()[0])) is not None:
            known = shared.union(*(parameter.opts for parameter in command.params))
            unknown += [option for option in re.findall(r"--[a-z-]+", line) if option not in known]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_every_argument_in_its_calls_of_operators_and_sensors_exists(page):
    tasks = {name: getattr(room, name) for room in (operators, sensors) for name in room.__all__}
    unknown = []
    for text in re.findall(r"`([A-Z]\w+\(.*?\))`", PAGES[page].replace("…", "...")):
        with suppress(SyntaxError):  # as f(a=1, ...) is
            call = ast.parse(text.replace(", ...", "").replace("...)", ")").replace("=)", "=0)"), mode="eval").body
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and (task := tasks.get(call.func.id)):
                known = {argument for base in getattr(task, "__mro__", ()) for argument in parameters(base)}
                unknown += [f"{call.func.id}({word.arg}=)" for word in call.keywords if known and word.arg not in known]
    assert unknown == []


def test_the_spec_by_hand_is_one_that_jobs_take():
    [spec] = blocks("json")
    assert JobSpec.from_text(spec).statement.table == "/lake/flights"


def test_every_error_that_can_be_raised_has_its_line():
    for module in pkgutil.walk_packages(airflow_delta.__path__, "airflow_delta."):
        if module.name.endswith(".errors"):
            import_module(module.name)
    names = {error.__name__ for error in below(DeltaError) if error.__module__.startswith("airflow_delta.")}
    errors = PAGES["docs/errors.md"]
    assert sorted(name for name in names - BASES if f"`{name}`" not in errors) == []


def test_every_error_that_is_named_can_be_raised():
    for module in pkgutil.walk_packages(airflow_delta.__path__, "airflow_delta."):
        if module.name.endswith(".errors"):
            import_module(module.name)
    names = {error.__name__ for error in below(DeltaError)}
    listed = [
        name
        for line in re.findall(r"^\| (`\w+Error`.*?) \|", PAGES["docs/errors.md"], re.MULTILINE)
        for name in re.findall(r"\w+", line)
    ]
    assert sorted(name for name in listed if name not in names) == []
    assert len(listed) == len(set(listed)) > 80


def test_every_code_that_is_not_spelled_as_the_name_of_its_error_is_listed():
    for module in pkgutil.walk_packages(airflow_delta.__path__, "airflow_delta."):
        if module.name.endswith(".errors"):
            import_module(module.name)
    names = {error.code: error.__name__ for error in below(DeltaError) if error.__module__.startswith("airflow_delta.")}
    other = {code: name for code, name in names.items() if name not in BASES and code != _spelled(name)}
    listed = PAGES["docs/errors.md"].partition("\n## Codes\n")[2]
    assert dict(re.findall(r"^\| `(DELTA_\w+)` \| `(\w+)` \|$", listed, re.MULTILINE)) == other


def _spelled(name):
    return "DELTA_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Error")).upper()


def test_the_numbers_of_attacks_and_scenarios_are_those_of_the_tests():
    readme = PAGES["README.md"]
    assert f"{len(ATTACKS)} hostile tables x {len(STATEMENTS)} statements of the core" in readme
    assert f"({len(SCENARIOS)} scenarios each)" in readme


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_section_it_links_to_is_there(page):
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", PAGES[page]) if "://" not in target]
    missing = []
    for target in targets:
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            missing.append(target)
    assert missing == []


def test_every_page_is_linked_from_the_first_ones():
    for first, folder in (("README.md", "docs/"), ("docs/index.md", "")):
        linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", PAGES[first])}
        pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - {"index.md"}
        assert sorted(page for page in pages if folder + page not in linked) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_place_it_names_is_there(page):
    named = re.findall(r"`((?:airflow_delta|spark_jobs|dags|tests|benchmarks)/[\w/.]*)`", PAGES[page])
    assert [path for path in named if path != "airflow_delta/_spark_jobs/" and not (ROOT / path).exists()] == []


def test_every_operator_and_sensor_has_its_line():
    classes = [name for package in (operators, sensors) for name in package.__all__ if name.endswith(("Operator", "Sensor"))]
    assert [name for name in classes if f"`{name}`" not in PAGES["docs/operators.md"]] == []


def test_which_operators_take_a_dry_run_and_an_engine_is_as_it_says():
    def short(name):
        return name.removeprefix("Delta").removesuffix("Operator").replace(" ", "").lower()

    page = PAGES["docs/operators.md"]
    makers = {name: getattr(operators, name) for name in operators.__all__ if name.endswith("Operator")}
    takes = {name: {word for base in maker.__mro__ for word in parameters(base)} for name, maker in makers.items()}
    commits = dict(re.findall(r"^\| `(Delta\w+)`[^|]*\|[^|]*\| ([^|]*) \|$", page, re.MULTILINE))
    said = page.partition("take `dry_run=True`")[2].partition("```")[0]
    without = {*re.findall(r"`(Delta\w+)`", said.partition("compute no rows")[0]), "DeltaResultOperator"}
    assert without == {name for name in commits if commits[name] != "never" and "dry_run" not in takes[name]} | {
        "DeltaDiscardOperator"
    }
    spark = said.partition(" but ")[2].partition(")")[0]
    listed = re.split(r",\s*|\s+and\s+", spark.replace("`", ""))
    of_jobs = {name for name, maker in makers.items() if issubclass(maker, operators.DeltaJobOperator)} - {"DeltaJobOperator"}
    no_engine = {name for name in of_jobs if "engine" not in takes[name]}
    assert {short(name) for name in no_engine} == {short(name) for name in listed}


def test_every_operator_and_sensor_that_docs_and_pages_name_exists():
    templates = (ROOT / "airflow_delta" / "observe" / "www" / "templates").glob("*.html")
    texts = [*PAGES.values(), *(template.read_text() for template in templates)]
    named = {name for text in texts for name in re.findall(r"\bDelta\w+(?:Operator|Sensor)\b", text)}
    assert named - {*operators.__all__, *sensors.__all__} == {"DeltaCoreOperator"}  # the base, in the architecture


def test_every_command_it_shows_exists():
    commands = {name for text in PAGES.values() for name in re.findall(r"^(?:\$ )?airflow-delta ([\w-]+)", text, re.MULTILINE)}
    assert commands <= {command.name or command.callback.__name__ for command in app.registered_commands}
    assert len(commands) == 10
    modules = {name for text in PAGES.values() for name in re.findall(r"python -m (benchmarks\.\w+)", text)}
    assert [name for name in modules if find_spec(name) is None] == []


def test_every_macro_and_setting_it_names_exists():
    text = "\n".join(PAGES.values())
    settings = get_provider_info()["config"]["delta"]["options"]
    assert {name for name in re.findall(r"`\[delta\] (\w+)`", text) if name not in settings} == set()
    listed = PAGES["docs/connections.md"].partition("## Configuration")[2]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE) == list(settings)
    assert {name for name in re.findall(r"macros\.delta\.(\w+)", text) if not hasattr(macros, name)} == set()


def test_every_name_of_the_api_page_exists():
    names = re.findall(r"^::: ([\w.]+)$", PAGES["docs/api.md"], re.MULTILINE)
    values = re.findall(r"^        - (\w+)$", PAGES["docs/api.md"], re.MULTILINE)
    modules = [name.rpartition(".")[::2] for name in names if name != "airflow_delta.operators"]
    assert [(module, name) for module, name in modules if not hasattr(import_module(module), name)] == []
    assert {name for name in operators.__all__ if not name.endswith("Operator")} == set(values)


def test_the_docstrings_on_the_api_page_end_their_literals_as_markdown_does():
    names = re.findall(r"^::: ([\w.]+)$", PAGES["docs/api.md"], re.MULTILINE)
    shown = [getattr(import_module(module), name) for module, _, name in (name.rpartition(".") for name in names[1:])]
    shown += [getattr(operators, name) for name in re.findall(r"^        - (\w+)$", PAGES["docs/api.md"], re.MULTILINE)]
    shown += [getattr(found, name) for found in shown if inspect.isclass(found) for name in vars(found)]
    texts = {member.__qualname__: inspect.getdoc(member) or "" for member in shown if hasattr(member, "__qualname__")}
    assert [name for name, text in texts.items() if re.search(r"(?<!`)``[^`]+`[^`]+`{3}", text) or "::\n" in text] == []
    assert "delta.`path` ``" in texts["sql"]


def test_the_floors_of_the_architecture_are_those_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = PAGES["docs/architecture.md"].partition("## Floors")[2].partition("\n## ")[0]
    shown = [re.findall(r"`(airflow_delta/\w+)/`", row) for row in floors.splitlines() if row.startswith("| ")]
    layers = [layer.replace(".", "/").split(" | ") for layer in contracts[0]["layers"]]
    assert [row for row in shown if row] == layers


def test_the_architecture_names_many_places():
    assert len(re.findall(r"`airflow_delta/[\w/.]*`", PAGES["docs/architecture.md"])) > 30


def test_the_chart_shows_the_figures_of_the_benchmarks():
    chart = benchmark_chart(PAGES["docs/benchmarks.md"])
    assert (ROOT / "docs" / "images" / "benchmarks.svg").read_text() == chart, "run python docs/site/generate.py"
    assert chart.count(" s</text>") == 20


OF_AIRFLOW = {"name", "outlets", "inlets", "kwargs"}  # taken to give them another default, and documented by Airflow


@pytest.mark.parametrize("section", "\n".join(argument_guide()).split("## `")[1:], ids=lambda section: section.split("`")[0])
def test_the_guide_of_an_operator_has_every_argument_that_its_constructor_adds(section):
    name = section.split("`")[0]
    task = getattr(operators, name, None) or getattr(sensors, name)
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    shared = () if task is operators.DeltaJobOperator else operators.DeltaJobOperator.__mro__
    added = {argument for base in task.__mro__ if base not in shared and _is_ours(base) for argument in parameters(base)}
    assert added - {"self"} - OF_AIRFLOW <= listed
    assert listed <= {argument for base in task.__mro__ for argument in parameters(base)}


def _is_ours(base):
    return base.__module__.startswith("airflow_delta.")


def test_the_guide_has_the_arguments_of_bases_that_are_not_exported_and_quotes_that_markdown_can_read():
    sections = {text.partition("`")[0]: text for text in "\n".join(argument_guide()).split("## `")}
    assert "| `mode` | `'append'` | `append`, `overwrite`, `replace_where`," in sections["DeltaWriteOperator"]
    assert "| `engine` | `'spark'` | `\"spark\"` submits a job;" in sections["DeltaVacuumOperator"]
    assert "as `` delta.`uri` ``, or by its name" in sections["DeltaSqlOperator"]


def test_the_file_of_airflows_registry_lists_every_operator_and_sensor():
    listed = yaml.safe_load(REGISTRY_FILE.read_text())
    assert listed.keys() == yaml.safe_load(airflow_registry()).keys(), "run python docs/site/generate.py"
    entries = [entry for kind in ("operators", "sensors", "hooks", "triggers", "notifications") for entry in listed[kind]]
    assert all(entry["description"] for entry in entries)
    places = [entry["module"].rpartition(".")[::2] for entry in entries]
    assert [(module, name) for module, name in places if not hasattr(import_module(module), name)] == []
    classes = {name for room in (operators, sensors) for name in room.__all__ if name.endswith(("Operator", "Sensor"))}
    assert sorted(classes - {name for _, name in places}) == [], "run python docs/site/generate.py"
