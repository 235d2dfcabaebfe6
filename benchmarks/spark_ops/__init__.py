"""The operations on Spark against plain Spark."""
