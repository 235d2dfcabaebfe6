"""A driver on the cluster: its state, and how to kill it, by the means of ``SparkSubmitOperator``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

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
        hook: Any = self._followed()._get_hook()  # noqa: SLF001 - upstream has no other door
        if self._is_yarn:
            hook._kill_yarn_application(self.job_id)  # noqa: SLF001
        else:
            namespace, hook._kubernetes_driver_pod = self.job_id.split(":", 1)  # noqa: SLF001
            hook._connection["namespace"] = namespace  # noqa: SLF001
            hook._delete_driver_pod()  # noqa: SLF001

    @property
    def _is_yarn(self) -> bool:
        return self.job_id.startswith("application_")

    def _followed(self) -> SparkSubmitOperator:
        return SparkSubmitOperator(
            task_id="driver",
            conn_id=self.conn_id,
            deploy_mode="cluster",
            yarn_track_via_rm_api=self._is_yarn,
            track_driver_via_k8s_api=not self._is_yarn,
        )
