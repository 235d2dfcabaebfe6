"""The progress of a wait, kept between the processes of one task run."""

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
    """The progress of a sensor's task run, kept over retries and reschedules until the task is cleared or its wait changes.

    Attributes:
        store: The state store that keeps it.
        asked: Digest of table and wait: another wait never continues from the progress of an earlier one.
        clears: ``ti.max_tries``, which changes when the task is cleared.
    """

    store: StateStore
    asked: str
    clears: int

    @classmethod
    def of_task(cls, context: Context, hook: DeltaHook, table: str, question: Any) -> Self:
        """The stored progress of this task run for a wait, given as JSON values."""
        digest = hashlib.sha256(json.dumps([table, question], sort_keys=True).encode()).hexdigest()[:16]
        return cls(store=task_state(context, hook, table, kept="month"), asked=digest, clears=context["ti"].max_tries)

    def load(self) -> Mapping[str, int]:
        """The progress that was saved last; empty if there was nothing saved for this wait."""
        stored = dict(self.store.get(STATE_KEY) or {})
        is_of_this = (stored.pop("generation", None), stored.pop("asked", None)) == (self.clears, self.asked)
        return stored if is_of_this else {}

    def save(self, progress: Mapping[str, int]) -> None:
        """Keep this progress."""
        self.store.set(STATE_KEY, {**progress, "asked": self.asked, "generation": self.clears})
