"""Session settings of delta-spark that scripts rely on."""

from __future__ import annotations

from pyspark.sql import SparkSession


def grows_schemas(spark: SparkSession) -> bool:
    """Whether writes and merges evolve table schemas by default (``schema.autoMerge``)."""
    return str(spark.conf.get("spark.databricks.delta.schema.autoMerge.enabled", "false")).lower() == "true"


def checks_retention(spark: SparkSession) -> bool:
    """Whether VACUUM refuses a retention below the table's."""
    return str(spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true")).lower() != "false"


def overwrites_partitions(spark: SparkSession) -> bool:
    """Whether INSERT OVERWRITE only replaces the partitions that receive rows."""
    return str(spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")).lower() == "dynamic"
