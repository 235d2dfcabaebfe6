"""Writing a version of the table as a checkpoint, of each kind that the protocol knows."""

from airflow_delta.core.operations.checkpoints.checkpoint_writer import CheckpointResult, checkpoint, write_checkpoint
from airflow_delta.core.operations.checkpoints.layout import CheckpointKind

__all__ = ["CheckpointKind", "CheckpointResult", "checkpoint", "write_checkpoint"]
