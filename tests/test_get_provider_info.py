"""Airflow can discover what the provider says it has."""

import json
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema
from airflow.sdk.module_loading import import_string

from airflow_delta.get_provider_info import get_provider_info


def test_the_description_is_valid():
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_everything_it_names_is_there():
    info = get_provider_info()
    modules = [
        module for kind in ("operators", "sensors", "triggers") for each in info[kind] for module in each["python-modules"]
    ]
    for module in modules:
        import_string(f"{module}.__doc__")


def test_the_entry_point_leads_to_it():
    (entry,) = [each for each in entry_points(group="apache_airflow_provider") if each.dist.name == "airflow-delta"]
    assert entry.load()()["package-name"] == "airflow-delta"
