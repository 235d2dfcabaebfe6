"""Our operations on Spark against plain Spark."""
