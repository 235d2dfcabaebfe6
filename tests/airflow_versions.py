"""Differences between Airflow 3.0 and 3.3, hidden behind common names. Import it late, as it imports Airflow."""

# ruff: noqa: F401, PLC0415 - imported from here, and in some versions

import logging
import re
import sys
from contextlib import contextmanager
from importlib.metadata import version
from inspect import signature

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from structlog.testing import capture_logs

from airflow_delta.core.errors import DeltaError

AIRFLOW = tuple(int(part) for part in version("apache-airflow-core").split(".")[:2])

if AIRFLOW >= (3, 2):
    from airflow.dag_processing.dagbag import BundleDagBag, DagBag, sync_bag_to_db
elif AIRFLOW >= (3, 1):
    from airflow.models import dagbag
    from airflow.models.dagbag import DagBag, sync_bag_to_db

    def BundleDagBag(*, dag_folder, bundle_path, bundle_name):  # noqa: N802
        return dagbag.BundleDagBag(dag_folder=dag_folder, bundle_path=bundle_path)
else:
    from airflow.models.dagbag import DagBag

    def sync_bag_to_db(bag, bundle_name, bundle_version):
        for dag in bag.dags.values():
            dag.relative_fileloc = dag.relative_fileloc or "dag.py"
        bag.sync_to_db(bundle_name, bundle_version)

    def BundleDagBag(*, dag_folder, bundle_path, bundle_name):  # noqa: N802
        sys.path.append(str(bundle_path))
        return DagBag(dag_folder=dag_folder, include_examples=False)


try:
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
except ImportError:
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable

try:
    from airflow.sdk.listener import get_listener_manager
except ImportError:
    from airflow.listeners.listener import get_listener_manager

try:
    from airflow.sdk.module_loading import import_string
except ImportError:
    from airflow.utils.module_loading import import_string

try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization


def send_metrics(*, are_sent=True):
    """Make Airflow read its metrics settings again, or send no metrics."""
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


def as_raised(error):
    """The error before it ended the task: in versions without retry policies, it then has another class."""
    if not isinstance(error, DeltaError):
        return error
    rebuild, arguments = error.__reduce__()
    return rebuild(*arguments) if type(error) is not arguments[0] else error


@contextmanager
def errors_for_callbacks():
    """Make ``dag.test()`` pass a try's error to the callbacks of its task, as a worker does; before 3.3 it does not."""
    from airflow.sdk.execution_time import task_runner

    finalize = task_runner.finalize

    def finalize_with_error(ti, state, context, log, error=None):
        context.setdefault("exception", error)
        finalize(ti, state, context, log, error)

    task_runner.finalize = finalize_with_error
    try:
        yield
    finally:
        task_runner.finalize = finalize


def plain(printed):
    """The printed text without the colors and line breaks that some versions put into tracebacks."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", printed))


def xcoms(*, order_by=None, **wanted):
    """The values of the XComs that ``XComModel.get_many`` finds."""
    with create_session() as session:
        of_session = {"session": session} if "session" in signature(XComModel.get_many).parameters else {}
        query = XComModel.get_many(**wanted, **of_session)
        rows = query.all() if of_session else session.scalars(query).all()
        rows = rows if order_by is None else sorted(rows, key=order_by)
        return [XComModel.deserialize_value(row) for row in rows]


class _Collected(logging.Handler):
    def __init__(self, lines):
        super().__init__()
        self.lines = lines

    def emit(self, record):
        self.lines.append((record.levelname.lower(), record.getMessage()))


@contextmanager
def operator_log():
    """Collect level and text of what operators and sensors log: by structlog or, on Airflow 3.0, by ``logging``."""
    lines = []
    handler, logger = _Collected(lines), logging.getLogger("airflow.task")
    logger.addHandler(handler)
    try:
        with capture_logs() as entries:
            try:
                yield lines
            finally:
                lines += [(entry["log_level"], entry["event"]) for entry in entries]
    finally:
        logger.removeHandler(handler)
