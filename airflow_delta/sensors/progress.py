"""What a wait has seen, kept between the processes of one task run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow.sdk import Context

from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.state_file import task_state
from airflow_delta.hooks.task_token import StateStore

STATE_KEY = "airflow_delta.wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProgress:
    """The memory of a sensor's task run: over retries and reschedules, until the task is cleared or asks something else.

    Attributes:
        store: Where it is kept.
        asked: A digest of the question: another one never continues from the progress of a former one.
        clears: How often the task was cleared.
    """

    store: StateStore
    asked: str
    clears: int

    @classmethod
    def of_task(cls, context: Context, hook: DeltaHook, table: str, question: Any) -> Self:
        """The memory of this task run, of a question that JSON can say."""
        digest = hashlib.sha256(json.dumps([table, question], sort_keys=True).encode()).hexdigest()[:16]
        return cls(store=task_state(context, hook, table, kept="month"), asked=digest, clears=context["ti"].max_tries)

    def load(self) -> Mapping[str, int]:
        """What was saved last; empty for nothing."""
        stored = dict(self.store.get(STATE_KEY) or {})
        is_of_this = (stored.pop("generation", None), stored.pop("asked", None)) == (self.clears, self.asked)
        return stored if is_of_this else {}

    def save(self, progress: Mapping[str, int]) -> None:
        """Keep this progress."""
        self.store.set(STATE_KEY, {**progress, "asked": self.asked, "generation": self.clears})
