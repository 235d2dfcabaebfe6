"""VACUUM, checkpoints and file copies of very large tables, distributed over Spark's workers."""
