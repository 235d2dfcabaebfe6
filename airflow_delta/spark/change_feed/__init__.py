"""The change feed on Spark: which commits write change files, and the feed as a DataFrame."""
