"""Delta Lake pipelines on a team's own Spark, orchestrated by Airflow.

This module imports nothing: it is loaded on Spark drivers and while Airflow discovers providers.
"""

__version__ = "0.1.0"
