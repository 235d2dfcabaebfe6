"""Structured Streaming: tables as sinks that take each batch once, and as sources that follow the log."""

from airflow_delta.spark.streaming.sink import DeltaMergeSink, DeltaSink
from airflow_delta.spark.streaming.source import read_stream

__all__ = ["DeltaMergeSink", "DeltaSink", "read_stream"]
