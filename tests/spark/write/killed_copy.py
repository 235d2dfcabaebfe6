"""A COPY INTO in a process that is killed: ``python -m tests.spark.write.killed_copy TABLE FOLDER python|java RUN``.

The Python process, or its JVM, is killed as soon as Spark has begun to write a file.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import CopyIntoStatement
from airflow_delta.spark.write.copy_into import copy_into

# Long enough for the process to die before the rows are written.
SLOWLY = ("IF(java_method('java.lang.Thread', 'sleep', 2000L) = '', 0, id) AS id",)


def end_process():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_while_writing(table, kind):
    (jvm,) = (process for process in psutil.Process().children(recursive=True) if process.name() == "java")

    def watch():
        while not list(Path(table).glob("write-*/**/*.parquet")):
            time.sleep(0.001)
        if kind == "python":
            end_process()
        jvm.kill()

    threading.Thread(target=watch, daemon=True).start()


def load(spark, table, folder, select=(), **run):
    statement = CopyIntoStatement(table=table, path=str(folder), format="csv", schema="id BIGINT", select=select)
    return copy_into(spark, DeltaLog.for_table(table), statement, **run)


def main(table, folder, kind, run):
    token, start_version = json.loads(run)
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    kill_while_writing(table, kind)
    load(spark, table, folder, SLOWLY, origin=Origin(token=token), start_version=start_version)


if __name__ == "__main__":
    main(*sys.argv[1:])
