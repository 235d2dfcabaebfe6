"""Settings of the session that scripts for delta-spark rely on."""

from __future__ import annotations

from pyspark.sql import SparkSession


def grows_schemas(spark: SparkSession) -> bool:
    """Whether writes and merges evolve the schema of tables by default (``schema.autoMerge``)."""
    return str(spark.conf.get("spark.databricks.delta.schema.autoMerge.enabled", "false")).lower() == "true"


def checks_retention(spark: SparkSession) -> bool:
    """Whether a vacuum refuses a retention below the table's."""
    return str(spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true")).lower() != "false"


def overwrites_partitions(spark: SparkSession) -> bool:
    """Whether an overwrite by SQL replaces only the partitions that rows come into."""
    return str(spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")).lower() == "dynamic"
