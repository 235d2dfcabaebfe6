"""Tables by name: what a catalog says about them, and how a table is published there. No Airflow, no Spark.

``TableName`` is a name, ``Catalog`` the port, ``open_catalog`` the way to an implementation: Glue, a Hive
metastore, Unity Catalog. ``UnityCommits`` are the commits of a table that Unity Catalog manages.
"""
