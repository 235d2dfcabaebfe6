"""The change feed on Spark: which commits tell what they changed by files of their own, and the feed as a DataFrame."""
