"""VACUUM and checkpoints of tables too large for one machine, shared by Spark's workers."""
