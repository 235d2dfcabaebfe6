"""Template macros about a run, as ``macros.delta.*``; the plugin registers them.

::

    {{ macros.delta.run_date(dag_run) }}                            the run's date, also where there is no {{ ds }}
    {{ macros.delta.from_version(triggering_asset_events) }}        the first version that the run's events announce
    {{ macros.delta.to_version(triggering_asset_events) }}          the last one
    {{ macros.delta.pinned_version(ti, "orders") }}                 the version that the task "pin" has pinned
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_delta.core.foreign_values import natural_number


def run_date(dag_run: Any) -> str:
    """The date of a run, as ``{{ ds }}``; the date of ``run_after`` for a run without a logical date, such as an event's."""
    return f"{dag_run.logical_date or dag_run.run_after:%Y-%m-%d}"


def from_version(triggering_asset_events: Mapping[Any, Any], asset: str | None = None) -> int | None:
    """The first version in the asset events that started the run; None if no event names a version.

    Events may arrive late, together or twice: a DAG that must not miss a version uses ``DeltaNewCommitsOperator``.

    Args:
        triggering_asset_events: The variable of this name in the template's context.
        asset: Name or URI of the asset; None for all assets.
    """
    return min((first for first, _ in _announced(triggering_asset_events, asset)), default=None)


def to_version(triggering_asset_events: Mapping[Any, Any], asset: str | None = None) -> int | None:
    """The last version in the asset events that started the run; see ``from_version``."""
    return max((last for _, last in _announced(triggering_asset_events, asset)), default=None)


def pinned_version(ti: Any, alias: str, task_id: str = "pin") -> int:
    """The version that ``DeltaPinOperator`` has pinned under an alias in this run; in a mapped task group, by this map index.

    Raises:
        ValueError: The task has not pinned a version under this alias, or is mapped and has pinned several.
    """
    index = {"map_indexes": ti.map_index} if _is_of_same_mapped_group(ti.task, task_id) else {}
    version: Any = ti.xcom_pull(task_ids=task_id, key=alias, **index)
    if version is None or version == []:
        raise ValueError(f"the task {task_id!r} has pinned no version of {alias!r} in this run")
    if isinstance(version, list):
        detail = f"the task {task_id!r} is mapped, and has pinned several versions of {alias!r}: {version!r:.100}"
        raise ValueError(detail)  # noqa: TRY004 - a template's error, like the one above
    pinned: int = version
    return pinned


def _is_of_same_mapped_group(task: Any, task_id: str) -> bool:
    """Whether both tasks are in one mapped task group: this task then reads the XCom of its own map index only."""
    other = task.dag.task_dict.get(task_id)
    own, others = (None if one is None else one.get_closest_mapped_task_group() for one in (task, other))
    return own is not None and others is not None and bool(own.group_id == others.group_id)


def _announced(triggering_asset_events: Mapping[Any, Any], asset: str | None) -> Iterator[tuple[int, int]]:
    """First and last version of each event, whether an operator or a watcher announced it."""
    for key, events in triggering_asset_events.items():
        if asset is None or asset in {key.name, getattr(key, "uri", None)}:
            for event in events:
                extra = event.extra or {}
                payload = extra.get("delta") or extra.get("payload")
                payload = payload if isinstance(payload, Mapping) else {}
                last = natural_number(payload.get("version", payload.get("to_version")))  # others' events may hold anything
                if last is not None:
                    first = natural_number(payload.get("from_version"))
                    yield last if first is None else first, last


MACROS = [run_date, from_version, to_version, pinned_version]
"""The macros that the plugin registers."""
