"""Data operations on Spark DataFrames: reading, writing, merging, compacting. No Airflow, no Delta JAR."""
