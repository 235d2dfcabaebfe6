"""Reads tables by their Unity Catalog names with duckdb, which uses the older API and its own Delta reader."""

from importlib.resources import files

import duckdb


def rows_by_name(url, name, *, token="secret-token", catalog="main"):
    """The rows of a catalog table, ordered by ``id``."""
    with duckdb.connect() as connection:
        for extension in ("httpfs", "delta", "unity_catalog"):
            folder = files(f"duckdb_extension_{extension}") / "extensions" / f"v{duckdb.__version__}"
            connection.load_extension(str(folder / f"{extension}.duckdb_extension"))
        connection.sql(f"CREATE SECRET (TYPE unity_catalog, TOKEN '{token}', ENDPOINT '{url}', AWS_REGION 'eu-west-1')")
        connection.sql(f"ATTACH '{catalog}' AS unity (TYPE unity_catalog)")
        return connection.sql(f"FROM unity.{name} ORDER BY id").to_arrow_table().to_pylist()
