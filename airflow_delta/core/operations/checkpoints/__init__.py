"""Writing checkpoints of every kind in the protocol."""

from airflow_delta.core.operations.checkpoints.checkpoint_writer import CheckpointResult, checkpoint, write_checkpoint
from airflow_delta.core.operations.checkpoints.layout import CheckpointKind

__all__ = ["CheckpointKind", "CheckpointResult", "checkpoint", "write_checkpoint"]
