"""Catalogs: looking up tables by name, and publishing tables under a name. Needs neither Airflow nor Spark.

``TableName`` is a name, ``Catalog`` the interface, and ``open_catalog`` opens an implementation: Glue, a Hive metastore, Unity
Catalog. ``UnityCommits`` are the commits of a table that Unity Catalog manages.
"""
