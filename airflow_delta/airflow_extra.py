"""Imported first by every module that needs Airflow; if Airflow is missing, the error names the extra to install."""

try:
    import airflow.providers.apache.spark  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "airflow":
        raise
    raise ModuleNotFoundError(
        "operators, sensors, hooks, triggers and assets need Airflow and its Spark provider, and at least one of them is not "
        "installed: pip install 'airflow-delta[airflow]' (the command line and airflow_delta.core need neither)",
        name=error.name,
    ) from error
