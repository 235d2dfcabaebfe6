"""Airflow can discover what the provider says it has, and the provider says all that it has."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema
import pytest
from airflow.providers.common.compat.sdk import BaseHook
from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_delta
from airflow_delta.get_provider_info import get_provider_info
from tests.airflow_versions import AIRFLOW

IMPORT_WITHOUT = """
import importlib, importlib.abc, json, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pyspark", "openlineage", "boto3", "s3fs", "gcsfs", "adlfs"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
for name in json.loads(sys.argv[1]):
    module, _, attribute = name.rpartition(":")
    getattr(importlib.import_module(module), attribute)
"""

COMMANDS = """
import contextlib, io, json, sys
from airflow.cli import cli_parser
parser = cli_parser.get_parser()
said = {}
for command in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        arguments = parser.parse_args(command.split())
        arguments.func(arguments)
    said[command] = out.getvalue()
print("SAID" + json.dumps(said))
"""


def modules_with(package, base):
    """The modules of a package that define a class which people use: public, and not only a base of others."""
    found = set()
    for module_info in pkgutil.iter_modules([f"{airflow_delta.__path__[0]}/{package}"]):
        name = f"airflow_delta.{package}.{module_info.name}"
        module = importlib.import_module(name)
        classes = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name]
        if any(issubclass(value, base) and not value.__name__.startswith("_") for value in classes):
            found.add(name)
    return found


def listed(kind):
    return {module for entry in get_provider_info()[kind] for module in entry["python-modules"]}


def named_objects():
    """Everything that the description names, as ``module:attribute``."""
    info = get_provider_info()
    modules = [f"{module}:__doc__" for kind in ("operators", "sensors", "triggers", "hooks") for module in listed(kind)]
    paths = [*info["extra-links"], *info["notifications"], *(plugin["plugin-class"] for plugin in info["plugins"])]
    paths += [connection_type["hook-class-name"] for connection_type in info["connection-types"]]
    keys = ("handler", "factory", "to_openlineage_converter")
    paths += [uri[key] for uri in info.get("asset-uris", ()) for key in keys if uri.get(key)]
    return modules + [":".join(path.rsplit(".", 1)) for path in paths]


def test_the_description_is_valid():
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.parametrize(
    ("kind", "base", "not_for_people"),
    [
        (
            "operators",
            BaseOperator,
            {f"airflow_delta.operators.{name}" for name in ("job", "core", "query_files", "statement_results", "written_rows")},
        ),
        ("sensors", BaseSensorOperator, {"airflow_delta.sensors.wait"}),
        ("triggers", BaseTrigger, set()),
        ("hooks", BaseHook, {"airflow_delta.hooks.spark_submit"}),
    ],
)
def test_everything_there_is_named(kind, base, not_for_people):
    assert listed(kind) == modules_with(kind, base) - not_for_people


def test_everything_it_names_can_be_imported_without_spark_lineage_or_object_stores():
    command = [sys.executable, "-c", IMPORT_WITHOUT, json.dumps(named_objects())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]


@pytest.mark.parametrize("group", ["apache_airflow_provider", "airflow.plugins"])
def test_the_entry_points_lead_to_it(group):
    (entry,) = [entry_point for entry_point in entry_points(group=group) if entry_point.dist.name == "airflow-delta"]
    entry.load()


def test_airflows_commands_show_it(airflow_database):
    shown = {
        "providers get airflow-delta --full -o json": "airflow_delta.operators.merge",
        "providers list -o json": "airflow-delta",
        "providers hooks -o json": "airflow_delta.hooks.delta.DeltaHook",
        "providers links -o json": "airflow_delta.observe.links.DeltaTableHistoryLink",
        "providers notifications -o json": "airflow_delta.notifications.DeltaConflictNotifier",
        "providers triggers -o json": "airflow_delta.triggers.commit_event",
        "providers widgets -o json": "storage_conn_id",
        "providers behaviours -o json": '"delta"',
        "config list --section delta": "spark_history_url",
        "plugins -o json": "airflow_delta",
    }
    if AIRFLOW < (3, 2):  # which do not read a connection's fields from the provider's description
        del shown["providers widgets -o json"], shown["providers behaviours -o json"]
    command = [sys.executable, "-c", COMMANDS, json.dumps(list(shown))]
    environment = {**os.environ, "COLUMNS": "500"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3_000:]
    said = json.loads(done.stdout.split("SAID", 1)[1])
    assert {name: part for name, part in shown.items() if part not in said[name]} == {}
