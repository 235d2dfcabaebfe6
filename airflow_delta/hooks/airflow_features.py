"""What Airflow 3.0 to 3.3 have in different places, or not at all: the newer feature where it is there, else a plain stand-in.

What merely moved comes from ``airflow.providers.common.compat.sdk``. What is missing before 3.3:

* retry policies: errors that a retry cannot help end the task by their class (``airflow_delta.hooks.retry_policy``);
* the state stores of tasks and assets: small files take their place (``airflow_delta.hooks.state_file``), and tokens are
  derived from names (``airflow_delta.hooks.task_token``);
* shared streams of triggers: a watcher stores its cursor one poll later (``airflow_delta.triggers.commit_event``);
* ``on_kill`` of triggers: one whose ``run`` is canceled asks whether its task still waits (``airflow_delta.triggers.result``).
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
"""The argument by which Airflow tells a constructor that its other arguments are those of one mapped task."""

NEVER_EXPIRE: timedelta = getattr(airflow.sdk, "NEVER_EXPIRE", timedelta.max)
"""How long a state store keeps what is needed as long as the DAG run exists."""

HAS_STATE_STORES: bool = hasattr(airflow.sdk, "NEVER_EXPIRE")
"""Whether Airflow keeps values for tasks and assets: from 3.3 on."""

HAS_RETRY_POLICIES: bool = hasattr(airflow.sdk, "RetryPolicy")
"""Whether a task can have a ``retry_policy``: from 3.3 on."""

HAS_PARTITION_KEYS: bool = HAS_STATE_STORES
"""Whether a task can give its event partition keys: from 3.3 on; 3.2 has the timetable, and no way to name them."""

HAS_TRIGGER_KILLS: bool = hasattr(BaseTrigger, "on_kill")
"""Whether a trigger learns that a user has cleared or marked its task: from 3.3 on; before, its ``run`` is only canceled."""

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
        """The base of policies, which nothing evaluates here."""


try:
    from airflow.triggers.shared_stream import SharedStreamProducer

    HAS_SHARED_STREAMS = True
except ModuleNotFoundError:
    SharedStreamProducer = object  # type: ignore[assignment,misc]
    HAS_SHARED_STREAMS = False

try:  # private, and the only name of what stands for the XCom of a skipped task before Airflow 3.2
    from airflow.sdk.definitions._internal.types import ArgNotSet
except ImportError:

    class ArgNotSet:  # type: ignore[no-redef]
        """The class of no value."""


def check_feature(feature: str, *, is_there: bool, needed: str) -> None:
    """Return if this Airflow has a feature that an argument asks for.

    Args:
        feature: The argument, as the DAG names it.
        is_there: Whether this Airflow can carry it.
        needed: The Airflow from which on one can.

    Raises:
        AirflowFeatureMissingError: It cannot.
    """
    if not is_there:
        raise AirflowFeatureMissingError(feature=feature, version=AIRFLOW_VERSION, needed=needed)


def forgets_on_success() -> bool:
    """Whether Airflow deletes what a task keeps in its state store as soon as the task has succeeded."""
    return conf.getboolean("state_store", "clear_on_success", fallback=False)


def supervisor_pid() -> int | None:
    """The id of the process that supervises this task and speaks for it with Airflow; None in ``dag.test()``.

    A task whose supervisor is gone notices nothing before it asks Airflow for something; Airflow tries it again meanwhile.
    """
    task_runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    is_child = hasattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket")  # which dag.test() does without
    return os.getppid() if is_child else None


async def run_in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What the function returns, which blocks and may ask Airflow for a connection. All triggers share a few such threads.

    In a triggerer before Airflow 3.2 a thread asks through the event loop that has started it, and must know that one:
    from a thread of ``asyncio.to_thread`` answers come to the wrong request, and all triggers of the triggerer end.
    """
    return await sync_to_async(function, thread_sensitive=False)(*arguments, **named)


async def run_in_thread_of(threads: ThreadPoolExecutor, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """As ``run_in_thread``, in threads of one's own: what takes long, or waits for its turn, keeps no other trigger waiting."""
    return await sync_to_async(function, thread_sensitive=False, executor=threads)(*arguments, **named)


async def is_deferred(ti: Any) -> bool:
    """Whether Airflow says of a task that it waits in a triggerer; not of one that is gone.

    Args:
        ti: The ``task_instance`` of a trigger.
    """
    return await run_in_thread(_state_of, ti, ti.task_id) == "deferred"


def was_skipped(ti: Any, task_id: str) -> bool:
    """Whether another task of the same run was skipped; of a mapped one that with this task's index, without such a one all.

    Args:
        ti: The task instance that runs.
        task_id: The other's.
    """
    state = _state_of(ti, task_id)
    states = {*_states_of(ti, task_id, None).values()} if state is None else {state}
    return states == {"skipped"}


def _state_of(ti: Any, task_id: str) -> str | None:
    """The state of a task of the same run; of a mapped one, or a mapped task group, that with this task's index."""
    mapped = None if ti.map_index is None or ti.map_index < 0 else ti.map_index
    return _states_of(ti, task_id, mapped).get(task_id if mapped is None else f"{task_id}_{mapped}")


def _states_of(ti: Any, task_id: str, map_index: int | None) -> dict[str, str]:
    """The states of a task of the same run, by Airflow's names of its instances: with this map index, or all."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415 - only these few need it

    states = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id], map_index=map_index
    ).get(ti.run_id, {})
    return {name: str(state) for name, state in states.items() if state}
