"""The change data feed on Spark: which commits write change data files, and the feed as a DataFrame."""
