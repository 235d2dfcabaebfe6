"""Features that differ between Airflow 3.0 and 3.3: the newer one if this Airflow has it, else a simple stand-in.

Names that only moved are imported from ``airflow.providers.common.compat.sdk``. Missing before Airflow 3.3:

* retry policies: instead, an error that a retry cannot help also becomes an ``AirflowFailException``
  (``airflow_delta.hooks.retry_policy``);
* the state stores of tasks and assets: small files take their place (``airflow_delta.hooks.state_file``), and tokens are
  derived from names (``airflow_delta.hooks.task_token``);
* shared streams of triggers: a watcher stores its cursor one poll later (``airflow_delta.triggers.commit_event``);
* ``on_kill`` of triggers: a trigger whose ``run`` is canceled asks whether its task is still deferred
  (``airflow_delta.triggers.result``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import airflow.sdk
from airflow import __version__ as AIRFLOW_VERSION  # noqa: N812 - it is a constant
from airflow.providers.common.compat.sdk import conf
from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

from airflow_delta.hooks.errors import AirflowFeatureMissingError

__all__ = [
    "AIRFLOW_VERSION",
    "HAS_PARTITION_KEYS",
    "HAS_RETRY_POLICIES",
    "HAS_SHARED_STREAMS",
    "HAS_STATE_STORES",
    "HAS_TRIGGER_KILLS",
    "MAPPED_FLAG",
    "NEVER_EXPIRE",
    "ArgNotSet",
    "RetryAction",
    "RetryDecision",
    "RetryPolicy",
    "SharedStreamProducer",
    "check_feature",
    "forgets_on_success",
    "is_deferred",
    "run_in_thread",
    "run_in_thread_of",
    "supervisor_pid",
    "was_skipped",
]

P = ParamSpec("P")
T = TypeVar("T")

MAPPED_FLAG = "_airflow_from_mapped"
"""The argument that Airflow passes to an operator's constructor when the other arguments are those of one mapped task."""

NEVER_EXPIRE: timedelta = getattr(airflow.sdk, "NEVER_EXPIRE", timedelta.max)
"""Retention, in a state store, of values that are needed as long as the DAG run exists."""

HAS_STATE_STORES: bool = hasattr(airflow.sdk, "NEVER_EXPIRE")
"""Whether Airflow has state stores for tasks and assets: from 3.3 on."""

HAS_RETRY_POLICIES: bool = hasattr(airflow.sdk, "RetryPolicy")
"""Whether a task can have a ``retry_policy``: from 3.3 on."""

HAS_PARTITION_KEYS: bool = HAS_STATE_STORES
"""Whether a task can set partition keys of its asset event: from 3.3 on; 3.2 has the timetable, but no way to set keys."""

HAS_TRIGGER_KILLS: bool = hasattr(BaseTrigger, "on_kill")
"""Whether a trigger is notified when a user clears or marks its task: from 3.3 on; before, its ``run`` is only canceled."""

if TYPE_CHECKING or HAS_RETRY_POLICIES:
    from airflow.sdk import RetryAction, RetryDecision, RetryPolicy
else:

    class RetryAction(Enum):
        """What should happen after a failure."""

        RETRY = "retry"
        FAIL = "fail"
        DEFAULT = "default"

    @dataclass(frozen=True)
    class RetryDecision:
        """What a policy decides."""

        action: RetryAction = RetryAction.DEFAULT
        retry_delay: timedelta | None = None
        reason: str | None = None

        @classmethod
        def fail(cls, reason: str | None = None) -> RetryDecision:
            """Fail at once."""
            return cls(action=RetryAction.FAIL, reason=reason)

        @classmethod
        def retry(cls, delay: timedelta | None = None, reason: str | None = None) -> RetryDecision:
            """Try again."""
            return cls(action=RetryAction.RETRY, retry_delay=delay, reason=reason)

    class RetryPolicy:
        """Stand-in for the base class of retry policies, which this Airflow does not evaluate."""


try:
    from airflow.triggers.shared_stream import SharedStreamProducer

    HAS_SHARED_STREAMS = True
except ModuleNotFoundError:
    SharedStreamProducer = object  # type: ignore[assignment,misc]
    HAS_SHARED_STREAMS = False

try:  # before Airflow 3.2, only this private class stands for the XCom of a skipped task
    from airflow.sdk.definitions._internal.types import ArgNotSet
except ImportError:

    class ArgNotSet:  # type: ignore[no-redef]
        """Stand-in for Airflow's private class, which this version does not have."""


def check_feature(feature: str, *, is_there: bool, needed: str) -> None:
    """Refuse an argument that needs a feature which this Airflow does not have.

    Args:
        feature: The argument, as the error is to name it.
        is_there: Whether this Airflow has the feature.
        needed: The first Airflow version that has it, such as ``3.3``.

    Raises:
        AirflowFeatureMissingError: This Airflow does not have the feature.
    """
    if not is_there:
        raise AirflowFeatureMissingError(feature=feature, version=AIRFLOW_VERSION, needed=needed)


def forgets_on_success() -> bool:
    """Whether Airflow deletes what a task keeps in its state store as soon as the task has succeeded."""
    return conf.getboolean("state_store", "clear_on_success", fallback=False)


def supervisor_pid() -> int | None:
    """Process id of the supervisor, through which this task talks to Airflow; None in ``dag.test()``.

    A task whose supervisor has died does not notice until its next request to Airflow; meanwhile Airflow may start the next
    try.
    """
    task_runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    is_child = hasattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket")  # dag.test() has none
    return os.getppid() if is_child else None


async def run_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run a function that blocks, and may ask Airflow for a connection, in a thread that all triggers share; return its result.

    In a triggerer before Airflow 3.2, a thread sends requests to Airflow through the event loop that started it, and has to
    know that loop: from a thread of ``asyncio.to_thread``, answers reach the wrong request, and all triggers of the triggerer
    end.
    """
    return await sync_to_async(function, thread_sensitive=False)(*arguments, **named)


async def run_in_thread_of(threads: ThreadPoolExecutor, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """As ``run_in_thread``, but in the caller's own threads, so that slow or queued calls do not delay other triggers."""
    return await sync_to_async(function, thread_sensitive=False, executor=threads)(*arguments, **named)


async def is_deferred(ti: Any) -> bool:
    """Whether Airflow reports a task as deferred; False if the task instance no longer exists.

    Args:
        ti: The ``task_instance`` of a trigger.
    """
    return await run_in_thread(_state_of, ti, ti.task_id) == "deferred"


def was_skipped(ti: Any, task_id: str) -> bool:
    """Whether another task of the same run was skipped.

    Of a mapped task, the instance with this task's map index counts; if there is no such instance, all of them must be skipped.

    Args:
        ti: The running task instance.
        task_id: Id of the other task.
    """
    state = _state_of(ti, task_id)
    states = {*_states_of(ti, task_id, None).values()} if state is None else {state}
    return states == {"skipped"}


def _state_of(ti: Any, task_id: str) -> str | None:
    """The state of a task of the same run; if it is mapped, or in a mapped task group, of the instance with this map index."""
    mapped = None if ti.map_index is None or ti.map_index < 0 else ti.map_index
    return _states_of(ti, task_id, mapped).get(task_id if mapped is None else f"{task_id}_{mapped}")


def _states_of(ti: Any, task_id: str, map_index: int | None) -> dict[str, str]:
    """States of a task's instances in the same run, by Airflow's names of them: of one map index, or of all (None)."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - few tasks need it

    states = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id], map_index=map_index
    ).get(ti.run_id, {})
    return {name: str(state) for name, state in states.items() if state}
