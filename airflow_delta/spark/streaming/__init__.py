"""Structured Streaming: tables as sinks that write each batch exactly once, and as sources that follow the log."""

from airflow_delta.spark.streaming.read_stream import read_stream
from airflow_delta.spark.streaming.sink import DeltaMergeSink, DeltaSink

__all__ = ["DeltaMergeSink", "DeltaSink", "read_stream"]
