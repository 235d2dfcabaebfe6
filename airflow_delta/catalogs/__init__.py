"""Tables by name: what a catalog says about them, and how a table is published there. No Airflow, no Spark.

``TableName`` is a name, ``Catalog`` the port, ``open_catalog`` the way to an implementation: Glue, a Hive
metastore, Unity Catalog.
"""
