"""Sessions of scripts that were written for delta-spark."""

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from airflow_delta.spark import configure_spark_with_delta_pip
from airflow_delta.spark.data_source import registration

EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
DELTA = {EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension", CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (DELTA, {EXTENSIONS: "", CATALOG: "builtin"}),
        ({}, {CATALOG: "builtin"}),
        (
            {EXTENSIONS: f"org.geo.Functions, {DELTA[EXTENSIONS]}", CATALOG: "org.lake.Catalog"},
            {EXTENSIONS: "org.geo.Functions", CATALOG: "org.lake.Catalog"},
        ),
    ],
)
def test_only_the_classes_of_deltas_jar_are_left_out(given, kept, monkeypatch):
    options = dict(given)
    monkeypatch.setattr(registration, "register", lambda _: None)
    builder = SimpleNamespace(_options=options, config=options.__setitem__, getOrCreate=lambda: None)
    configure_spark_with_delta_pip(builder).getOrCreate()
    assert options == kept


def test_the_builder_has_all_methods_of_sparks(monkeypatch):
    registered = []
    monkeypatch.setattr(registration, "register", registered.append)
    builder = SparkSession.Builder()
    monkeypatch.setattr(type(builder), "create", lambda given: dict(given._options))
    configured = configure_spark_with_delta_pip(builder)

    assert (
        configured.appName("birds").master("local[1]").config(EXTENSIONS, DELTA[EXTENSIONS]).enableHiveSupport() is configured
    )
    names = {name for name in dir(SparkSession.Builder) if not name.startswith("_")}
    assert all(callable(getattr(configured, name)) for name in names)
    options = configured.create()
    assert (options["spark.app.name"], options["spark.master"], options[EXTENSIONS]) == ("birds", "local[1]", "")
    assert registered == [options]
    with pytest.raises(AttributeError, match="nothing"):
        configured.nothing()
