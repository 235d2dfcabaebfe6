"""A driver on the cluster: its state, and how to kill it, through ``SparkSubmitOperator``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_delta.hooks.spark_submit import SubmitOperator

DriverState = Literal["active", "succeeded", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDriver:
    """A driver in YARN's or Kubernetes' cluster mode.

    Attributes:
        conn_id: The Spark connection.
        job_id: YARN's id of the application, or ``namespace:pod`` of the driver's pod.
    """

    conn_id: str
    job_id: str

    def state(self) -> DriverState:
        """The state that the cluster reports. Raises whatever the cluster's client raises when there is no answer."""
        followed = self._followed()
        status = followed.get_job_status(self.job_id, {})  # no state store: nothing is kept
        if followed.is_job_active(status):
            return "active"
        return "succeeded" if followed.is_job_succeeded(status) else "failed"

    def kill(self) -> None:
        """Have the cluster kill the driver; its answer is only logged."""
        self._followed().kill_driver(self.job_id)

    @property
    def _is_yarn(self) -> bool:
        return self.job_id.startswith("application_")

    def _followed(self) -> SubmitOperator:
        return SubmitOperator(
            task_id="driver",
            conn_id=self.conn_id,
            deploy_mode="cluster",
            yarn_track_via_rm_api=self._is_yarn,
            track_driver_via_k8s_api=not self._is_yarn,
        )
