"""Shipping code to Spark: the archive, the job scripts, and their upload."""
