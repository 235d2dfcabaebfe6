"""What the tests need of Airflow 3.0 to 3.3, under one name each: it is imported late, as Airflow is."""

# ruff: noqa: F401, PLC0415 - imported from here, and in some versions

import sys
from importlib.metadata import version
from inspect import signature

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

AIRFLOW = tuple(int(part) for part in version("apache-airflow-core").split(".")[:2])

try:
    from airflow.dag_processing.dagbag import BundleDagBag, DagBag, sync_bag_to_db
except ImportError:
    from airflow.models.dagbag import DagBag

    def sync_bag_to_db(bag, bundle_name, bundle_version):
        for dag in bag.dags.values():
            dag.relative_fileloc = dag.relative_fileloc or "dag.py"
        bag.sync_to_db(bundle_name, bundle_version)

    def BundleDagBag(*, dag_folder, bundle_path, bundle_name):  # noqa: N802
        sys.path.append(str(bundle_path))
        return DagBag(dag_folder=dag_folder, include_examples=False)


try:
    from airflow.sdk.module_loading import import_string
except ImportError:
    from airflow.utils.module_loading import import_string

try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization


def send_metrics(*, are_sent=True):
    """Have Airflow read anew where metrics go, or send none."""
    from airflow.providers.common.compat.sdk import Stats

    try:
        from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
        from airflow.sdk.observability.metrics.statsd_logger import get_statsd_logger
    except ImportError:
        from airflow.metrics.base_stats_logger import NoStatsLogger
        from airflow.metrics.statsd_logger import get_statsd_logger
    factory = get_statsd_logger if are_sent else NoStatsLogger
    if hasattr(Stats, "initialize"):
        of_version = {"export_legacy_names": False} if "export_legacy_names" in signature(Stats.initialize).parameters else {}
        Stats.initialize(factory=factory, **of_version)
    else:
        type(Stats).factory, Stats.instance = factory, None


def xcoms(*, order_by=None, **wanted):
    """The values of the XComs that ``XComModel.get_many`` finds."""
    with create_session() as session:
        of_session = {"session": session} if "session" in signature(XComModel.get_many).parameters else {}
        query = XComModel.get_many(**wanted, **of_session)
        rows = query.all() if of_session else session.scalars(query).all()
        rows = rows if order_by is None else sorted(rows, key=order_by)
        return [XComModel.deserialize_value(row) for row in rows]
